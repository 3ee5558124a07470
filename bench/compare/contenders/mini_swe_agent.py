"""mini-swe-agent: its `DefaultAgent` with tool calls, whose environment is the book instead of a shell."""

import json
from pathlib import Path
from typing import Any

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.exceptions import Submitted
from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output
from minisweagent.models.utils.actions_toolcall import BASH_TOOL

from bench.compare.contender import Kept
from bench.compare.work import DONE, Work, as_sent, tool_as_sent

TITLE = "mini-swe-agent DefaultAgent"
PACKAGES = ("mini-swe-agent",)
CONFIGURATIONS: dict[str, Kept] = {"none": "caller", "trajectory": "disk"}
CANNOT = {"turns": "a run begins anew, so that a thread has one turn"}


class Scripted(DeterministicToolcallModel):
    def __init__(self, work: Work) -> None:
        super().__init__(outputs=[])
        self.work = work

    def query(self, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        page = self.work.reply(messages[-1]["content"], lambda: sent(messages))
        action = {"command": "submit" if page is None else f"look {page}", "tool_call_id": f"call_{page}"}
        function = {"name": "bash", "arguments": json.dumps({"command": action["command"]})}
        call = {"id": action["tool_call_id"], "type": "function", "function": function}
        return make_toolcall_output("", [call], [action])


class Book:
    """An environment: `look 12` shows a page, `submit` ends the run."""

    config: Any = None

    def __init__(self, work: Work) -> None:
        self.work = work

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        if action["command"] == "submit":
            extra = {"exit_status": "Submitted", "submission": DONE}
            raise Submitted({"role": "exit", "content": DONE, "extra": extra})
        output = self.work.read(int(action["command"].removeprefix("look ")))
        return {"output": output, "returncode": 0, "exception_info": ""}

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        return {"system": "Linux", "release": "", "version": "", "machine": ""}

    def serialize(self) -> dict[str, Any]:
        return {}


def build(work: Work, path: Path | None = None) -> DefaultAgent:
    config = yaml.safe_load((builtin_config_dir / "mini.yaml").read_text())["agent"]
    return DefaultAgent(Scripted(work), Book(work), **{**config, "cost_limit": 0, "output_path": path})


async def open(configuration: str, folder: Path, work: Work) -> "Session":
    return Session(work, folder if CONFIGURATIONS[configuration] == "disk" else None)


class Session:
    """An agent a thread; with a folder, each writes its trajectory there after every step."""

    def __init__(self, work: Work, folder: Path | None) -> None:
        self.work, self.folder = work, folder
        self.agents: dict[str, DefaultAgent] = {}

    def path(self, thread: str) -> Path | None:
        return self.folder and self.folder / f"{thread}.traj.json"

    async def turn(self, thread: str, text: str) -> str:
        if thread in self.agents:
            raise NotImplementedError(CANNOT["turns"])
        self.agents[thread] = build(self.work, self.path(thread))
        return self.agents[thread].run(text)["submission"]

    async def resume(self, thread: str) -> str:
        raise LookupError("a trajectory is for reading; no run continues it")

    async def messages(self, thread: str) -> list[tuple[str, str]]:
        path = self.path(thread)
        if path:
            found = json.loads(path.read_text())["messages"] if path.exists() else []
        else:
            found = self.agents[thread].messages if thread in self.agents else []
        return [(ROLES.get(one["role"], one["role"]), one["content"] or "") for one in found if one["role"] != "system"]

    async def close(self) -> None:
        pass


ROLES = {"exit": "tool"}


def sent(messages: list[dict[str, Any]]) -> list[str]:
    """Return the request as it would be sent."""
    function = BASH_TOOL["function"]
    parts = [tool_as_sent(function["name"], function["description"], function["parameters"])]
    for one in messages:
        calls = [
            (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in one.get("tool_calls", ())
        ]
        parts.append(as_sent(one["role"], one["content"] or "", calls, one.get("tool_call_id", "")))
    return parts
