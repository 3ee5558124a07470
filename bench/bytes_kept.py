"""The bytes that a thread takes up on a disk, beside LangGraph with its SQLite saver if that is installed.

    python bench/bytes_kept.py

The same conversation for both: one turn of 200 steps, and 200 turns of 3 steps. A step is a reply with one tool call
and its result of 2,000 characters that was never said before. Prints the size of the folder after the store is closed.
Then 80 chats of 5 turns: a question of 40 characters, an answer of 130, no tools. Prints the bytes of the database a
turn. Fails if minideep takes more than 450.
"""

import importlib.util
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from boundary import prose
from bounds import bound, verdict

from minideep import Agent, DiskCheckpointer, ToolCall, tool
from minideep.models import ScriptedModel

SHAPES = {"1 turn of 200 steps": (1, 200), "200 turns of 3 steps": (200, 3)}
CHATS, TURNS = 80, 5
QUESTIONS = [prose(40) for _ in range(CHATS * TURNS)]
ANSWERS = [prose(130) for _ in range(CHATS * TURNS)]
DURABILITIES = ("async", "exit")


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


def chat_minideep(folder: str) -> float:
    """Return the bytes of the events a turn."""
    with DiskCheckpointer(folder) as store:
        agent = Agent(ScriptedModel(list(ANSWERS)), checkpointer=store)
        for number, question in enumerate(QUESTIONS):
            assert agent.run_sync(question, f"chat-{number // TURNS}").saved
        return sum(info.bytes_raw for info in agent.threads()) / len(QUESTIONS)


def chat_langgraph(folder: str, durability: Any) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, MessagesState, StateGraph

    answers = iter(ANSWERS)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [AIMessage(next(answers))]})
    graph.set_entry_point("model")
    graph.add_edge("model", END)
    with SqliteSaver.from_conn_string(f"{folder}/graph.sqlite") as saver:
        app = graph.compile(checkpointer=saver)
        for number, question in enumerate(QUESTIONS):
            config = {"configurable": {"thread_id": f"chat-{number // TURNS}"}}
            app.invoke({"messages": [("user", question)]}, config, durability=durability)


def size_after(run: Any, *args: Any) -> float:
    """Megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        run(folder, *args)
        return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6


def short_chats(peers: bool) -> None:
    print(f"{CHATS} chats of {TURNS} turns, bytes a turn")
    with tempfile.TemporaryDirectory() as folder:
        raw = chat_minideep(folder)
        bound("the database of minideep", Path(folder, "cache.db").stat().st_size / len(QUESTIONS), 450, "B")
    print(f"  {'its events':66} {raw:10,.2f} B")
    for durability in DURABILITIES if peers else ():
        title = f'LangGraph {version("langgraph")}, durability="{durability}"'
        print(f"  {title:66} {size_after(chat_langgraph, durability) * 1e6 / len(QUESTIONS):10,.2f} B", flush=True)


def main() -> int:
    peers = all(importlib.util.find_spec(name) for name in ("langgraph", "langchain_core"))
    for name, shape in SHAPES.items():
        print(name)
        print(f"  {'minideep':44} {size_after(run_minideep, *shape):10,.2f} MB", flush=True)
        for durability in DURABILITIES if peers else ():
            title = f'LangGraph {version("langgraph")}, durability="{durability}"'
            print(f"  {title:44} {size_after(run_langgraph, *shape, durability):10,.2f} MB", flush=True)
    short_chats(peers)
    if not peers:
        print("LangGraph is not here; after `pip install langgraph-checkpoint-sqlite` its figures stand beside these")
    return verdict()


if __name__ == "__main__":
    sys.exit(main())
