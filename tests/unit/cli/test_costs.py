"""`minideep costs`: every width, every kind of thread, and JSON for programs."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from harness.agents import ping, sub, task
from harness.stores import plain
from harness.terminal import at_a_terminal, minideep, process
from rich.cells import cell_len

from minideep import Agent, DiskCheckpointer, Interrupt, Middleware, ToolCall, create_deep_agent
from minideep.models import ScriptedModel

FROZEN = sorted((Path(__file__).parents[2] / "frozen").glob("*.json"))


class Ask(Middleware):
    async def before_tool(self, ctx, call):
        return Interrupt(call, "sure?")


@pytest.fixture
def state(tmp_path):
    """A folder with a thread of two turns: one that runs a subagent, and one that waits for a person."""
    folder = tmp_path / "state"
    with DiskCheckpointer(folder) as store:
        about = {"subagents": [sub("helper", ScriptedModel([ToolCall("ping"), "helped"]), tools=[ping])]}
        replies = [[task("helper", "h"), ToolCall("ls", {"path": "/"})], "done", ToolCall("ping")]
        create_deep_agent(ScriptedModel(replies[:2]), checkpointer=store, **about).run_sync(
            "Tell me of 猫猫猫猫猫猫猫猫猫猫猫猫猫猫猫猫猫猫猫猫 and \x1b[31mdogs, who \u202e bark at the postman", "t"
        )
        create_deep_agent(ScriptedModel(replies[2:]), [ping], middleware=[Ask()], checkpointer=store).run_sync(
            "go", "t"
        )
    return folder


def costs(state, *args, width=100):
    return minideep("costs", *args, "--state", str(state), cwd=state.parent, env={"COLUMNS": str(width)})


def table(text, title):
    """The lines of the table whose first column is *title*."""
    return re.search(rf"^{title} .*\n((?:.+\n)*)", text, re.MULTILINE)[1].splitlines()


def test_a_thread_is_shown_with_its_sums_its_agents_its_turns_and_one_turn_by_step_and_subagent(state):
    run = costs(state, "t", "--turn", "1")
    assert (run.returncode, run.stderr) == (0, "")
    assert re.search(r"^thread  t: paused, 2 turns$", run.stdout, re.MULTILINE)
    assert re.search(r"^time +[\d.]+ m?s: █ models .*, ▒ tools .*, ░ rest, of it minideep [\d.]+ ms", run.stdout, re.M)
    assert re.search(r"^bytes   [\d.]+ K?B of events, stored as [\d.]+ K?B$", run.stdout, re.MULTILINE)
    assert [line.split()[:2] for line in table(run.stdout, "agent")] == [["main", "1"], ["helper", "1"]]
    assert [re.findall(r"ended|paused", line) for line in table(run.stdout, "turn")] == [["ended"], ["paused"]]
    labels = [re.match(r" *.*?(?=  )", line)[0] for line in table(run.stdout, "step")]
    assert labels == ["1 task, ls", "  helper (task)", "    1 ping", "    2 answer", "2 answer"]
    assert all(re.search("[█▒─]$", line.rstrip()) for line in table(run.stdout, "step"))


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_no_line_is_wider_than_the_terminal_and_each_turn_keeps_its_bar(state, width):
    run = costs(state, "t", "--turn", "1", width=width)
    assert max(map(cell_len, run.stdout.splitlines())) <= width
    assert all(re.search("[█▒░]", line) for line in table(run.stdout, "turn"))
    heads = re.search("^turn .*$", run.stdout, re.MULTILINE)[0].split()
    assert {"took", "model"} <= set(heads)
    assert ("stored" in heads) == (width >= 140)


def test_no_text_of_an_input_can_move_the_cursor_and_a_pipe_gets_plain_text(state):
    shown = costs(state, "t", "--turn", "1", width=200).stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[31mdogs" in shown


def test_a_terminal_without_these_characters_gets_ascii(state):
    started = process(["costs", "t", "--state", str(state)], state.parent, {"PYTHONIOENCODING": "ascii"})
    shown = subprocess.run(**started, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL).stdout
    assert re.search("^time .*# models .*, = tools .*, [.] rest", shown, re.MULTILINE)
    assert re.search("[#=.]$", table(shown, "step")[0].rstrip())


def test_a_person_at_a_terminal_gets_the_same(state):
    code, shown = at_a_terminal("costs", "t", "--state", str(state), cwd=state.parent)
    assert code == 0
    assert "█ models" in shown
    assert "turn 2: go; paused after" in shown


def test_of_many_turns_the_last_are_listed_and_the_others_added_up(tmp_path):
    with DiskCheckpointer(tmp_path / "state") as store:
        agent = Agent(ScriptedModel(lambda _: "ok"), checkpointer=store)
        for number in range(25):
            agent.run_sync(f"go {number}", "t")
    shown = costs(tmp_path / "state", "t").stdout
    assert re.search("^steps   25 model replies", shown, re.MULTILINE)
    lines = table(shown, "turn")
    assert lines[0].startswith("1 to 15 ")
    assert [line.split()[0] for line in lines[1:]] == [str(number) for number in range(16, 26)]
    lines = table(costs(tmp_path / "state", "t", "--last", "2").stdout, "turn")
    assert [line.split()[0] for line in lines] == ["1", "24", "25"]
    parsed = [json.loads(line) for line in costs(tmp_path / "state", "t", "--json").stdout.splitlines()]
    assert [line.get("number") for line in parsed] == [*range(1, 26), None]


def test_of_many_steps_the_last_are_listed_and_the_others_added_up(tmp_path):
    with DiskCheckpointer(tmp_path / "state") as store:
        script = [ToolCall("ping")] * 70 + ["done"]
        Agent(ScriptedModel(script), [ping], checkpointer=store).run_sync("go", "t")
    first, *others = table(costs(tmp_path / "state", "t").stdout, "step")
    assert first.startswith("21 steps before ")
    assert [line.split()[0] for line in others] == [str(number) for number in range(22, 72)]


def test_json_has_a_line_for_each_turn_and_one_for_the_thread(state):
    first, second, whole = map(json.loads, costs(state, "t", "--json").stdout.splitlines())
    assert [one["event"] for one in (first, second, whole)] == ["TurnCosts", "TurnCosts", "ThreadCosts"]
    assert (first["number"], first["status"], second["waited_s"]) == (1, "ended", None)
    (child,) = first["run"]["steps"][0]["calls"][0]["runs"]
    assert (child["agent"], child["path"], child["total"]["replies"]) == ("helper", ["h"], 2)
    assert whole["total"]["replies"] == first["run"]["total"]["replies"] + second["run"]["total"]["replies"] == 5
    assert "turns" not in whole
    (only, _) = map(json.loads, costs(state, "t", "--json", "--turn", "2").stdout.splitlines())
    assert only == second
    (last, _) = map(json.loads, costs(state, "t", "--json", "--last", "1").stdout.splitlines())
    assert last == second


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["nobody"], "no thread 'nobody' here"),
        (["t", "--turn", "3"], "thread 't' keeps no turn 3; its newest is 2"),
        (["t", "--last", "0"], "must be a whole number from 1"),
    ],
)
def test_what_does_not_exist_is_one_clear_line(state, args, problem):
    run = costs(state, *args)
    assert (run.returncode, run.stdout) == (2, "")
    assert problem in run.stderr.splitlines()[-1]


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.stem)
def test_threads_of_every_format_are_read_and_what_they_do_not_hold_is_unknown(path, tmp_path):
    frozen = json.loads(path.read_text())
    rows = {key: bytes.fromhex(value) for key, value in frozen["rows"].items()}
    with DiskCheckpointer(tmp_path / "state") as store:
        plain(store).append("thread/ü", None, bytes.fromhex(frozen["head"]), rows)
    run = costs(tmp_path / "state", "thread/ü")
    assert run.returncode == 0, run.stderr
    assert re.search(r"^      payer \(delegate, paused\)", run.stdout, re.MULTILINE)
    known = path.stem >= "1.4"
    assert ("minideep ?, saving ?" in run.stdout) == (not known)
    assert ("An earlier version saved some turns" in run.stdout) == (not known)
    assert re.search(f"^money   {'[$]0' if path.stem >= '1.3' else 'unknown'}$", run.stdout, re.MULTILINE)
    turn = json.loads(costs(tmp_path / "state", "thread/ü", "--json").stdout.splitlines()[0])
    assert (turn["harness_s"] is None, turn["save_s"] is None) == (not known, not known)
    if "head/cut%2F%C3%BC" in rows:
        cut = costs(tmp_path / "state", "cut/ü").stdout
        assert "1 to 3 (removed)" in cut
        assert "steps   at least 0 model replies" in cut
        assert "Retention removed turns 1 to 3; known are the tokens and the money of their main run." in cut
