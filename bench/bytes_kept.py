"""The bytes that a thread takes up on a disk, beside LangGraph with its SQLite saver if that is installed.

    python bench/bytes_kept.py

The same conversation for both: one turn of 200 steps, and 200 turns of 3 steps. A step is a reply with one tool call
and its result of 2,000 characters that was never said before. Prints the size of the folder after the store is closed.
"""

import importlib.util
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from boundary import prose

from minideep import Agent, DiskCheckpointer, ToolCall, tool
from minideep.models import ScriptedModel

SHAPES = {"1 turn of 200 steps": (1, 200), "200 turns of 3 steps": (200, 3)}


@tool
async def look(page: int) -> str:
    """Read a page."""
    return text_of(page)


@cache
def text_of(page: int) -> str:
    """Return the same text for the same page, so that all store the same."""
    return prose(2000)


def run_minideep(folder: str, turns: int, steps: int) -> None:
    script = []
    for page in range(turns * steps):
        script.append(ToolCall("look", {"page": page}))
        if page % steps == steps - 1:
            script.append("done")
    with DiskCheckpointer(folder) as store:
        agent = Agent(ScriptedModel(script), [look], checkpointer=store)
        for _ in range(turns):
            assert agent.run_sync("go", "t").saved


def run_langgraph(folder: str, turns: int, steps: int, durability: Any) -> None:
    """A model node and a tool node with the usual `messages` channel."""
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, MessagesState, StateGraph

    pages = iter(range(turns * steps))
    left = [0]

    def model(state: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            return {"messages": [AIMessage("done")]}
        page = next(pages)
        call = {"name": "look", "args": {"page": page}, "id": f"c{page}"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    def tools(state: Any) -> Any:
        call = state["messages"][-1].tool_calls[0]
        return {"messages": [ToolMessage(text_of(call["args"]["page"]), tool_call_id=call["id"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.set_entry_point("model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    with SqliteSaver.from_conn_string(f"{folder}/graph.sqlite") as saver:
        app = graph.compile(checkpointer=saver)
        for _ in range(turns):
            left[0] = steps
            config = {"configurable": {"thread_id": "t"}, "recursion_limit": 10_000}
            app.invoke({"messages": [("user", "go")]}, config, durability=durability)


def size_after(run: Any, *args: Any) -> float:
    """Megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        run(folder, *args)
        return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6


def main() -> int:
    peers = [importlib.util.find_spec(name) for name in ("langgraph", "langchain_core")]
    for name, shape in SHAPES.items():
        print(name)
        print(f"  {'minideep':44} {size_after(run_minideep, *shape):10,.2f} MB", flush=True)
        if not all(peers):
            continue
        for durability in ("async", "exit"):
            title = f'LangGraph {version("langgraph")}, durability="{durability}"'
            print(f"  {title:44} {size_after(run_langgraph, *shape, durability):10,.2f} MB", flush=True)
    if not all(peers):
        print("LangGraph is not here; after `pip install langgraph-checkpoint-sqlite` its figures stand beside these")
    return 0


if __name__ == "__main__":
    sys.exit(main())
