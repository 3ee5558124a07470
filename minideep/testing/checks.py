"""The checks of the contracts: each failure names what was checked, what was expected, and what was found."""

import reprlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ..errors import ThreadConflict
from .plain import PlainStore


def same(what: str, found: Any, expected: Any) -> None:
    """Fail, naming *what*, unless *found* equals *expected*."""
    if found != expected:
        raise AssertionError(f"{what}: expected {reprlib.repr(expected)}, found {reprlib.repr(found)}")


@contextmanager
def raises(error: type[Exception], what: str) -> Generator[None]:
    """Fail, naming *what*, unless *error* is raised inside."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{what}: expected {error.__name__}, nothing was raised")


def race(store: PlainStore, name: str, rounds: int) -> int:
    """Append *rounds* times to a thread whose head counts its rows; return how often nobody else was first."""
    won = 0
    for _ in range(rounds):
        head = store.head("t")
        count = int(head or b"0") + 1
        try:
            store.append("t", head, b"%d" % count, {f"race/{count:06}": name.encode()})
        except ThreadConflict:
            continue
        won += 1
    return won


def appended(store: PlainStore) -> tuple[int, int]:
    """Return the count in the head, and the number of rows, of the thread of `race`."""
    return int(store.head("t") or b"0"), len(store.keys("race/", "race0"))
