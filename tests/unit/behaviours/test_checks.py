"""The assertions about files, answers and the way, each with a turn that it passes and turns that it does not."""

import asyncio
from pathlib import Path

import pytest

from minideep import tool
from minideep.behaviours import Shape, Task, prove
from minideep.behaviours.checks import (
    answers_with,
    answers_with_one_of,
    changes_nothing,
    changes_only,
    ends_with,
    file_has,
    file_lacks,
    never_says,
    shows_at_most,
    was_shown,
)
from minideep.behaviours.shapes import call, edit, read, remove, says, todos, write

FILES = {"/a.txt": "one\r\ntwo\r\n", "/b.txt": "zebra\n", "/c.dat": b"\x00\xff"}


def leaving(root):
    @tool
    async def leave(file: str, delete: bool = False) -> str:
        """Write or delete a file beside the folder."""
        place = root.parent / file
        place.unlink() if delete else place.write_text("x")
        return "done"

    return {"tools": [leave]}


def problem_of(check, *calls, answer="It is done."):
    """What is wrong with a turn that makes these calls, one a reply, and gives this answer; "" if nothing."""

    def script(request):
        for one in calls:  # noqa: UP028 - A tuple cannot be sent the results.
            yield one
        return answer

    checks, shapes = (check,) if check else (), (Shape("t", script), Shape("u", says("x"), ("?",)))
    parts = {"files": FILES, "outside": {"/beside.txt": "stay\n"}, "parts": leaving}
    proof = asyncio.run(prove([Task(name="t", shows="s", prompt="p", checks=checks, shapes=shapes, **parts)]))
    return "; ".join(map(str, proof.played[0].case.failures))


ONE = edit("/a.txt", "one", "1")


@pytest.mark.parametrize(
    ("check", "calls", "problem"),
    [
        (changes_nothing, [read("/a.txt")], ""),
        (changes_nothing, [ONE], r"changes_nothing: /a.txt, line 1: expected 'one\r\n', found '1\r\n'"),
        (changes_nothing, [write("/d.txt", "x")], "changes_nothing: /d.txt was made"),
        (changes_nothing, [remove("/b.txt")], "changes_nothing: /b.txt is gone"),
        (changes_nothing, [write("/large_tool_results/x", "of the harness")], ""),
        (changes_only("/a.txt"), [ONE], ""),
        (changes_only("/b.txt"), [ONE], r"changes_only(/b.txt): /a.txt, line 1: expected 'one\r\n', found '1\r\n'"),
        (ends_with({"/a.txt": "1\r\ntwo\r\n"}), [ONE], ""),
        (ends_with({"/a.txt": "1\ntwo\n"}), [ONE], r"ends_with(/a.txt): /a.txt, line 1: expected '1\n', found '1\r\n'"),
        (ends_with({"/b.txt": "zebra\nfour\n"}), [], "ends_with(/b.txt): /b.txt has 6 bytes instead of 11"),
        (ends_with({"/d.txt": "x"}), [], "ends_with(/d.txt): /d.txt is gone"),
        (file_has("/b.txt", "ZEBRA"), [], ""),
        (file_has("/b.txt", "four"), [], r"file_has(/b.txt, four): expected 'four' in 'zebra\n'"),
        (file_has("/d.txt", "x"), [], "file_has(/d.txt, x): there is no /d.txt"),
        (file_lacks("/b.txt", "four"), [], ""),
        (file_lacks("/b.txt", "zebra"), [], "file_lacks(/b.txt, zebra): /b.txt has 'zebra'"),
        (was_shown("zebra"), [read("/b.txt")], ""),
        (was_shown("zebra"), [], "was_shown(zebra): no request to the model has it"),
        (shows_at_most(4000), [], ""),
    ],
)  # fmt: skip
def test_files(check, calls, problem):
    assert problem_of(check, *calls) == problem


@pytest.mark.parametrize(
    ("check", "answer", "holds"),
    [
        (answers_with("Is", "done"), "it is\n DONE", True),
        (answers_with("is", "gone"), "it is done", False),
        (answers_with_one_of("x", "done"), "it is done", True),
        (answers_with_one_of("x", "y"), "it is done", False),
        (never_says("x"), "it is done", True),
        (never_says("IS  done"), "it is done", False),
    ],
)
def test_answers(check, answer, holds):
    assert (problem_of(check, answer=answer) == "") is holds


def test_a_context_that_is_too_large_is_named_with_its_size():
    found = problem_of(shows_at_most(100), write("/d.txt", "word " * 1_000), read("/d.txt"))
    assert found.startswith("shows_at_most(100): a request has about 1,2")


def test_nothing_beside_the_folder_may_change():
    assert problem_of(None, call("leave", file="new.txt")) == "stays_inside: /new.txt was made"
    assert problem_of(None, call("leave", file="beside.txt", delete=True)) == "stays_inside: /beside.txt is gone"
    assert "stays_inside: /beside.txt, line 1" in problem_of(None, call("leave", file="beside.txt"))


def test_the_same_call_three_times_in_a_row_is_a_loop():
    assert problem_of(None, read("/a.txt"), read("/a.txt"), read("/b.txt"), read("/a.txt")) == ""
    found = problem_of(None, *[read("/a.txt")] * 3)
    assert found == "does_not_loop: read_file was called 3 times in a row with the same arguments"


def test_todos_that_are_left_open_are_a_plan_that_was_not_kept():
    assert problem_of(None, todos("a", "b"), todos("a", "b", done=2)) == ""
    assert problem_of(None, todos("a", "b")) == "finishes_its_todos: 2 are open, such as 'a'"


def test_files_that_are_no_text_and_links_are_compared_by_what_they_are(tmp_path):
    from minideep.behaviours.workspace import make, read as contents

    root = make(tmp_path, FILES, {"/beside.txt": "stay\n"})
    (root / "link").symlink_to(Path("/etc/passwd"))
    assert contents(root) == {name: data if isinstance(data, bytes) else data.encode() for name, data in FILES.items()}
