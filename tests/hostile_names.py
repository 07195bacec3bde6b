"""Names that programs misread: chosen ones, and as many random ones as a test likes."""

from __future__ import annotations

import random

NASTY = [
    "`",
    "``",
    "`; DROP TABLE t; --",
    "'",
    '"',
    'it\'s "quoted" `so`',
    ";",
    ".",
    "..",
    "a.b.c",
    "`a`.`b`",
    "/",
    "../../etc",
    "\\",
    "\\'",
    " ",
    " both ends ",
    "tab\tnew\nline\r",
    "\x01\x7f",
    "%20%2F%",
    "%+",
    "%=",
    "${spark.app.name}",
    "${x",
    "{}(),=",
    "*",
    "?",
    "#&=+:@",
    "--",
    "/* */",
    "_delta_log",
    "_metadata",
    "_change_type",
    ".hidden",
    "x.db",
    "select",
    "table",
    "NULL",
    "1",
    "-1",
    "t",
    "s",
    "Gr\u00fc\u00dfe",
    "e\u0301",
    "\u00e9",
    "\u65e5\u672c\u8a9e",
    "\U0001f986",
    "\u202eright to left",
    "\u0130stanbul",
    "\u00fc" * 255,
    "\U0001f680" * 255,
]

_LETTERS = "./\\%+=_ ~-`'\";:,${}()[]<>!?*&#@|^\n\t\r\x01aAzZ09\u00e9\u0301\u00fc\u6570\u202e\U0001f986"
_WORDS = ["select", "from", "NULL", "``", "`.`", "${x}", "..", "%2F", "--", "/*", "';", ".db", "_delta_log"]


def random_names(count: int, seed: int) -> list[str]:
    """Return different names of up to 255 characters, most of them of what has a meaning somewhere."""
    chance = random.Random(seed)
    found: dict[str, None] = dict.fromkeys(NASTY)
    while len(found) < count:
        length = chance.choice([1, 2, 3, 8, 20, 60, 255])
        pieces = [_piece(chance) for _ in range(length)]
        found["".join(pieces)[:255]] = None
    return list(found)


def _piece(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.1:
        return chance.choice(_WORDS)
    if kind < 0.9:
        return chance.choice(_LETTERS)
    number = chance.randrange(1, 0x10FFFF)
    return "x" if 0xD800 <= number <= 0xDFFF else chr(number)
