"""The console in a real browser: log in, browse, run, plot, cancel, download, and what goes wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sparkport
from sparkport.app.authentication.tokens import TokenFile
from sparkport.app.authentication.users import UserFile
from sparkport.app.sample import load_sample
from sparkport.memory import MemoryCatalog
from tests.requirements import missing

from .browser import Browser, find_browser

CTRL = 2
ENDLESS = "SELECT count(*) AS n FROM range(100000000) a, range(100000000) b"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    """Return a list of tokens."""
    return TokenFile(tmp_path_factory.mktemp("tokens") / "tokens")


@pytest.fixture(scope="module")
def server(tokens: TokenFile) -> Iterator[sparkport.Server]:
    """Serve the sample, with a console."""
    catalog = MemoryCatalog()
    load_sample(catalog)
    tokens.create("ada", None)
    with sparkport.Server(
        catalog, port=0, token="console-token", tokens=tokens.path, http_port=0, grace_seconds=0.2
    ) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a browser, or skip."""
    program = find_browser()
    if program is None:
        missing("browser", "chromium is not installed")
    with Browser(program) as found:
        yield found


@pytest.fixture
def page(browser: Browser, server: sparkport.Server) -> Iterator[Browser]:
    """Return a browser that has logged in, and see to it that nothing failed inside the page."""
    browser.open(f"{server.console}/")
    browser.wait("document.querySelector('#token') || document.querySelector('.tree a')")
    if browser.run("Boolean(document.querySelector('#token'))"):
        browser.type("#token", "console-token")
        browser.press("Enter")
        browser.wait("document.querySelector('.tree a')")
    browser.problems.clear()
    yield browser
    assert [text for text in browser.problems if "Failed to load resource" not in text] == []


def run_sql(page: Browser, server: sparkport.Server, sql: str) -> None:
    """Type a statement and run it with the keyboard."""
    page.open(f"{server.console}/sql")
    page.wait("document.querySelector('#editor') && document.querySelector('select option')")
    page.type("#editor", sql)
    page.press("Escape")
    page.press("Enter", CTRL)


def button(page: Browser, label: str) -> None:
    """Click a button by what is written on it."""
    found = f"[...document.querySelectorAll('button')].find(b => b.textContent === '{label}')"
    page.wait(f"{found} && !{found}.disabled", label)
    page.run(f"{found}.click()")


def test_a_wrong_token_is_told_and_the_right_one_opens(browser: Browser, server: sparkport.Server) -> None:
    """Nothing is shown before the log-in, and the token is not kept where scripts can read it."""
    browser.open(f"{server.console}/catalog")
    browser.wait("document.querySelector('#token')")
    shown = browser.text()
    browser.type("#token", "wrong")
    browser.press("Enter")
    browser.wait_text("This token is not valid.")
    browser.type("#token", "console-token")
    browser.press("Enter")
    browser.wait_text("orders")

    assert "orders" not in shown
    assert browser.run("document.cookie") == ""
    assert browser.run("JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})") == "{}{}"


def test_a_table_is_browsed_and_seen_as_it_was(page: Browser, server: sparkport.Server) -> None:
    """Columns, rows and snippets are shown; the slider goes back to the empty table."""
    page.click(".tree a[href='/catalog/lakehouse/sales/orders']")
    page.wait_text("notebook")
    shown = page.text()
    page.run(
        "(e => { e.value = 0; e.dispatchEvent(new Event('input')) })(document.querySelector('#version'))"
    )
    page.wait_text("0 rows")

    assert page.run("location.pathname") == "/catalog/lakehouse/sales/orders"
    assert "decimal128(10, 2)" in shown
    assert "SELECT * FROM lakehouse.sales.orders;" in shown
    page.open(f"{server.console}/catalog")
    page.wait_text("CREATE SECRET")
    assert server.location in page.text()


def test_a_query_fills_a_table_that_scrolls(page: Browser, server: sparkport.Server) -> None:
    """100,000 rows are there, of which only those in view are in the page; the last one can be seen."""
    run_sql(page, server, "SELECT range AS n, 'row ' || range AS name FROM range(100000)")
    page.wait_text("100,000 rows ·")
    drawn = page.run("document.querySelectorAll('.grid tbody tr').length")
    begun = time.monotonic()
    page.run("document.querySelector('.gridbox').scrollTop = 1e9")
    page.wait_text("row 99999")
    seconds = time.monotonic() - begun

    assert drawn < 200
    assert seconds < 5


def test_a_result_is_plotted_and_downloaded(page: Browser, server: sparkport.Server, tmp_path: Path) -> None:
    """A chart has a bar for each row; a download has the rows."""
    run_sql(page, server, "SELECT product, sum(quantity) AS pieces FROM sales.orders GROUP BY ALL")
    page.wait_text("5 rows ·")
    button(page, "Chart")
    page.wait("document.querySelectorAll('.plot .bar').length === 5")
    page.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    button(page, "Parquet")
    until = time.monotonic() + 30
    while not (tmp_path / "rows.parquet").exists() and time.monotonic() < until:
        time.sleep(0.05)

    assert pa.parquet.read_table(tmp_path / "rows.parquet").num_rows == 5
    assert page.run("document.querySelector('.plot').getAttribute('aria-label')") == "pieces by product"


def test_an_error_is_shown_where_it_is(page: Browser, server: sparkport.Server) -> None:
    """The word that is wrong is selected, and marked below the message."""
    run_sql(page, server, "SELECT id,\n  nope FROM sales.orders")
    page.wait_text("NOT_FOUND")

    selected = "(e => e.value.slice(e.selectionStart, e.selectionEnd))(document.querySelector('#editor'))"
    assert page.run(selected) == "nope"
    assert "  ^^^^" in page.text()


def test_names_are_completed(page: Browser, server: sparkport.Server) -> None:
    """Typing offers tables and keywords; Tab takes the first."""
    page.open(f"{server.console}/sql")
    page.wait("document.querySelector('#editor') && document.querySelector('select option')")
    page.type("#editor", "SELECT * FROM sales.ord")
    page.wait("!document.querySelector('#completion').hidden")
    page.press("Tab")

    assert page.run("document.querySelector('#editor').value") == "SELECT * FROM sales.orders"


def test_a_running_statement_is_seen_and_cancelled(page: Browser, server: sparkport.Server) -> None:
    """The list shows it with a button that ends it; the page that runs it says so."""
    run_sql(page, server, ENDLESS)
    page.wait("[...document.querySelectorAll('button')].some(b => b.textContent === 'Cancel' && !b.disabled)")
    page.wait("performance.now() > 0")
    button(page, "Cancel")
    page.wait_text("cancelled ·")
    page.open(f"{server.console}/statements")
    page.wait_text(ENDLESS)

    assert page.run("document.querySelector('.statements tbody .state').textContent") == "cancelled"
    page.wait("document.querySelectorAll('.plot .line').length === 3", "the plots")


def test_an_expired_token_is_told(browser: Browser, server: sparkport.Server, tokens: TokenFile) -> None:
    """A session whose token was revoked leads back to the log-in, with the reason."""
    grace = tokens.create("grace", None)
    browser.open(f"{server.console}/catalog")
    browser.wait("document.querySelector('#token') || document.querySelector('.tree a')")
    if not browser.run("Boolean(document.querySelector('#token'))"):
        browser.click("#logout")
    browser.type("#token", grace)
    browser.press("Enter")
    browser.wait_text("grace")
    tokens.revoke("grace")
    browser.click("nav a[data-view=statements]")
    browser.wait_text("Your session has ended")

    assert browser.run("Boolean(document.querySelector('#token'))")


def test_a_user_logs_in_with_a_password(browser: Browser, tmp_path: Path) -> None:
    """With a list of users there is a field for the name, and a wrong password is told as such."""
    users = UserFile(tmp_path / "users")
    users.create("ada", "correct horse battery", None)
    with sparkport.Server(MemoryCatalog(), port=0, users=users.path, http_port=0) as server:
        browser.open(f"{server.console}/statements")
        browser.wait("document.querySelector('form > :not([hidden]) > #user')")
        browser.type("#user", "ada")
        browser.type("#token", "wrong")
        browser.press("Enter")
        browser.wait_text("the user name or the password is not valid")
        browser.type("#token", "correct horse battery")
        browser.press("Enter")
        browser.wait_text("No statements.")

        assert "ada" in browser.text()


def test_a_server_that_is_down_is_told_and_found_again(browser: Browser) -> None:
    """The page says that nobody answers, and goes on by itself when somebody does."""
    with sparkport.Server(MemoryCatalog(), port=0, authenticate=False, http_port=0) as first:
        assert first.http is not None
        port = first.http.port
        browser.open(f"{first.console}/statements")
        browser.wait_text("No statements.")
    browser.wait_text("The server does not answer.")
    with sparkport.Server(MemoryCatalog(), port=0, authenticate=False, http_port=port):
        browser.wait("document.querySelector('#alert').hidden", "the end of the alert")


def test_everything_has_a_name_and_a_place_for_the_keyboard(page: Browser, server: sparkport.Server) -> None:
    """Each field, button and picture has a name for screen readers, and each view a heading."""
    script = """[...document.querySelectorAll('button, input, select, textarea, svg[role=img]')].filter(e =>
        !e.closest('[hidden]') && !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
        .map(e => e.outerHTML)"""
    for view in ("catalog", "catalog/lakehouse/sales/orders", "statements", "sql"):
        page.open(f"{server.console}/{view}")
        page.wait("document.querySelector('main h1')", view)

        assert page.run(script) == []
        assert page.run("document.documentElement.lang") == "en"


@pytest.mark.parametrize("width", [390, 1280])
def test_no_view_is_wider_than_the_screen(page: Browser, server: sparkport.Server, width: int) -> None:
    """On a phone nothing sticks out at the side."""
    page.send(
        "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600
    )
    for view in ("catalog", "catalog/lakehouse/sales/orders", "statements", "sql"):
        page.open(f"{server.console}/{view}")
        page.wait("document.querySelector('main h1')", view)

        assert page.run("document.documentElement.scrollWidth") <= width, view
    page.send("Emulation.clearDeviceMetricsOverride")
