"""Any name as the name of a folder, and back."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import quote, unquote

from sparkport.errors import InvalidRequestError

_SCHEMA_SUFFIX = ".db"
HIDDEN = (".", "_")
MORE = "%+"
"""What begins the name of a folder that holds only the rest of a long name. No quoted name has it."""
_LAST = "%="
_MAX_BYTES = 1020  # 255 characters, whatever they are
_MAX_QUOTED = 200
_PART = 200


def folder_of(name: str) -> str:
    """Return the folder for a name, of several parts if it is long. Raises InvalidRequestError.

    What other programs might take apart is percent-encoded. File systems allow 255 bytes, so a name
    that is too long like that is written in 32 letters instead, over folders within each other.
    """
    try:
        text = quote(name, safe="")
    except UnicodeEncodeError as error:
        raise InvalidRequestError("a name is not valid UTF-8") from error
    if len(text) <= _MAX_QUOTED:
        return "%" + f"{ord(text[0]):02X}" + text[1:] if text.startswith(HIDDEN) else text
    data = name.encode()
    if len(data) > _MAX_BYTES:
        raise InvalidRequestError(f"the name '{name[:40]}...' is too long")
    letters = base64.b32encode(data).decode().rstrip("=")
    parts = [letters[start : start + _PART] for start in range(0, len(letters), _PART)]
    return "/".join([*(MORE + part for part in parts[:-1]), _LAST + parts[-1]])


def joined(before: str, folder: str) -> str:
    """Return the name of a folder that lies in others which hold the beginning of a long name."""
    return _LAST + before + folder.removeprefix(_LAST) if before else folder


def whole_folders(path: str) -> list[str]:
    """Return the folders of a path, with all parts of one for a long name joined."""
    found: list[str] = []
    before = ""
    for part in filter(None, path.split("/")):
        if part.startswith(MORE):
            before += part.removeprefix(MORE)
        else:
            found.append(joined(before, part))
            before = ""
    return found


def name_of(folder: str) -> str:
    """Return the name for a folder, with all of its parts joined."""
    if folder.startswith(_LAST):
        letters = folder.removeprefix(_LAST)
        try:
            # Nothing comes out of a folder that somebody else has made.
            return base64.b32decode(letters + "=" * (-len(letters) % 8)).decode() or folder
        except (binascii.Error, UnicodeDecodeError):
            return folder
    return unquote(folder)


def table_label(root: str) -> str:
    """Return the name of the table in a folder, with that of its schema if the folder around it tells.

    No path of the server is in it.
    """
    *around, folder = ["", *whole_folders(root)]
    is_schema = bool(around) and around[-1].endswith(_SCHEMA_SUFFIX)
    schema = f"{name_of(around[-1].removesuffix(_SCHEMA_SUFFIX))}." if is_schema else ""
    return f"{schema}{name_of(folder)}"
