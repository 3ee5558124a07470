"""The program that matches a regular expression, run in a process of its own so that it can be killed.

`re` tries one way after the other, with some patterns for years, and lets no other thread of its process run meanwhile:
nothing inside that process can stop it. The program imports nothing of this package, so it starts at once.

It reads a line of JSON, `[pattern, ignore_case, seconds]`, and answers with a line, `""` or what is wrong with the
pattern. Then it reads any number of batches: a line `[most, size, ...]` and texts of these sizes in UTF-8. For each
text it answers with a line `[[line, column], ...]`, both counted from 0, of at most *most* lines that match; or with
`null` if the memory is not enough.
"""

import json
import re
import sys
from contextlib import suppress
from typing import Any

MEMORY = 1 << 30
"""The most bytes of memory. Some patterns remember a place for each letter that they have passed."""


def main() -> None:
    pattern, ignore_case, seconds = json.loads(sys.stdin.buffer.readline())
    _limit(seconds)
    try:
        regex = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError, MemoryError) as exc:
        _answer(str(exc) or type(exc).__name__)
        return
    _answer("")
    while line := sys.stdin.buffer.readline():
        most, *sizes = json.loads(line)
        # All of a batch is read before anything is answered: the other side may write it without reading.
        for text in [sys.stdin.buffer.read(size) for size in sizes]:
            try:
                _answer(places(regex, text.decode(errors="surrogatepass"), most))
            except MemoryError:
                _answer(None)


def places(regex: re.Pattern[str], text: str, most: int) -> list[tuple[int, int]]:
    """Return line and column of the first match in each of the first *most* lines of *text* that match."""
    found: list[tuple[int, int]] = []
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else []):
        if match := regex.search(line.removesuffix("\r")):
            found.append((number, match.start()))
            if len(found) == most:
                break
    return found


def _limit(seconds: float) -> None:
    """Let the system end this process if the one that started it is killed and cannot."""
    with suppress(ImportError, OSError, ValueError):  # Not every system has these limits.
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
