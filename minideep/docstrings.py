"""Descriptions of parameters in docstrings, in the styles of Google, NumPy and Sphinx.

Strict: unless every line of a section can be read, and names parameters of the function, the docstring stays whole.
"""

import re
from collections.abc import Collection

SECTION = re.compile(
    r"^(?:Args|Arguments|Params|Parameters):[ \t]*$|^Parameters\n-{3,}[ \t]*$|^:param(?:eter)?\b", re.MULTILINE
)
"""Where descriptions of parameters begin."""
_GOOGLE = re.compile(r"\s+(\*{0,2}\w+)\s*(?:\(.*?\)\s*)?:(?:\s+(.*))?")
_NUMPY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()")
_SPHINX = re.compile(r":param(?:eter)?\s+(?:[^:]*\s)?\\?\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_TYPE = re.compile(r":type\s+\w+\s*:.*")


def split(doc: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return a cleaned docstring without its descriptions of parameters, and those, by parameter; *names* are the
    parameters of its function.
    """
    begins = SECTION.search(doc)
    if begins is None:
        return doc, {}
    before, rest = doc[: begins.start()], doc[begins.start() :]
    read = _fields if rest.startswith(":") else _underlined if "\n" in begins[0] else _indented
    found = read(rest.splitlines())
    if found is None or not found[0] or not found[0].keys() <= {*names}:
        return doc, {}
    described, after = found
    text = "\n\n".join(filter(None, (before.rstrip(), "\n".join(after).strip())))
    return text, {name: words for name, words in described.items() if words}


_Found = tuple[dict[str, str], list[str]] | None
"""The descriptions by parameter, and the lines after them; None if they cannot be read."""


def _indented(lines: list[str]) -> _Found:
    end = next((at for at, line in enumerate(lines) if at and line[:1].strip()), len(lines))
    body = [line for line in lines[1:end] if line.strip()]
    depth = _depth(body[0]) if body else 0
    entries: list[tuple[str, list[str]]] = []
    for line in body:
        entry = _GOOGLE.fullmatch(line) if _depth(line) == depth else None
        if entry:
            entries.append((entry[1], [entry[2] or ""]))
        elif entries and _depth(line) > depth:
            entries[-1][1].append(line)
        else:
            return None
    return _described(entries), lines[end:]


def _underlined(lines: list[str]) -> _Found:
    underlines = [at for at, line in enumerate(lines) if at > 1 and re.fullmatch(r"-{3,}\s*", line)]
    end = underlines[0] - 1 if underlines else len(lines)
    entries: list[tuple[str, list[str]]] = []
    for line in filter(str.strip, lines[2:end]):
        entry = _NUMPY.fullmatch(line)
        if entry:
            entries.append((entry[1], []))
        elif entries and line[:1].isspace():
            entries[-1][1].append(line)
        else:
            return None
    return _described(entries), lines[end:]


def _fields(lines: list[str]) -> _Found:
    entries: list[tuple[str, list[str]]] = []
    after: list[str] = []
    words: list[str] | None = None
    for line in lines:
        if entry := _SPHINX.fullmatch(line):
            words = [entry[2]]
            entries.append((entry[1], words))
        elif _SPHINX_TYPE.fullmatch(line):
            words = []
        elif words is not None and line[:1].isspace():
            words.append(line)
        else:
            words = None
            after.append(line)
    return _described(entries), after


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _described(entries: list[tuple[str, list[str]]]) -> dict[str, str]:
    return {
        name.strip().lstrip("*"): " ".join(" ".join(words).split())
        for names, words in entries
        for name in names.split(",")
    }
