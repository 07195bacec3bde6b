"""Arguments that make a harmless function read files or load classes: options, and types given as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkport.errors import PermissionDeniedError
from sparkport.spark.query.plan_classes import ANALYSIS, EXPRESSIONS

Node = Mapping[str, Any]

# By position: where a function takes options, and where the name of a type.
_OPTIONS = {
    "from_csv": 2,
    "from_json": 2,
    "from_xml": 2,
    "schema_of_csv": 1,
    "schema_of_json": 1,
    "schema_of_xml": 1,
    "to_csv": 1,
    "to_json": 1,
    "to_xml": 1,
}
_TYPES = {"from_csv": 1, "from_json": 1, "from_xml": 1, "variant_get": 2, "try_variant_get": 2}
_INFERRED_TYPES = {"schema_of_csv", "schema_of_json", "schema_of_xml"}

# Those of the readers of JSON, CSV and XML that neither name a file nor size a buffer; in lower case.
_ALLOWED_OPTIONS = frozenset(
    name.lower()
    for name in (
        *("allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers"),
        *("allowNumericLeadingZeros", "allowSingleQuotes", "allowUnquotedControlChars"),
        *("allowUnquotedFieldNames", "arrayElementName", "attributePrefix", "charToEscapeQuoteEscaping"),
        *("charset", "columnNameOfCorruptRecord", "comment", "dateFormat", "declaration", "delimiter"),
        *("dropFieldIfAllNull", "emptyValue", "enableDateTimeParsingFallback", "encoding", "enforceSchema"),
        *("escape", "escapeQuotes", "excludeAttribute", "header", "ignoreLeadingWhiteSpace"),
        *("ignoreNamespace", "ignoreNullFields", "ignoreSurroundingSpaces", "ignoreTrailingWhiteSpace"),
        *("indent", "inferSchema", "lineSep", "locale", "mode", "multiLine", "nanValue", "negativeInf"),
        *("nullValue", "positiveInf", "preferDate", "prefersDecimal", "pretty", "primitivesAsString"),
        *("quote", "quoteAll", "rootTag", "rowTag", "samplingRatio", "sep", "singleVariantColumn"),
        *("timeFormat", "timestampFormat", "timestampNTZFormat", "timeZone", "treatEmptyValuesAsNulls"),
        *("unescapedQuoteHandling", "validateName", "valueTag", "wildcardColName"),
        "writeNonAsciiCharacterAsCodePoint",
    )
)
# Spark also takes JSON, in which a type can be any Java class that it then makes an object of.
_SQL_TYPE = re.compile(r"\s*[A-Za-z_`]")


@dataclass(frozen=True, slots=True)
class Tree:
    """A node of a plan or an expression with its children."""

    node: Node
    children: tuple[Tree, ...]

    @property
    def text(self) -> str | None:
        """The value of a literal text."""
        is_text = self.node["class"] == f"{EXPRESSIONS}Literal" and self.node.get("dataType") == "string"
        return str(self.node["value"]) if is_text and self.node.get("value") is not None else None

    @property
    def function(self) -> str | None:
        """The name of an unqualified function."""
        if self.node["class"] != f"{ANALYSIS}UnresolvedFunction":
            return None
        return str(self.node["nameParts"]).strip("[]").lower()


def trees(nodes: Sequence[Node]) -> list[Tree]:
    """Return the trees of the nodes of one plan, which Spark lists parents first. Deep ones cost no stack."""
    made: list[Tree] = []
    waiting: list[Tree] = []
    for node in reversed(nodes):
        count = node.get("num-children", 0)
        children = tuple(waiting.pop() for _ in range(count))
        waiting.append(Tree(node, children))
        made.append(waiting[-1])
    return made


def check_arguments(function: str, arguments: Sequence[Tree]) -> None:
    """Make sure that a call names no files and no classes. Raises PermissionDeniedError."""
    if function not in _OPTIONS and function not in _TYPES:
        return
    if any(argument.node["class"] == f"{EXPRESSIONS}NamedArgumentExpression" for argument in arguments):
        raise PermissionDeniedError(f"query does not allow arguments by name for '{function}'")
    types, options = _TYPES.get(function), _OPTIONS.get(function)
    if types is not None and types < len(arguments):
        _check_type(function, arguments[types])
    if options is not None and options < len(arguments):
        _check_options(function, arguments[options])


def _check_type(function: str, argument: Tree) -> None:
    if argument.function in _INFERRED_TYPES:
        return  # a call of its own, which is checked too
    if argument.text is None or not _SQL_TYPE.match(argument.text):
        raise PermissionDeniedError(
            f"query does not allow this type for '{function}': give a literal such as 'a INT, b STRING',"
            " or schema_of_json and the like"
        )


def _check_options(function: str, argument: Tree) -> None:
    texts = [child.text for child in argument.children]
    if argument.function != "map" or None in texts:
        raise PermissionDeniedError(
            f"query does not allow these options for '{function}': give a map of literal texts"
        )
    for name in texts[::2]:
        if str(name).lower() not in _ALLOWED_OPTIONS:
            raise PermissionDeniedError(f"query does not allow the option '{name}' of '{function}'")
