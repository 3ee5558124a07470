"""Names and sizes, never content: all that planner, reflection and trace show of a blueprint's files."""

import json
import os
import secrets
import subprocess
import sys

import pytest
from harness.blueprints import DEFECTS, Parts, Tens, asked, end, nodes, numbered, plan, reader, replan, research, rounds
from harness.providers import Provider, json_answer

from minideep import DiskCheckpointer, Limits, RateLimited, ToolCall, ToolContext, ToolError, tool
from minideep.blueprint import STOCK_ROLES, Blueprint, Role
from minideep.checkpoint import open_store, thread_costs
from minideep.events import FileWritten, TurnEscalated
from minideep.ports import Retention

# ---- a secret in the files

SECRET = secrets.token_hex(16)


@tool
async def fail() -> str:
    """Fail."""
    raise ToolError(f"no such thing: {SECRET}")


@tool
async def keep(ctx: ToolContext) -> str:
    """Keep a note."""
    ctx.record(FileWritten("/notes.txt", f"note {SECRET}", 37, "0" * 64, 1.0, ctx.path))
    return f"kept {SECRET}"


@tool
async def ask_user(ctx: ToolContext) -> str:
    """Ask the user."""
    ctx.record(TurnEscalated(1.0, f"is {SECRET} right?"))
    return "asked"


def refuse(content):
    raise ValueError(f"not this: {content}")


ROLES = [
    *STOCK_ROLES,
    Role("picky", "You are picky.", validate=refuse),
    Role("busy", "You are busy.", [fail, keep], limits=Limits(steps=3)),
    Role("curious", "You are curious.", [ask_user]),
]


def leaking(request):
    """A role that leaks the secret in every possible way."""
    task = request.messages[0].text.split("\n")[-1]
    replies = {
        "plain": f"it is {SECRET}",
        "long": SECRET * 5_000,
        "code": f"{SECRET}, no code",
        "object": json.dumps({"artifact_name": "object.md", "content": SECRET, "status": "done"}),
        "odd": json.dumps({"artifact_name": "odd.md", "content": "x", "status": SECRET}),
        "odder": json.dumps({"artifact_name": [SECRET], "content": "x", "status": "done"}),
        "defects": DEFECTS.replace("a typo", SECRET),
        "nothing": "",
        "raise": RateLimited(f"slow: {SECRET}"),
        "burst": ValueError(SECRET),
        "tools": [ToolCall("fail"), ToolCall("keep"), ToolCall("none", {"secret": SECRET})],
        "ask": ToolCall("ask_user"),
    }
    return replies[task]


TASKS = [
    ("research-specialist", "plain", "plain.md"),
    ("research-specialist", "long", "long.md"),
    ("code-writer", "code", "code.py"),
    ("critic", "defects", "defects.json"),
    ("research-specialist", "object", "object.md"),
    ("research-specialist", "odd", "odd.md"),
    ("research-specialist", "odder", "odder.md"),
    ("picky", "plain", "picky.md"),
    ("research-specialist", "nothing", "nothing.md"),
    ("research-specialist", "raise", "raise.md"),
    ("research-specialist", "burst", "burst.md"),
    ("busy", "tools", "tools.md"),
]


@pytest.mark.parametrize("durability", ["turn", "tool"])
async def test_only_roles_and_users_see_the_content_of_files(store, durability):
    late = [("research-specialist", "plain", f"late{n}.md", ["plain.md", "long.md", "notes.txt"]) for n in range(5)]
    plans = [*[plan(*TASKS)] * 2, plan(*late), plan(("curious", "ask", "asked.md")), *[plan(*late[:1])] * 3]
    said = ["no JSON", replan(), replan(), replan(), end("{{plain.md}} {{long.md}} {{late0.md}}"), end("{{object.md}}")]
    model = Parts(plans, [*said, end("so")], leaking)
    agent = Blueprint(model, ROLES, checkpointer=store, durability=durability, max_reflection_depth=9)
    turns = [await agent.run(text, "t") for text in ("go", "yes", "and now", "at last")]
    assert [turn.status for turn in turns] == ["escalated", "ended", "ended", "ended"]
    assert [SECRET in turn.text or SECRET in turn.question for turn in turns] == [True, True, True, False]
    assert sum(SECRET in asked(request) for request in model.delegated) > 5
    shown = [request.system + asked(request) for request in (*model.planned, *model.reflected)]
    assert [text for text in shown if SECRET in text] == []
    assert [line for line in agent.trace("t") if SECRET in line] == []
    assert len(shown) == 14


# ---- the trace


async def test_the_trace_says_of_each_part_what_it_did(store):
    def role(request):
        return "x" * 150_000 if asked(request).endswith("one") else RateLimited("slow")

    plans = [plan(research("a.md", task="one"), research("b.md", task="two"))]
    agent = Blueprint(Tens(["no JSON", *plans], [end("so")], role), checkpointer=store)
    await agent.run("go", "t")
    lines = [json.loads(line) for line in reader(store).trace("t")]
    assert all(line.pop("seconds", 1) > 0 and line.pop("prompt_bytes", 1) > 0 for line in lines)
    digest = agent.board("t").files["/research-specialist_1_a.md"].sha256
    role = {"turn": 1, "node": "subagent", "role": "research-specialist"}
    assert lines == [
        {"turn": 1, "step": 0, "node": "planner", "status": "done", "tokens": 20},
        role | {"step": 1, "place": 0, "artifact": "a.md", "file": "research-specialist_1_a.md", "bytes": 150_000,
                "sha256": digest, "status": "done", "tokens": 10},
        role | {"step": 2, "place": 1, "artifact": "b.md", "status": "failed", "error": "its run failed (RateLimited)"},
        {"turn": 1, "step": 2, "node": "reflection", "status": "done", "decision": "end", "tokens": 10},
        {"turn": 1, "step": 2, "node": "cleanup"},
    ]  # fmt: skip


async def test_the_trace_of_a_long_turn_is_whole_though_the_state_holds_only_its_end():
    _, agent = rounds(120, 100)
    await agent.run("go", "t")
    assert nodes(agent) == ["planner", "subagent", "reflection", "cleanup"] * 120
    assert len(agent.board("t").ledger) < 410


async def test_the_trace_is_whole_after_old_boundaries_were_cut_off(tmp_path):
    with DiskCheckpointer(tmp_path / "state", retention=Retention(boundaries=1)) as disk:
        agent = Blueprint(Parts(numbered(), lambda: end()), checkpointer=disk)
        for number in range(40):
            await agent.run(f"goal {number}", "t")
            disk.close()  # What is to be tidied up is.
        assert len(agent.history("t")) < 5
        lines = [json.loads(line) for line in agent.trace("t")]
    assert [(line["turn"], line["node"]) for line in lines] == [
        (turn, node) for turn in range(1, 41) for node in ("planner", "subagent", "reflection", "cleanup")
    ]


# ---- providers

ONE_KEY = """
import os, sys
from minideep.blueprint import Blueprint
turn = Blueprint(sys.argv[1]).run_sync("go")
print(turn.status, turn.text, turn.error, [name for name in os.environ if name.endswith("API_KEY")])
"""


def as_anthropic(said):
    content, usage = [{"type": "text", "text": said}], {"input_tokens": 7, "output_tokens": 3}
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn", "usage": usage}


def as_openai(said):
    part = {"type": "output_text", "text": said, "annotations": [], "logprobs": []}
    message = {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [part]}
    usage = {"input_tokens": 7, "output_tokens": 3}
    return {"id": "resp_1", "status": "completed", "error": None, "output": [message], "usage": usage}


@pytest.mark.parametrize(
    ("name", "model", "form"),
    [("ANTHROPIC", "anthropic:claude-sonnet-4-6", as_anthropic), ("OPENAI", "openai:gpt-5", as_openai)],
)
def test_the_key_of_one_provider_is_enough(name, model, form):
    said = [plan(research()), "Paris. [1]", end("{{facts.md}}")]
    with Provider(*(json_answer(form(one)) for one in said)) as provider:
        env = {**os.environ, f"{name}_API_KEY": "x", f"{name}_BASE_URL": provider.url}
        done = subprocess.run([sys.executable, "-c", ONE_KEY, model], env=env, capture_output=True, text=True)
    assert done.stdout == f"ended Paris. [1] None ['{name}_API_KEY']\n", done.stderr
    schemas = [json.dumps(body).count("additionalProperties") > 0 for body in provider.bodies]
    assert schemas == [True, False, True]


@pytest.mark.parametrize("durability", ["turn", "tool"])
async def test_the_steps_of_a_turn_are_the_replies_of_models_and_none_of_the_graphs(store, durability):
    parts = Parts([plan(research(), research("b.md"))], ["no decision", end("so")])
    bp = Blueprint(parts, checkpointer=store, durability=durability)
    turn = await bp.run("go", "t")
    assert turn.costs.steps == bp.get_state("t").costs.steps == len(parts.requests) == 5
    assert thread_costs(open_store(store), "t").turns[-1].run.total.replies == 5
