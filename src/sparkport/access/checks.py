"""Read an access file and make sure that all of it makes sense, its expressions too."""

from __future__ import annotations

from pathlib import Path

from sparkport.access.file import read_rules
from sparkport.access.rules import AccessRules
from sparkport.errors import ConfigError, InvalidRequestError
from sparkport.expressions.evaluation import referenced_columns
from sparkport.expressions.personal import personalized


def checked_rules(path: Path) -> AccessRules:
    """Return what a file says. Raises ConfigError with all that is wrong and the lines."""
    rules = read_rules(path)
    errors = []
    expressions = [(one.line, one.condition) for one in rules.filters]
    expressions += [(one.line, one.expression) for one in rules.masks]
    for line, expression in dict.fromkeys(expressions):
        try:
            # It is the same for all callers whether an expression is one.
            referenced_columns(personalized(expression, "nobody", frozenset()))
        except InvalidRequestError as error:
            errors.append(f"  line {line}: {error}")
    if errors:
        raise ConfigError(f"the access file '{path}' is not valid:\n" + "\n".join(errors))
    return rules
