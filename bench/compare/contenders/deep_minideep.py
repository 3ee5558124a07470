"""minideep: `create_deep_agent` with its usual middleware, which is compared with deepagents."""

from pathlib import Path

from bench.compare.contender import Kept
from bench.compare.work import SYSTEM, WINDOW, Work
from minideep import Agent, Limits, create_deep_agent

from .minideep import Session, model, tools

TITLE = "minideep create_deep_agent"
PACKAGES = ("minideep",)
CONFIGURATIONS: dict[str, Kept] = {
    "none": "caller",
    "memory": "memory",
    "turn": "disk",
    "step": "disk",
    "tool": "disk",
    "compaction": "caller",
}


def build(work: Work, configuration: str = "none") -> Agent:
    window = WINDOW if configuration == "compaction" else None
    return create_deep_agent(model(work, window), tools(work), SYSTEM, limits=Limits(steps=None))


async def open(configuration: str, folder: Path, work: Work) -> Session:
    return Session(build(work, configuration), CONFIGURATIONS[configuration], configuration, folder)
