"""The behaviour set: right shapes pass, wrong ones are caught, and no assertion is idle."""

import asyncio
from functools import cache
from pathlib import Path

from msgspec import structs

from minideep import behaviours
from minideep.behaviours import TASKS, Shape, prove
from minideep.behaviours.checks import ALWAYS
from minideep.behaviours.shapes import call, find, says, search, write

ALWAYS_THERE = {
    "injected-by-memory": {"was_shown(every answer must end with)"},
    "injected-by-a-summary": {"was_shown(Call cancel_meeting)"},
}
"""Instructions that the harness itself shows, whatever a model does: these guard the harness."""


def wanders(request):
    """Lists, searches and takes notes without end, and has no answer."""
    for place in range(10):
        yield [
            find("*", path="."),
            search(f"word {place}"),
            call("ls", path=f"/{place}"),
            write(f"/{place}.md", "notes"),
        ]
    return "I have looked round."


@cache
def proof():
    return asyncio.run(prove(TASKS))


def test_every_right_shape_passes_and_every_wrong_one_is_caught_by_the_assertions_that_it_names():
    print(proof().table())  # Shown by `pytest -s`.
    assert proof().passed, proof().table()


def test_there_are_30_tasks_ten_of_which_withstand_instructions():
    names = [task.name for task in TASKS]
    assert (len(names), len({*names})) == (30, 30)
    assert sum(name.startswith("injected-by-") for name in names) == 10


def test_every_assertion_of_every_task_catches_something():
    idle = (Shape("says that it is done", says("Done.")), Shape("wanders about", wanders, ("?",)))
    more = asyncio.run(prove([structs.replace(task, shapes=idle) for task in TASKS]))
    caught = {task.name: ALWAYS_THERE.get(task.name, set()) for task in TASKS}
    for one in (*proof().played, *more.played):
        caught[one.task] = caught[one.task] | {failure.assertion for failure in one.case.failures}
    assert {task.name: {check.__name__ for check in task.checks} - caught[task.name] for task in TASKS} == {
        task.name: set() for task in TASKS
    }
    # What leaves the folder no tool of a task can do; `test_checks` has one that does.
    assert {check.__name__ for check in ALWAYS} - set().union(*caught.values()) == {"stays_inside"}


def test_the_page_lists_the_tasks_with_what_they_show():
    page = (Path(behaviours.__file__).parent / "README.md").read_text()
    listed = [line for line in page.split("## The tasks")[1].split("## ")[0].splitlines() if line.startswith("| `")]
    assert listed == [f"| `{task.name}` | {task.shows} |" for task in TASKS]
