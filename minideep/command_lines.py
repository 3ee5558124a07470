"""Read a shell command line as far as that is certain, and match its simple commands with patterns.

Nobody can say what every line of a shell does without running it. So this reads a small part of the language: simple
commands joined by `;`, `&`, `|`, `&&`, `||` and line breaks, with quotes, variables and redirections. All else
(`$(...)`, loops, functions, here documents) is *opaque*: it may be any command. So is the work of a shell inside the
line, such as `sh -c '...'`.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

ANY = "\0"
"""Stands in the text of a command for what only the shell knows, such as the value of a variable or matching files."""
MAX_LENGTH = 20_000
"""The longest line that is read, in characters. A longer one is opaque."""
MAX_CARRIED = 100
"""The most arguments of a program that runs another. With more it is opaque."""

_VARIABLE = r"\$(?:[A-Za-z_]\w*|\{\w+\}|[0-9?\#@*!$-])"
_TOKEN = re.compile(
    rf"""
    (?P<blank>[ \t]+)
    | (?P<continued>\\\n)
    | (?P<comment>(?<![^\s;&|])\#[^\n]*)
    # Descriptors joined, and output dropped. `&>` means two things in two shells, unless the command ends behind it.
    | (?P<harmless>
        \d*>&\d(?=[\s;&|<>]|\Z) | \d*[<>]>?[ \t]*/dev/null(?=[\s;&|<>]|\Z) | &>[ \t]*/dev/null(?=[ \t]*(?:[;|\n]|\Z))
      )
    | (?P<end>&&|\|\||&(?!>)|[;|\n])
    | (?P<redirect>\d*(?:>>|>\||<>|<<<|>(?![>|(&])|<(?![<>(&]))[ \t]*)
    | (?P<unknown>{_VARIABLE}|[*?\[\]{{}}~!])
    | '(?P<single>[^'\0]*)'
    | "(?P<double>(?:[^"\\$`\0]|\\[^\0]|{_VARIABLE})*)"
    | \\(?P<escaped>[^\n\0])
    | (?P<plain>[^\s;&|<>(){{}}$`'"\\*?\[\]~!\0]+)
    """,
    re.VERBOSE,
)
_END = re.match("(?P<end>)", "")
_IN_A_WORD = frozenset(("unknown", "single", "double", "escaped", "plain"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_RESERVED = "if then else elif fi for while until do done case esac in select function coproc [[ ]]"
_SHELLS = (
    "sh bash dash zsh ksh mksh ash fish csh tcsh rbash busybox toybox su script expect "
    "eval source . trap alias hash enable mapfile readarray compgen"
)
_HIDING = frozenset((*_RESERVED.split(), *_SHELLS.split()))
"""Words that begin more of the shell's language, and programs that read more of it, from an argument or a file."""
_EVALUATING = frozenset(("let", "declare", "typeset", "read", "unset", "printf", "test"))
"""Builtins of bash that run what stands in an index, though it is quoted: `test -v 'a[$(rm x)]'`."""
_INDEX = re.compile(r"\[.*[$`\0]", re.DOTALL)
_CARRIER_NAMES = (
    "env sudo doas time nohup nice ionice chrt timeout gtimeout exec command builtin xargs parallel stdbuf setsid "
    "watch find fd strace ltrace flock unshare nsenter chroot bwrap taskset ssh entr"
)
_CARRIERS = frozenset(_CARRIER_NAMES.split())
"""Programs that run a command which their own arguments name."""


class Command(Struct, frozen=True):
    """One simple command of a line."""

    text: str = ""
    """Its words, without quotes, joined by spaces."""
    forms: tuple[str, ...] = ()
    """Texts of what else it runs: itself without assignments and without the folder of its program, and the commands
    that its arguments may name.
    """
    opaque: bool = False
    """True if it may run any command."""
    redirected: bool = False
    """True if the shell reads or writes a file for it."""

    def fits(self, pattern: str, *, restricts: bool) -> bool | None:
        """Return whether *pattern* describes the command; None if that cannot be told.

        One that *restricts* describes a program with any arguments behind those it names, and upper and lower case
        alike, since some disks find `/bin/RM`. One that does not must describe the whole command, and never describes
        one that is redirected.
        """
        if not restricts:
            named = not self.opaque or "*" not in pattern.split(" ")[0]  # `sh *` means what it says, `*` does not.
            return bool(self.text) and named and not self.redirected and fits(pattern, self.text)
        pattern = f"{pattern.casefold().removesuffix(' *')} *"
        if self.text and fits(pattern, self.text.casefold()):
            return True
        texts = (self.text, *self.forms)
        possible = self.opaque or any(fits(pattern, text.casefold(), any_is_anything=True) for text in texts)
        return None if possible else False


OPAQUE = Command(opaque=True)


@lru_cache(maxsize=64)
def commands(line: str) -> tuple[Command, ...]:
    """Return the simple commands of *line*: at least one, and `OPAQUE` for what cannot be read."""
    if len(line) > MAX_LENGTH:
        return (OPAQUE,)
    read = [
        OPAQUE if words is None else _command(words, redirected)
        for words, redirected in _simple(line)
        if words != [] or redirected  # `> a` alone empties a file.
    ]
    return tuple(read) or (OPAQUE,)


def _simple(line: str) -> Iterator[tuple[list[str] | None, bool]]:
    """Yield the words of each simple command and whether it is redirected; None in place of the words if *line* cannot
    be read any further.
    """
    words: list[str] = []
    word: str | None = None
    target = redirected = False  # *target*: the next word is that of a redirection.
    at = 0
    while at <= len(line):
        token = _TOKEN.match(line, at) if at < len(line) else _END
        if token is None:
            yield None, True
            return
        at, kind = token.end() or at + 1, token.lastgroup or ""
        if kind in _IN_A_WORD:
            word = (word or "") + _meaning(kind, token[kind])
        elif kind != "continued":
            # Here the text alone does not say where the word ends: `"a"2>b` and, behind a continued line, `a#b`.
            if word is not None and (kind == "comment" or token[0][:1].isdigit()):
                yield None, True
                return
            if word is not None and not target:
                words.append(word)
            word, target = None, target and word is None
            if kind == "redirect":
                target = redirected = True
            elif kind == "end":
                yield words, redirected
                words, target, redirected = [], False, False


def _meaning(kind: str, text: str) -> str:
    """Return what a part of a word stands for, with `ANY` for what only the shell knows."""
    if kind == "unknown":
        return ANY
    if kind == "double":
        return re.sub(r"\\([\\\"$`\n])", lambda found: found[1].strip("\n"), re.sub(_VARIABLE, ANY, text))
    return text


def _command(words: list[str], redirected: bool) -> Command:
    text, bare = " ".join(words), [*words]
    while bare and _ASSIGNMENT.match(bare[0]):
        bare.pop(0)
    # Some variables are numbers, and evaluate what is assigned to them.
    evaluates = len(bare) < len(words) or any(_name(word) in _EVALUATING for word in bare)
    if evaluates and any(map(_INDEX.search, words)):
        return OPAQUE
    if not bare:
        return Command(text, redirected=redirected)
    if re.search(r"\s", bare[0]):  # Joined by spaces, it would look like a program with arguments.
        return OPAQUE
    program, rest = _name(bare[0]), bare[1:]
    forms = (" ".join(bare), " ".join([program, *rest]))
    if _is_hiding(program):
        return Command(text, opaque=True, redirected=redirected)
    if program not in _CARRIERS:
        return Command(text, forms, redirected=redirected)
    # Which of its words begins the other command is known to it alone: each may. One with blanks may be a whole line.
    if len(rest) > MAX_CARRIED or any(_is_hiding(_name(word)) for word in rest):
        return Command(text, forms, True, redirected)
    carried = [" ".join([_name(word), *rest[place + 1 :]]) for place, word in enumerate(rest)]
    return Command(text, (*forms, *carried), False, redirected)


def _name(word: str) -> str:
    """Return the name of the program that *word* runs."""
    return word.rpartition("/")[2].casefold()


def _is_hiding(program: str) -> bool:
    """Return whether a program of this name may run any command."""
    return not program or bool(re.search(r"\s|\0", program)) or program in _HIDING


def fits(pattern: str, text: str, *, any_is_anything: bool = False) -> bool:
    """Match *text* with a *pattern* in which `*` is any text, and a final ` *` may be missing.

    All positions are followed at once, so that it takes at most the length of one times that of the other. `ANY` in
    *text* fits a `*` alone, or with *any_is_anything* whatever stands in the pattern.
    """
    if pattern.endswith(" *") and fits(pattern[:-2], text, any_is_anything=any_is_anything):
        return True
    end, positions = len(pattern), _past_stars(pattern, {0})
    for char in text:
        if not positions:
            return False
        if char == ANY and any_is_anything:
            positions = set(range(min(positions), end + 1))
            continue
        fitting = [at for at in positions if at < end and pattern[at] in ("*", char)]
        positions = _past_stars(pattern, {at if pattern[at] == "*" else at + 1 for at in fitting})
    return end in positions


def _past_stars(pattern: str, positions: set[int]) -> set[int]:
    """Add the positions behind each `*`, which may stand for nothing."""
    for at in sorted(positions):
        while at < len(pattern) and pattern[at] == "*":
            at += 1
            positions.add(at)
    return positions
