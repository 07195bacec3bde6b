"""Types on storage: how Spark tables keep every Arrow type exactly."""

from sparkport.spark.types.codec import Pushdown
from sparkport.spark.types.errors import BatchTooLargeError, StoredValueError, UnsupportedTypeError
from sparkport.spark.types.fields import ARROW_KEY, DEFAULT_KEY, arrow_field, pushable, spark_field
from sparkport.spark.types.scalars import encode_scalar
from sparkport.spark.types.storage import storage_type
from sparkport.spark.types.values import decode, decode_batch, decode_batches, encode, encode_batch

__all__ = [
    "ARROW_KEY",
    "DEFAULT_KEY",
    "BatchTooLargeError",
    "Pushdown",
    "StoredValueError",
    "UnsupportedTypeError",
    "arrow_field",
    "decode",
    "decode_batch",
    "decode_batches",
    "encode",
    "encode_batch",
    "encode_scalar",
    "pushable",
    "spark_field",
    "storage_type",
]
