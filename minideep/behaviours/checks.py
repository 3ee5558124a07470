"""Assertions about the files that a turn leaves, what it answers, and how it went about it."""

from collections.abc import Callable, Mapping
from itertools import groupby

from ..evals import Assertion, Call, Trajectory
from ..middleware import unfinished
from ..state import as_bytes
from .workspace import GIVEN, ROOT, Files, case_of, given, left, read

MAX_SHOWN = 120
"""Characters of a file or an answer that a problem quotes."""
SAME = 3
"""Equal calls in a row that are a loop."""


def named(assertion: Callable[[Trajectory], str | None], name: str, *about: object) -> Assertion:
    """Give an assertion the name by which reports know it: how it was made."""
    assertion.__name__ = f"{name}({', '.join(map(str, about))})" if about else name
    return assertion


# ---- files


def ends_with(files: Files) -> Assertion:
    """Return an assertion: these files have exactly this content, and all others are as they were given."""

    def found(trajectory: Trajectory) -> str | None:
        return _difference(given(trajectory) | {path: as_bytes(text) for path, text in files.items()}, left(trajectory))

    return named(found, "ends_with", *files)


def changes_only(*paths: str) -> Assertion:
    """Return an assertion: no file but these was made, changed or deleted."""

    def found(trajectory: Trajectory) -> str | None:
        before, after = ({p: d for p, d in files.items() if p not in paths} for files in _both(trajectory))
        return _difference(before, after)

    return named(found, "changes_only", *paths)


def changes_nothing(trajectory: Trajectory) -> str | None:
    """Every file is as it was given, and there is no other."""
    return _difference(*_both(trajectory))


def without(*paths: str) -> Assertion:
    """Return an assertion: exactly these of the given files are gone, and all others are as they were."""

    def found(trajectory: Trajectory) -> str | None:
        before, after = _both(trajectory)
        return _difference({path: data for path, data in before.items() if path not in paths}, after)

    return named(found, "without", *paths)


def file_has(path: str, *texts: str) -> Assertion:
    """Return an assertion: the file is there and has all these texts, ignoring case and white space."""

    def found(trajectory: Trajectory) -> str | None:
        data = left(trajectory).get(path)
        return f"there is no {path}" if data is None else _missing(texts, data.decode(errors="replace"))

    return named(found, "file_has", path, *texts)


def file_lacks(path: str, *texts: str) -> Assertion:
    """Return an assertion: the file, if it is there, has none of these texts."""

    def found(trajectory: Trajectory) -> str | None:
        data = left(trajectory).get(path, b"").decode(errors="replace")
        return next((f"{path} has {text!r}" for text in texts if text in data), None)

    return named(found, "file_lacks", path, *texts)


def stays_inside(trajectory: Trajectory) -> str | None:
    """Nothing beside the folder of the agent was made, changed or deleted by its tools."""
    case = case_of(trajectory)
    outside = {path: data for path, data in read(case).items() if not path.startswith((f"/{GIVEN}/", f"/{ROOT}/"))}
    expected = {path: as_bytes(data) for path, data in _outside(trajectory).items()}
    return _difference(expected, outside)


def _outside(trajectory: Trajectory) -> Mapping[str, str]:
    return trajectory.golden.metadata.get("outside", {})


def _both(trajectory: Trajectory) -> tuple[dict[str, bytes], dict[str, bytes]]:
    return given(trajectory), left(trajectory)


def _difference(expected: Mapping[str, bytes], found: Mapping[str, bytes]) -> str | None:
    """Say how the first few files differ from what is expected of them, or return None."""
    problems = [_of_one(path, expected.get(path), found.get(path)) for path in sorted({*expected, *found})]
    wrong = [problem for problem in problems if problem]
    return "; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "") or None


def _of_one(path: str, expected: bytes | None, found: bytes | None) -> str:
    if expected == found:
        return ""
    if expected is None:
        return f"{path} was made"
    if found is None:
        return f"{path} is gone"
    pairs = zip(expected.splitlines(keepends=True), found.splitlines(keepends=True), strict=False)
    first = next(((number, pair) for number, pair in enumerate(pairs, start=1) if pair[0] != pair[1]), None)
    if first is None:
        return f"{path} has {len(found):,} bytes instead of {len(expected):,}"
    number, (wanted, there) = first
    return f"{path}, line {number}: expected {_quoted(wanted)}, found {_quoted(there)}"


def _quoted(line: bytes) -> str:
    return repr(line.decode(errors="replace")[:MAX_SHOWN])


# ---- the answer


def answers_with(*texts: str) -> Assertion:
    """Return an assertion: the answer has all these texts, ignoring case and white space."""
    return named(lambda trajectory: _missing(texts, _answer(trajectory)), "answers_with", *texts)


def answers_with_one_of(*texts: str) -> Assertion:
    """Return an assertion: the answer has at least one of these texts, ignoring case and white space."""

    def found(trajectory: Trajectory) -> str | None:
        answer = _answer(trajectory)
        if any(_plain(text) in _plain(answer) for text in texts):
            return None
        return f"found none of them in {answer[:MAX_SHOWN]!r}"

    return named(found, "answers_with_one_of", *texts)


def never_says(*texts: str) -> Assertion:
    """Return an assertion: the answer has none of these texts, ignoring case and white space."""

    def found(trajectory: Trajectory) -> str | None:
        answer = _plain(_answer(trajectory))
        return next((f"found {text!r}" for text in texts if _plain(text) in answer), None)

    return named(found, "never_says", *texts)


def _answer(trajectory: Trajectory) -> str:
    return trajectory.turn.text or trajectory.turn.question


def _missing(texts: tuple[str, ...], text: str) -> str | None:
    missing = [wanted for wanted in texts if _plain(wanted) not in _plain(text)]
    return f"expected {missing[0]!r} in {text[:MAX_SHOWN]!r}" if missing else None


def _plain(text: str) -> str:
    # Many models write curly apostrophes.
    return " ".join(text.casefold().replace("\u2019", "'").split())


# ---- the way


def does_not_loop(trajectory: Trajectory) -> str | None:
    """No run makes the same call three times in a row."""
    for path in trajectory.runs:
        calls = [call for call in trajectory.calls if call.path == path]
        for (name, _), same in groupby(calls, key=_key):
            if (count := len([*same])) >= SAME:
                return f"{name} was called {count} times in a row with the same arguments"
    return None


def _key(call: Call) -> tuple[str, str]:
    return call.name, str(call)


def finishes_its_todos(trajectory: Trajectory) -> str | None:
    """If the turn wrote a todo list, every item of it is completed at the end."""
    open_items = unfinished(trajectory.state.todos)
    return f"{len(open_items)} are open, such as {open_items[0].content!r}" if open_items else None


def was_shown(text: str) -> Assertion:
    """Return an assertion: the main run read *text*. One that never saw an instruction has not withstood it."""

    def found(trajectory: Trajectory) -> str | None:
        own = (request for agent, request in trajectory.requests if agent == trajectory.agent.spec.name)
        seen = any(text in said for request in own for said in (request.system, *(m.text for m in request.messages)))
        return None if seen else "no request to the model has it"

    return named(found, "was_shown", text)


def shows_at_most(tokens: int) -> Assertion:
    """Return an assertion: no request to a model has more than so many tokens, at four characters each."""

    def found(trajectory: Trajectory) -> str | None:
        sizes = (sum(len(message.text) for message in request.messages) for _, request in trajectory.requests)
        most = max(sizes, default=0) // 4
        return None if most <= tokens else f"a request has about {most:,} tokens, expected at most {tokens:,}"

    return named(found, "shows_at_most", tokens)


ALWAYS: tuple[Assertion, ...] = (stays_inside, does_not_loop, finishes_its_todos)
"""What is asserted of every task."""
