"""The final answer: reflection names artifacts in it, and code puts their contents in."""

import re
from collections.abc import Callable

_NAMED = re.compile(r"\{\{\s*([^{}\n]{1,120}?)\s*\}\}")


def names_in(text: str) -> list[str]:
    """The artifacts that an answer names as `{{name}}`, each once."""
    return list(dict.fromkeys(mentions(text)))


def mentions(text: str) -> list[str]:
    """The artifacts that an answer names, as often as it does."""
    return _NAMED.findall(text)


def filled(text: str, content: Callable[[str], str], most: int) -> str:
    """*text* with each `{{name}}` replaced by that artifact's content, up to *most* bytes of it: what does not fit is
    only named.
    """
    left = most

    def put(found: "re.Match[str]") -> str:
        nonlocal left
        said = content(found[1])
        if (size := len(said.encode())) > left:
            return f"[{found[1]}: {size:,} bytes, too long for an answer; it is in the turn's artifacts]"
        left -= size
        return said

    return _NAMED.sub(put, text)
