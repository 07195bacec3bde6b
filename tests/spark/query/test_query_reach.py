"""No query reaches a file outside the warehouse or an address, whatever XML it is given."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkport.errors import PermissionDeniedError, SparkportError
from sparkport.spark.catalog.catalog import SparkCatalog
from tests.spark.functions.calling import rows


class Listener(socketserver.ThreadingTCPServer):
    """Counts who connects and closes the connection at once."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.connections = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: object, client_address: object) -> None:
        """Count a connection."""
        self.connections += 1
        super().process_request(request, client_address)  # type: ignore[arg-type]


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Return an address that a query must not call."""
    with Listener() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


DOCUMENTS = [
    '<!DOCTYPE a SYSTEM "{url}/a.dtd"><a>1</a>',
    '<!DOCTYPE a [<!ENTITY % p SYSTEM "{url}/p">%p;]><a>1</a>',
    '<!DOCTYPE a [<!ENTITY e SYSTEM "{url}/e">]><a>&e;</a>',
    '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="{url}/s">1</a>',
]
EXPRESSIONS = [
    "xpath_string(x, 'a')",
    "xpath(x, 'a/text()')",
    "xpath_int(x, 'a')",
    "from_xml(x, 'a INT')",
    "from_xml(x, 'a INT', map('mode', 'PERMISSIVE'))",
]


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_xml_fetches_nothing(
    catalog: SparkCatalog, listener: Listener, expression: str, document: str
) -> None:
    """What a document refers to is not fetched: it is an error, or left out."""
    text = document.format(url=listener.url).replace("'", "''")
    sql = f"SELECT {expression} AS v FROM (SELECT '{text}' || substr(id, 2) AS x FROM range(1))"
    try:
        rows(catalog, "query", sql)
    except SparkportError as error:
        assert listener.url not in str(error)  # noqa: PT017  (both outcomes are right)

    assert listener.connections == 0


@pytest.mark.parametrize(
    "call",
    [
        "from_xml('<a>1</a>', 'a INT', map('rowValidationXSDPath', '{url}'))",
        "from_xml('<a>1</a>', 'a INT', map('ROWVALIDATIONXSDPATH', '{url}'))",
        "from_xml('<a>1</a>', 'a INT', map('mode', 'FAILFAST', 'rowValidationXSD' || 'Path', '{url}'))",
        "from_xml('<a>1</a>', 'a INT', map_from_arrays(array('rowValidationXSDPath'), array('{url}')))",
        "from_xml('<a>1</a>', 'a INT', str_to_map('rowValidationXSDPath={url}', ',', '='))",
        "from_xml('<a>1</a>', 'a INT', if(true, map('rowValidationXSDPath', '{url}'), map('a', 'b')))",
        "schema_of_xml('<a>1</a>', map('rowValidationXSDPath', '{url}'))",
        "to_xml(named_struct('a', 1), map('rowValidationXSDPath', '{url}'))",
        "from_xml('<a>1</a>', schema_of_xml('<a>1</a>', map('rowValidationXSDPath', '{url}')))",
        'from_json(\'1\', \'{{"type":"udt","class":"java.util.Date","sqlType":"string"}}\')',
        'from_json(\'1\', concat(\'{{"type":"udt",\', \'"class":"java.util.Date"}}\'))',
        'from_csv(\'1\', \' {{"type":"udt","class":"java.util.Date"}}\')',
        'variant_get(parse_json(\'1\'), \'$\', \'{{"type":"udt","class":"java.util.Date"}}\')',
    ],
)
def test_options_that_name_files_and_types_that_name_classes_are_refused(
    catalog: SparkCatalog, listener: Listener, call: str
) -> None:
    """Options are a literal map of names that are known to be harmless; types are written in SQL."""
    with pytest.raises(PermissionDeniedError, match="query does not allow"):
        rows(catalog, "query", f"SELECT {call.format(url=listener.url)} AS v")

    assert listener.connections == 0


def test_a_file_outside_the_warehouse_is_not_sent(
    catalog: SparkCatalog, listener: Listener, tmp_path: Path
) -> None:
    """A schema that includes a file and sends it elsewhere is not read at all."""
    (tmp_path / "secret").write_text("secret")
    schema = tmp_path / "a.xsd"
    schema.write_text(f'<!DOCTYPE s SYSTEM "{listener.url}/a.dtd"><s/>')
    with pytest.raises(PermissionDeniedError):
        rows(catalog, "query", f"SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '{schema}')) v")

    assert listener.connections == 0


def test_java_itself_fetches_no_document_type_and_no_schema(spark: SparkSession) -> None:
    """Whatever else parses XML in Spark's process is held to the same."""
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]

    assert system.getProperty("javax.xml.accessExternalDTD") == ""
    assert system.getProperty("javax.xml.accessExternalSchema") == ""
