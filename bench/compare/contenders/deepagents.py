"""deepagents: `create_deep_agent` as it ships, with LangGraph's SQLite saver where threads are stored."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent

from bench.compare.contender import Kept
from bench.compare.work import SYSTEM, WINDOW, Work

from .langgraph import Scripted, Session, open_saver, tools

TITLE = "deepagents create_deep_agent"
PACKAGES = ("deepagents", "langgraph-checkpoint-sqlite")
CONFIGURATIONS: dict[str, Kept] = {
    "none": "caller",
    "memory": "memory",
    "async": "disk",  # The default.
    "exit": "disk",
    "compaction": "caller",
}
ENDLESS = 10**12


def build(work: Work, configuration: str = "none", saver: Any = None) -> Any:
    window = WINDOW if configuration == "compaction" else ENDLESS
    model = Scripted(work=work, profile={"max_input_tokens": window})
    return create_deep_agent(model, tools(work, is_async=False), system_prompt=SYSTEM, checkpointer=saver)


async def open(configuration: str, folder: Path, work: Work) -> Session:
    stack, kept = AsyncExitStack(), CONFIGURATIONS[configuration]
    saver = await open_saver(stack, kept, configuration, folder)
    return Session(build(work, configuration, saver), stack, kept, configuration)
