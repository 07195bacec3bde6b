"""What can be wrong with files of a table."""

from __future__ import annotations

from sparkport.errors import PreconditionError
from sparkport.spark.storage.folder_names import table_label


class UnreadableLogError(PreconditionError):
    """The file system does not give a file of the log, though there is one."""

    def __init__(self, location: str, error: OSError) -> None:
        table = table_label(location.partition("/_delta_log")[0])
        super().__init__(f"the log of table '{table}' cannot be read: {error.strerror or 'the disk fails'}")
