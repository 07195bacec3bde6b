"""What a server prints when it is ready."""

from __future__ import annotations


def greeting(location: str, catalog: str, token: str | None, console: str | None = None) -> str:
    """Return how to attach a server from DuckDB; without a token there is no line for a secret."""
    lines = [
        f"sparkport ready at {location}",
        *([f"console at {console}"] if console else []),
        "",
        "In DuckDB:",
        "  INSTALL airport FROM community; LOAD airport;",
    ]
    if token is not None:
        lines.append(f"  CREATE SECRET (TYPE airport, auth_token '{token}', SCOPE '{location}');")
    lines += [f"  ATTACH '{catalog}' (TYPE airport, LOCATION '{location}');", "  SHOW ALL TABLES;", ""]
    return "\n".join(lines)
