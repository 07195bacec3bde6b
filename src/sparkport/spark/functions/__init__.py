"""The functions that a Spark catalog brings along, and those of the user that Spark runs."""
