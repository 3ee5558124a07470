"""What runs again after a kill in the tool of step 5 of 8, beside LangGraph with its SQLite saver if that is installed.

    python bench/kill_once.py [kills]

A worker process kills itself in the tool, six times for each durability; another one continues the thread. Prints how
often each call ran again, and how many threads could not be continued. A model takes 50 ms, a tool no time.
"""

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from time import sleep
from typing import Any

from minideep import Agent, DiskCheckpointer, ToolCall, UnknownThread, tool
from minideep.models import ScriptedModel

STEPS, FATAL, LATENCY = 8, 5, 0.05
DURABILITIES = {"minideep": ("turn", "step", "tool"), "LangGraph": ("sync", "async", "exit")}


def work(folder: Path, step: int) -> str:
    """The body of the tool: note the call, and die in the fifth one, once."""
    with (folder / "calls").open("a") as calls:
        calls.write(f"{step}\n")
    if step == FATAL and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def run_minideep(folder: Path, durability: Any) -> str:
    @tool
    async def act(step: int) -> str:
        """Do a step."""
        return work(folder, step)

    def reply(request: Any) -> Any:
        sleep(LATENCY)
        step = sum(message.role == "tool" for message in request.messages) + 1
        return ToolCall("act", {"step": step}) if step <= STEPS else "done"

    with DiskCheckpointer(folder / "state") as store:
        agent = Agent(ScriptedModel(reply), [act], checkpointer=store, durability=durability)
        if not (folder / "killed").exists():
            return agent.run_sync("go", "t").status
        try:
            return asyncio.run(agent.resume("t")).status
        except UnknownThread:
            return "nothing is stored"


def run_langgraph(folder: Path, durability: Any) -> str:
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, MessagesState, StateGraph

    def model(state: Any) -> Any:
        sleep(LATENCY)
        step = sum(message.type == "tool" for message in state["messages"]) + 1
        calls = [{"name": "act", "args": {"step": step}, "id": f"c{step}"}] if step <= STEPS else []
        return {"messages": [AIMessage("", tool_calls=calls)]}

    def tools(state: Any) -> Any:
        call = state["messages"][-1].tool_calls[0]
        return {"messages": [ToolMessage(work(folder, call["args"]["step"]), tool_call_id=call["id"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.set_entry_point("model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    with SqliteSaver.from_conn_string(str(folder / "graph.sqlite")) as saver:
        app, config = graph.compile(checkpointer=saver), {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
        given = None if (folder / "killed").exists() else {"messages": [("user", "go")]}
        if given is None:
            state = app.get_state(config)
            if not state.values:
                return "nothing is stored"
            if not state.next:
                return "next == ()"
        app.invoke(given, config, durability=durability)
        return "ended"


def report(name: str, durability: str, kills: int) -> None:
    again, outcomes = Counter[str](), Counter[str]()
    for _ in range(kills):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--worker", name, durability, folder]
            killed = subprocess.run(command, capture_output=True, text=True)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            resumed = subprocess.run(command, capture_output=True, text=True, check=True)
            calls = Counter(Path(folder, "calls").read_text().split())
            again.update(f"call {step}" for step, times in calls.items() if times > 1)
            outcomes[resumed.stdout.strip()] += 1
    ran = ", ".join(f"{call}: {again[call]}" for call in sorted(again)) or "none"
    ends = ", ".join(f"{end}: {count}" for end, count in outcomes.items())
    print(f"{name:10} {durability:6} ran again of {kills}: {ran:60} {ends}", flush=True)


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        _, _, name, durability, folder = sys.argv
        print((run_minideep if name == "minideep" else run_langgraph)(Path(folder), durability))
        return 0
    there = all(importlib.util.find_spec(name) for name in ("langgraph", "langchain_core"))
    for name, durabilities in DURABILITIES.items():
        if name == "LangGraph" and not there:
            print("LangGraph is not here; after `pip install langgraph-checkpoint-sqlite` its rows stand below")
            continue
        if name == "LangGraph":
            print(f"LangGraph {version('langgraph')}")
        for durability in durabilities:
            report(name, durability, int(sys.argv[1]) if len(sys.argv) > 1 else 6)
    return 0


if __name__ == "__main__":
    sys.exit(main())
