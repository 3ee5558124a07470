"""The cost of a step, counted in calls of Python functions: unlike a time, it is the same however busy the machine is."""

import asyncio
import gc
import sys
from collections import Counter
from pathlib import Path

import pytest

import minideep
from minideep import Agent, Limits, ToolCall, create_deep_agent, tool
from minideep.models import ScriptedModel, scripted

WINDOWS = ((100, 200), (1900, 2000))
PACKAGE = str(Path(minideep.__file__).parent)
APART = {scripted.__file__, __file__}
"""The files of the model, and of the tool and the script below: what is left is the harness."""
LIMITS = Limits(steps=None)


@tool
async def ping(text: str = "") -> str:
    """Answer at once."""
    return "pong"


def bare(model):
    return Agent(model, [ping], limits=LIMITS)


def usual(model):
    return create_deep_agent(model, [ping], limits=LIMITS)


def counted(make, parallel=1, windows=WINDOWS):
    """Run one turn, each of whose replies asks for *parallel* calls, with ids of their own as providers send them.

    Return, for each window of steps, how often each function was called in a step, by its file and name.
    """
    found = [Counter() for _ in windows]
    replies = [
        [ToolCall("ping", {"text": "x"}, f"call-{step}-{place}") for place in range(parallel)]
        for step in range(windows[-1][1])
    ]
    asked = 0

    def watch(calls):
        def note(frame, event, arg):
            if event == "call":
                calls[frame.f_code.co_filename, frame.f_code.co_qualname] += 1

        return note

    def say(request):
        nonlocal asked
        asked += 1
        for calls, (first, last) in zip(found, windows, strict=True):
            if asked == first:
                sys.setprofile(watch(calls))
            elif asked == last:
                sys.setprofile(None)
        return replies[asked - 1] if asked <= len(replies) else "done"

    model = ScriptedModel(say)
    gc.disable()  # Other libraries of the tests have functions called with each collection.
    try:
        assert asyncio.run(make(model).run("go")).status == "ended"
    finally:
        sys.setprofile(None)
        gc.enable()
    return [
        {key: count / (last - first) for key, count in calls.items() if key[0] not in APART}
        for calls, (first, last) in zip(found, windows, strict=True)
    ]


@pytest.mark.parametrize(("make", "bound"), [(bare, 40), (usual, 61)])
def test_a_step_takes_few_calls_and_as_many_at_step_2000_as_at_step_100(make, bound):
    early, late = counted(make)
    assert 20 < sum(early.values()) <= bound
    assert early == late


def test_parallel_calls_cost_less_each_than_a_step_of_their_own():
    (step,) = counted(bare, parallel=5, windows=WINDOWS[:1])
    own = sum(count for (file, _), count in step.items() if file.startswith(PACKAGE))
    assert 60 < own <= 110
    # Each begins in a task of its own; the run wakes up once, and not for each that ends.
    assert step[asyncio.events.__file__, "Handle._run"] <= 7
