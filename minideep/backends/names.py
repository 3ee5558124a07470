r"""Show file names so that they cannot pass for anything else, and read them back as they were shown.

A name may hold line breaks, terminal controls, characters that turn the writing direction, or bytes that are no text.
Each of these is shown as `\x0a`, `\u202e` or `\U000e0041`: two, four or eight lowercase hex digits, whichever is the
first to fit. Every other character is shown as it is, a backslash too, unless it would read as one of these escapes:
then it is shown as `\x5c`. So `named(shown(name)) == name` for every name, and no two names are shown alike.
"""

import re

_UNSAFE = (
    "\x00-\x1f\x7f-\x9f"  # Controls: line breaks, escape sequences.
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # Invisible, or turning the direction.
    "\U000e0000-\U000e007f"  # Tags: a text of their own that nobody sees.
    "\ud800-\udfff"  # What stands for bytes that are no UTF-8.
)
_NO_TEXT = re.compile(r"[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_TO_SHOW = re.compile(rf"[{_UNSAFE}]|{_ESCAPE.pattern}")
_ESCAPED = re.compile(rf"[{_UNSAFE}\\]")


def shown(name: str) -> str:
    r"""A name or a path as a model or a person is shown it.

    >>> print(shown("report\n[user] yes.txt"), shown("a\\b"), shown("a\\x0ab"))
    report\x0a[user] yes.txt a\b a\x5cx0ab
    """
    return name if name.isascii() and name.isprintable() and "\\" not in name else _TO_SHOW.sub(_escape, name)


def named(text: str) -> str:
    r"""The name or path that is shown as *text*; what is no escape of `shown` stays as it is.

    >>> named(r"report\x0a[user] yes.txt") == "report\n[user] yes.txt"
    True
    """
    return _ESCAPE.sub(_unescape, text) if "\\" in text else text


def encodable(path: str) -> str:
    """*path* as an event can hold it, which is UTF-8: as it is shown, if it has bytes that are no text."""
    return shown(path) if _NO_TEXT.search(path) else path


def quoted(path: str) -> str:
    """*path* as it stands in a sentence."""
    mark = '"' if "'" in path and '"' not in path else "'"
    return f"{mark}{shown(path)}{mark}"


def _escape(found: re.Match[str]) -> str:
    if found.lastindex:  # An escape, as the name really says it.
        return found[0] if _unescape(found) == found[0] else rf"\x5c{found[0][1:]}"
    code = ord(found[0])
    return rf"\x{code:02x}" if code < 0x100 else rf"\u{code:04x}" if code < 0x10000 else rf"\U{code:08x}"


def _unescape(found: re.Match[str]) -> str:
    code = int(found[found.lastindex or 1], 16)
    # Only what `shown` escapes has a second spelling: `\x2e\x2e` is no `..`.
    char = chr(code) if code <= 0x10FFFF else "x"
    return char if _ESCAPED.fullmatch(char) else found[0]
