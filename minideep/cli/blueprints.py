"""The blueprint that the terminal runs: the stock roles, each with tools to look into a folder."""

from pathlib import Path

from msgspec import structs

from ..backends.filesystem import FilesystemBackend
from ..blueprint import STOCK_ROLES, Blueprint
from ..middleware.files import FilesystemMiddleware
from ..ports import Model, Store
from ..state import Limits

READING = frozenset({"ls", "read_file", "glob", "grep"})


def blueprint_of(
    model: str | Model, root: str | Path, store: Store | None, *, steps: int = 100, approve_plan: bool = False
) -> Blueprint:
    """A blueprint whose roles may read what is in *root*, and change nothing there: what they deliver is the thread's.
    *steps* is how often each subagent may ask its model.
    """
    looking = [tool for tool in FilesystemMiddleware(FilesystemBackend(root)).tools if tool.name in READING]
    roles = [structs.replace(role, tools=looking) for role in STOCK_ROLES]
    return Blueprint(model, roles, checkpointer=store, limits=Limits(steps=steps), approve_plan=approve_plan)
