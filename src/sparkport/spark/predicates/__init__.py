"""Predicates on Spark storage: as Arrow filters, as Spark SQL, and against the bounds of files."""

from sparkport.spark.predicates.arrow_filters import arrow_expression
from sparkport.spark.predicates.conditions import Condition
from sparkport.spark.predicates.skipping import Bounds, may_match
from sparkport.spark.predicates.sql_filters import spark_sql
from sparkport.spark.predicates.sql_words import identifier, literal
from sparkport.spark.predicates.targets import ColumnTarget
from sparkport.spark.predicates.translation import translate

__all__ = [
    "Bounds",
    "ColumnTarget",
    "Condition",
    "arrow_expression",
    "identifier",
    "literal",
    "may_match",
    "spark_sql",
    "translate",
]
