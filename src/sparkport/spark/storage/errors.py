"""What can be wrong with files of a table."""

from __future__ import annotations

from sparkport.errors import PreconditionError
from sparkport.spark.storage.folder_names import table_label


class UnreadableLogError(PreconditionError):
    """A file of the log exists, but the file system cannot read it."""

    def __init__(self, location: str, error: OSError) -> None:
        table = table_label(location.partition("/_delta_log")[0])
        super().__init__(f"the log of table '{table}' cannot be read: {error.strerror or 'the disk fails'}")
