"""The rules of `.gitignore` files, as git reads them.

They are written down at https://git-scm.com/docs/gitignore. Only such files at or below the root count, not git's
settings, nor what it tracks in spite of a rule. A name that is not ASCII is compared by its characters; git compares
its bytes.
"""

import re
import string

from msgspec import Struct

from .globs import Part, fits
from .paths import join

NAME = ".gitignore"
MAX_RULES, MAX_LENGTH = 1000, 500
"""The most lines that are read of one file, each of which may be compared with every name below it; and the most
characters of a line. A longer one is passed over.
"""

_CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, [*range(32), 127])),
    "digit": string.digits,
    "graph": string.ascii_letters + string.digits + string.punctuation,
    "lower": string.ascii_lowercase,
    "print": string.ascii_letters + string.digits + string.punctuation + " ",
    "punct": string.punctuation,
    "space": string.whitespace,
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}
_TOKEN = re.compile(r"\\.|\*+|\[|.", re.DOTALL)
_ITEM = re.compile(r"\[:(?P<name>[^\]]*):\]|(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^\\\]]))?", re.DOTALL)
"""What may stand between brackets: the name of a class, a range, or a character."""


class Rule(Struct, frozen=True):
    """A line of a `.gitignore`."""

    parts: list[Part]
    keeps: bool
    """True if it begins with `!`: what it matches is not ignored."""
    only_folders: bool

    def matches(self, names: list[str], is_dir: bool) -> bool:
        if self.only_folders and not is_dir:
            return False
        # The last part stands for the last name, never for any number of them. Few names pass that far.
        return self.parts[-1].matches(names[-1]) and fits(self.parts, names)


class Ignored(Struct, frozen=True):
    """What the `.gitignore` of *folder* says, and those *above* it."""

    folder: str
    rules: list[Rule]
    above: "Ignored | None"

    def has(self, path: str, is_dir: bool) -> bool:
        """Return whether *path*, somewhere below the folder, is ignored. The last rule of the nearest file decides."""
        file: Ignored | None = self
        while file:
            names = path[len(join(file.folder)) :].split("/")
            for rule in reversed(file.rules):
                if rule.matches(names, is_dir):
                    return not rule.keeps
            file = file.above
        return False


def rules_of(text: str) -> list[Rule]:
    """Return the rules in the text of a `.gitignore`, of its first `MAX_RULES` lines."""
    lines = text.removeprefix("\ufeff").split("\n", MAX_RULES)[:MAX_RULES]
    return [rule for line in lines if len(line) <= MAX_LENGTH and (rule := _rule(line.removesuffix("\r")))]


def _rule(line: str) -> Rule | None:
    """Return the rule that a line is, or None if it is a comment, or matches nothing."""
    if line.startswith("#"):
        return None
    line = re.sub(r"\A((?:\\.|[^\\ ]| +(?=[^ ]))*) *\Z", r"\1", line, flags=re.DOTALL)
    keeps, line = line.startswith("!"), line.removeprefix("!")
    only_folders, line = line.endswith("/"), line.removesuffix("/")
    names = line.removeprefix("/").split("/")
    if "/" not in line:
        names.insert(0, "**")  # At any depth.
    if set(names[-1]) == {"*"}:
        names[-1:] = ["**", "*"] if len(names[-1]) > 1 else ["*"]  # What is below a folder, not the folder itself.
    parts = [_part(name) for name in names]
    return Rule([part for part in parts if part], keeps, only_folders) if all(parts) else None


def _part(name: str) -> Part | None:
    if len(name) > 1 and set(name) == {"*"}:
        return Part("**", re.compile(""), dots=True)
    regex = _regex(name)
    return Part(name, re.compile(regex, re.DOTALL), dots=True) if name and regex is not None else None


def _regex(name: str) -> str | None:
    """Return a regular expression for the pattern of one name; None if it matches nothing.

    Between two stars, the first place that fits is taken and never left again, so that it cannot take for ever.
    """
    chunks, at = [""], 0
    while at < len(name):
        token = _TOKEN.match(name, at)
        assert token
        text, at = token[0], token.end()
        if text == "[":
            found = _class(name, at)
            if found is None:
                return None
            text, at = found
            chunks[-1] += text
        elif text.startswith("*"):
            chunks.append("")
        elif text == "\\":  # At the very end.
            return None
        else:
            chunks[-1] += "." if text == "?" else re.escape(text[-1])
    first, *inner = chunks
    last = f".*{inner.pop()}" if inner else ""
    return first + "".join(f"(?>.*?{chunk})" for chunk in inner) + rf"{last}\Z"


def _class(name: str, at: int) -> tuple[str, int] | None:
    """Return a regular expression for the set whose `[` is before *at*, and where it ends; None if it never does."""
    negated = name[at : at + 1] in ("!", "^")
    start = at = at + negated
    members = ""
    while at == start or name[at : at + 1] != "]":
        item = _ITEM.match(name, at)
        if item is None or item["name"] not in (None, *_CLASSES):
            return None
        members += _members(item)
        at = item.end()
    return (f"[{'^' if negated else ''}{members}]" if members else "." if negated else "(?!)"), at + 1


def _members(item: re.Match[str]) -> str:
    if item["name"]:
        return re.escape(_CLASSES[item["name"]])
    first, last = item["first"][-1], (item["last"] or item["first"])[-1]
    return f"{re.escape(first)}-{re.escape(last)}" if first <= last else ""
