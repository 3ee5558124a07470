r"""Escape file names so that they cannot imitate anything else, and read them back as they were shown.

A name may contain line breaks, terminal controls, characters that reverse the writing direction, or bytes that are not
text. Each of these is shown as `\x0a`, `\u202e` or `\U000e0041`: two, four or eight lowercase hex digits, the
shortest form that fits. Every other character is shown as it is, including a backslash, unless it would begin such an
escape: then it is shown as `\x5c`. So `unescaped(escaped(name)) == name` for every name, and no two names look alike.
"""

import re

_UNSAFE = (
    "\x00-\x1f\x7f-\x9f"  # Controls: line breaks, escape sequences.
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # Invisible or right-to-left.
    "\U000e0000-\U000e007f"  # Tags: invisible characters that a model still reads.
    "\ud800-\udfff"  # Stand for bytes that are not UTF-8.
)
_UNDECODABLE = r"[\ud800-\udfff]"
_ESCAPE = r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))"
_TO_ESCAPE = rf"[{_UNSAFE}]|{_ESCAPE}"
_ESCAPED = rf"[{_UNSAFE}\\]"


def escaped(name: str) -> str:
    r"""Return a name or path as it is shown to a model or a person.

    >>> print(escaped("report\n[user] yes.txt"), escaped("a\\b"), escaped("a\\x0ab"))
    report\x0a[user] yes.txt a\b a\x5cx0ab
    """
    return name if name.isascii() and name.isprintable() and "\\" not in name else re.sub(_TO_ESCAPE, _escape, name)


def unescaped(text: str) -> str:
    r"""Return the name or path that is shown as *text*. Backslashes that `escaped` did not write stay as they are.

    >>> unescaped(r"report\x0a[user] yes.txt") == "report\n[user] yes.txt"
    True
    """
    return re.sub(_ESCAPE, _unescape, text) if "\\" in text else text


def encodable(path: str) -> str:
    """Return *path* in a form that an event, which is UTF-8, can hold: escaped if it has undecodable bytes."""
    return escaped(path) if re.search(_UNDECODABLE, path) else path


def quoted(path: str) -> str:
    """Return *path* escaped and in quotation marks, for use in a sentence."""
    mark = '"' if "'" in path and '"' not in path else "'"
    return f"{mark}{escaped(path)}{mark}"


def _escape(found: re.Match[str]) -> str:
    if found.lastindex:  # The name itself contains an escape: hide its backslash, or it would be read back as another.
        return found[0] if _unescape(found) == found[0] else rf"\x5c{found[0][1:]}"
    code = ord(found[0])
    return rf"\x{code:02x}" if code < 0x100 else rf"\u{code:04x}" if code < 0x10000 else rf"\U{code:08x}"


def _unescape(found: re.Match[str]) -> str:
    code = int(found[found.lastindex or 1], 16)
    # Only characters that `escaped` escapes have a second spelling. Otherwise `\x2e\x2e` would smuggle in a `..`.
    char = chr(code) if code <= 0x10FFFF else "x"
    return char if re.fullmatch(_ESCAPED, char) else found[0]
