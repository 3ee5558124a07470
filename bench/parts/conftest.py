"""How the parts are measured: a clock for one of many equal parts of a round, counted calls, and one table of both."""

import asyncio
import gc
import inspect
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest

from minideep import DiskCheckpointer, MemoryCheckpointer


@pytest.fixture
def measure(request):
    """Return a function that measures *act*, with what *setup* returns as its argument if there is a *setup*.

    The time is that of one of *each* equal parts of a round, such as the steps of a turn, by *clock*. One round more
    counts the Python calls of such a part. *info* is shown and saved beside them; a function in it is called at the
    end. The table has the first line of the benchmark's docstring as its title, and *of* behind that.
    """

    def measured(
        act: Callable[..., Any],
        *,
        rounds: int,
        each: int = 1,
        setup: Callable[[], Any] | None = None,
        clock: Callable[[], float] = perf_counter,
        calls: bool = True,
        of: str = "",
        **info: Any,
    ) -> None:
        title = inspect.getdoc(request.function).splitlines()[0].rstrip(".") + (of and f": {of}")
        request.node.add_marker(pytest.mark.benchmark(group=title, timer=part_of(each, clock)))
        benchmark = request.getfixturevalue("benchmark")  # Only now, for it takes its clock when it is made.
        benchmark.pedantic(act, setup=setup and (lambda: ((setup(),), {})), rounds=rounds, warmup_rounds=1)
        if not benchmark.enabled:
            return
        if calls:
            info = {"calls": round(python_calls(act, *([setup()] if setup else [])) / each, 1)} | info
        benchmark.extra_info.update({what: value() if callable(value) else value for what, value in info.items()})

    return measured


@pytest.fixture
def runner():
    """Return an event loop for the whole benchmark, so that none is made while the clock runs."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    """Return each kind of store in turn."""
    if request.param == "memory":
        yield MemoryCheckpointer()
        return
    with DiskCheckpointer(tmp_path / "store") as disk:
        yield disk


def part_of(parts: int, clock: Callable[[], float]) -> Callable[[], float]:
    """Return a clock that shows the time of one of *parts* equal parts of what goes on."""

    def time_of_a_part() -> float:
        return clock() / parts

    return time_of_a_part


def python_calls(act: Callable[..., Any], *args: Any) -> int:
    """Count the Python functions that *act* calls on this OS thread. A coroutine that goes on counts again."""
    count = 0

    def seen(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        act(*args)
    finally:
        sys.setprofile(None)
    return count


def pytest_collection_finish(session):
    """Take pytest's own objects out of the reach of the garbage collector, which would look through them each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Show the fixture `benchmark` to `--benchmark-only` and `--benchmark-skip`, though `measure` makes it late."""
    every = list(items)  # Some will be deselected, and share their list of fixtures with others.
    for item in every:
        item.fixturenames.append("benchmark")
    result = yield
    for item in every:
        item.fixturenames.remove("benchmark")
    return result


def pytest_benchmark_update_json(output_json):
    """Save with each row its ratio to the fastest row of its table, as the table shows it."""
    rows = output_json["benchmarks"]
    for row in rows:
        fastest = min(other["stats"]["min"] for other in rows if other["group"] == row["group"])
        row["extra_info"]["ratio"] = round(row["stats"]["min"] / fastest, 2)


@pytest.hookimpl(wrapper=True)
def pytest_benchmark_group_stats(benchmarks):
    """Name each row by what is special about it, and put what was counted behind the name."""
    groups = yield
    for _, rows in groups:
        alone = len({row["name"].partition("[")[0] for row in rows}) == 1
        for row in rows:
            row["name"] = ", ".join(about(row, alone))
    return groups


def about(row: Any, alone: bool) -> list[str]:
    """Return what to call a row: its function unless that is *alone* in its table, its parameters, what was counted."""
    function = row["name"].partition("[")[0].removeprefix("test_").replace("_", " ")
    # A row of a saved run comes with the counts of this one.
    counted = row["extra_info"].items() if row["source"] in (False, "NOW") else ()
    return [
        *([] if alone and row["param"] else [function]),
        *(row["param"].split("-") if row["param"] else []),
        *(f"{shown(value)} {what}" for what, value in counted),
    ]


def shown(value: Any) -> str:
    return f"{value:,.1f}".removesuffix(".0") if isinstance(value, int | float) else str(value)
