"""Running tasks with a model: fresh files for each case, one report, and the settings of an evaluation."""

import asyncio
import json
from pathlib import Path

import pytest
from harness.providers import Provider
from harness.wires import WIRES, chat, claude, connected, responses

from minideep import Agent, AssistantMessage, ConfigError, MemoryCheckpointer, Reply, ToolCall, Usage
from minideep.behaviours import TASKS, run
from minideep.models import ScriptedModel

BY_NAME = {task.name: task for task in TASKS}
CRLF, QUESTION = BY_NAME["keep-line-ends"], BY_NAME["answer-a-plain-question"]


def edits(request):
    """A model that changes the file each time it is asked, and so would find it changed in a second case."""
    if len(request.messages) == 1:
        return ToolCall("read_file", {"file_path": "/data/orders.csv"})
    if len(request.messages) == 3:
        assert "1002,5" in request.messages[-1].text
        return ToolCall("edit_file", {"file_path": "/data/orders.csv", "old_string": "1002,5", "new_string": "1002,7"})
    return "Done."


def test_each_case_has_fresh_files_and_its_thread_says_where_they_were():
    store = MemoryCheckpointer()
    report = asyncio.run(run(ScriptedModel(edits), [CRLF], repeat=3, concurrency=2, store=store))
    assert [(case.golden.name, case.run, case.passed) for case in report.cases] == [
        ("keep-line-ends", 1, True), ("keep-line-ends", 2, True), ("keep-line-ends", 3, True),
    ]  # fmt: skip
    reader = Agent(ScriptedModel([]), checkpointer=store)
    places = {reader.get_state(case.thread_id).notes["agent"]["workspace"] for case in report.cases}
    assert len(places) == 3
    assert not any(Path(place).exists() for place in places)  # They are gone with the evaluation.


def test_what_went_wrong_stands_in_the_table_below_its_task():
    report = asyncio.run(run(ScriptedModel(lambda request: "Done."), [CRLF, QUESTION]))
    assert [case.passed for case in report.cases] == [False, False]
    assert r"ends_with(/data/orders.csv): /data/orders.csv, line 3: expected '1002,7\r\n'" in report.table()


def test_a_budget_leaves_tasks_out_that_do_not_pass_unrun():
    dear = ScriptedModel(lambda request: Reply(AssistantMessage("It is not found."), Usage(9, 1), cost=1.0))
    report = asyncio.run(run(dear, [QUESTION, CRLF], budget=0.5))
    assert [case.status for case in report.cases] == ["ended", "not run"]
    assert not report.passed


def test_a_model_that_loops_is_stopped():
    ever = ScriptedModel(lambda request: ToolCall("ls", {"path": f"/{len(request.messages)}"}))
    (case,) = asyncio.run(run(ever, [QUESTION])).cases
    assert (case.status, case.steps) == ("exhausted", 40)


def test_no_tasks_and_an_unknown_model_are_refused():
    with pytest.raises(ConfigError, match="tasks is empty"):
        asyncio.run(run(ScriptedModel([]), []))
    with pytest.raises(ConfigError, match="unknown model 'acme:x'"):
        asyncio.run(run("acme:x", TASKS))


def answers(kind, *calls, text=""):
    """One reply in the words of *kind*: calls of any tools as (id, name, arguments), and text."""
    if kind == "anthropic":
        uses = [{"type": "tool_use", "id": id, "name": name, "input": args} for id, name, args in calls]
        blocks = [*uses, *([claude.text(text)] if text else [])]
        return claude.answer(claude.message(*blocks, stop="tool_use" if calls else "end_turn"))
    if kind == "openai":
        items = [responses.message(text)] if text else []
        items += [responses.call(id, json.dumps(args), name=name) for id, name, args in calls]
        return responses.answer(responses.response(*items))
    message = {"content": text or None}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            for id, name, args in calls
        ]
    return chat.answer(chat.completion(message, "tool_calls" if calls else "stop"))


@pytest.mark.parametrize("kind", WIRES)
async def test_a_task_runs_over_a_real_sdk(kind):
    old, new = {"old_string": "1002,5", "new_string": "1002,7"}, {"file_path": "/data/orders.csv"}
    with Provider(
        answers(kind, ("c1", "read_file", new)),
        answers(kind, ("c2", "edit_file", new | old)),
        answers(kind, text="Order 1002 is for 7 pieces now."),
    ) as provider:
        async with connected(kind, provider.url) as model:
            report = await run(model, [CRLF])
    assert report.passed, report.table()
    assert len(provider.bodies) == report.steps == 3
