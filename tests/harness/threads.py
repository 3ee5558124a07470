"""Calls of plain tools, and the threads that they run on."""

import asyncio
import threading

from minideep import AssistantMessage, ToolCall

ENOUGH = 100
"""Seconds after which a test that waits has failed."""


def calls(count, name="work", **arguments):
    return AssistantMessage(tuple(ToolCall(name, arguments, f"c{number}") for number in range(count)))


def tool_threads():
    return [thread for thread in threading.enumerate() if thread.name == "minideep-tool"]


async def no_longer(condition):
    async with asyncio.timeout(ENOUGH):
        while condition():
            await asyncio.sleep(0.01)
