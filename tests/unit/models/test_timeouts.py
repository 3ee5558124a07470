"""The clocks that end a request which takes too long."""

import asyncio

import pytest

from minideep import ConfigError
from minideep.models import OpenAI, Timeouts
from minideep.models.timeouts import Silence, TimedOut, within


async def test_a_server_that_never_answers_is_left_after_the_time_to_its_first_byte():
    with pytest.raises(TimedOut, match=r"^no answer began within 0.01 s; set timeout=Timeouts\(first_byte=...\) to"):
        async with Silence(Timeouts(first_byte=0.01)):
            await asyncio.Event().wait()


@pytest.mark.parametrize("first_byte", [None, 60])
async def test_a_server_that_falls_silent_is_left_after_the_time_between(first_byte):
    async def wait():
        async with Silence(Timeouts(first_byte=first_byte, between=0.01)) as silence:
            silence.heard()
            await asyncio.Event().wait()

    with pytest.raises(TimedOut, match=r"^nothing more came within 0.01 s; set timeout=Timeouts\(between=...\) to"):
        await wait()


async def test_whoever_is_heard_is_not_silent():
    async with Silence(Timeouts(first_byte=0.5, between=0.5)) as silence:
        for _ in range(40):
            await asyncio.sleep(0.02)
            silence.heard()


async def test_what_is_heard_sets_no_timer():
    """One that is set at the beginning of each phase looks for itself how long it has been silent."""
    loop = asyncio.get_running_loop()
    async with Silence(Timeouts(first_byte=60, between=60)) as silence:
        silence.heard()
        timers = len(loop._scheduled)
        for _ in range(1000):
            silence.heard()
        assert len(loop._scheduled) == timers


async def test_nothing_is_left_behind():
    loop = asyncio.get_running_loop()
    async with Silence(Timeouts(first_byte=60, between=60)) as silence:
        silence.heard()
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []


async def test_without_limits_nothing_is_timed():
    loop = asyncio.get_running_loop()
    async with Silence(Timeouts(None, None, None)) as silence, within(None):
        silence.heard()
        assert list(loop._scheduled) == []


async def test_the_whole_reply_has_a_limit_too():
    with pytest.raises(TimedOut, match=r"^the reply was not complete within 0.01 s; set timeout=Timeouts\(total=...\)"):
        async with within(0.01):
            await asyncio.Event().wait()


@pytest.mark.parametrize("limit", [lambda: within(60), lambda: Silence(Timeouts())], ids=["total", "silence"])
async def test_a_timeout_of_somebody_else_passes_and_so_does_being_cancelled(limit):
    with pytest.raises(TimeoutError, match=r"^of mine$"):
        async with limit():
            raise TimeoutError("of mine")

    async def waiting():
        async with limit():
            await asyncio.Event().wait()

    task = asyncio.create_task(waiting())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("wrong", [0, -1, "60", float("nan"), True])
def test_what_is_no_time_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"^Timeouts: first_byte must be "):
        Timeouts(first_byte=wrong)
    with pytest.raises(ConfigError, match=r"^OpenAI: timeout must be "):
        OpenAI("m", timeout=wrong)
