"""The commands of the terminal, in real processes, with real folders and a real terminal."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.terminal import minideep, process

from minideep import __version__


@pytest.fixture
def cats(tmp_path):
    """A folder about cats."""
    folder = tmp_path / "cats"
    (folder / "breeds").mkdir(parents=True)
    (folder / "README.md").write_text("# Cats\n\nThis folder says what cats eat and where they sleep.\n")
    for name in ("siamese", "persian", "sphynx", "bengal", "birman"):
        (folder / "breeds" / f"{name}.md").write_text(f"The {name} is a cat that likes fish and warm places.\n")
    return folder


def thread_of(run):
    return re.search(r"^thread (\S+)$", run.stdout, re.MULTILINE)[1]


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_command_says_its_version(option, tmp_path):
    run = minideep(option, cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"minideep {__version__}\n", "")


def test_the_main_job_plans_reads_delegates_writes_and_is_there_tomorrow(cats):
    run = minideep("run", "Say what cats like, to CATS.md", "--root", ".", cwd=cats)
    assert run.returncode == 0, run.stderr
    assert "no --model and no ANTHROPIC_API_KEY or OPENAI_API_KEY: using offline:" in run.stderr
    assert run.stderr.count("\n") == 1
    assert "Task List" in run.stdout
    report = (cats / "CATS.md").read_text()
    assert "This folder says what cats eat and where they sleep." in report
    assert "The sphynx is a cat that likes fish and warm places." in report
    assert "/CATS.md is written" in run.stdout
    show = minideep("show", thread_of(run), cwd=cats)
    assert "> Say what cats like, to CATS.md" in show.stdout
    assert re.search(r"# subagent general-purpose call_\d+_\d+: ended", show.stdout)
    assert "say in one line each" not in show.stdout.split("# subagent")[1]
    assert (
        "say in one line each"
        in minideep("show", thread_of(run), "--subagents", cwd=cats).stdout.split("# subagent")[1]
    )
    listed = minideep("threads", cwd=cats).stdout
    assert thread_of(run) in listed
    assert "Say what cats like" in listed


def test_another_folder_gives_another_result_and_a_second_goal_remembers_the_first(cats, tmp_path):
    dogs = tmp_path / "dogs"
    dogs.mkdir()
    (dogs / "README.md").write_text("Dogs bark at the postman every single morning.\n")
    run = minideep("run", "Say what is here, to OUT.md", "--root", str(dogs), "--thread", "dogs/1", cwd=cats)
    assert run.returncode == 0
    assert "Dogs bark at the postman" in (dogs / "OUT.md").read_text()
    run = minideep("run", "And who barks, to BARKS.md", "--root", str(dogs), "--thread", "dogs/1", cwd=cats)
    assert run.returncode == 0
    assert "- Say what is here, to OUT.md" in (dogs / "BARKS.md").read_text()
    assert "✗" not in run.stdout
    assert re.search(r"dogs/1\s+ended\s+2", minideep("threads", "--root", str(dogs), cwd=cats).stdout)


def test_a_thread_is_shown_forked_exported_and_deleted(cats):
    for goal in ("Say what cats like, to A.md", "Say where they sleep, to B.md"):
        assert minideep("run", goal, "--thread", "t", cwd=cats).returncode == 0
    assert re.search(r"^1 .* ended .* Say what cats like", minideep("history", "t", cwd=cats).stdout, re.MULTILINE)
    fork = minideep("fork", "t", "--at", "1", cwd=cats)
    name = fork.stdout.strip()
    assert re.search(rf"{name}\s+ended\s+1 ", minideep("threads", cwd=cats).stdout)
    assert minideep("resume", name, cwd=cats).returncode == 0
    lines = [json.loads(line) for line in minideep("export", "t", cwd=cats).stdout.splitlines()]
    assert (lines[0]["content"], lines[0]["path"], lines[-1]["agent"]) == (
        "Say what cats like, to A.md", [], "general-purpose",
    )  # fmt: skip
    assert minideep("delete", "t", cwd=cats).returncode == 0
    gone = minideep("show", "t", cwd=cats)
    assert (gone.returncode, gone.stderr.startswith("minideep: no thread 't'")) == (2, True)
    assert minideep("show", name, cwd=cats).returncode == 0


def test_each_call_has_a_line_for_its_start_and_one_for_its_end(cats):
    out = minideep("run", "Say what is here", cwd=cats).stdout
    starts, ends = (
        re.findall(r"^-> read_file (\S+)$", out, re.MULTILINE),
        re.findall(r"^✓ read_file (\S+)", out, re.MULTILINE),
    )
    assert len(starts) > 1
    assert sorted(starts) == sorted(ends)
    assert re.search(r"^  -> read_file", out, re.MULTILINE)
    assert re.search(r"\d+ model replies · \d+ tool calls, [\d,]+ characters · state [\d.]+ K?B", out)


def test_the_panel_shows_only_when_the_list_changed(cats):
    out = minideep("run", "Say what is here", cwd=cats).stdout
    panels = re.findall(r"╭─ Task List.*?╯", out, re.DOTALL)
    assert len(panels) == len(set(panels)) == 4
    assert "not done" not in out


def test_json_is_one_event_a_line(cats):
    run = minideep("run", "Say what is here", "--json", cwd=cats)
    events = [json.loads(line) for line in run.stdout.splitlines()]
    kinds = [event["event"] for event in events]
    assert (kinds[0], kinds[-1]) == ("UserSaid", "Turn")
    assert {"ModelReplied", "ToolStarted", "ToolEnded", "TodosWritten", "FileWritten", "TurnEnded"} <= set(kinds)
    assert events[0]["message"] == {"type": "human", "content": "Say what is here"}
    reply = next(event for event in events if event["event"] == "ModelReplied")
    assert reply["message"]["tool_calls"][1] == {"id": "call_3_1", "name": "glob", "args": {"pattern": "*"}}
    assert any(event.get("path") for event in events)
    assert events[-1]["status"] == "ended"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_terminal_without_these_characters_gets_ascii(cats, encoding):
    started = process(["run", "Say what is here"], cats, {"PYTHONIOENCODING": encoding})
    run = subprocess.run(**started, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert run.returncode == 0, run.stderr
    assert ("[x] Find out" in run.stdout, "ok read_file" in run.stdout) == ((encoding == "ascii"),) * 2
    assert "\x1b[" not in run.stdout


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["run", ""], "the input is empty; say what the agent is to do"),
        (["run", "x", "--model", "gpt"], "unknown model 'gpt'; write `provider:model`"),
        (["run", "x", "--model", "acme:gpt"], "unknown model 'acme:gpt'"),
        (["run", "x", "--root", "missing"], "missing"),
        (["run", "x", "--root", "README.md"], "README.md"),
        (["run", "x", "--thread", ""], "thread_id must be text of 1 to 500 characters"),
        (["run", "x", "--limit-steps", "0"], "must be a whole number from 1 to 1,000,000,000"),
        (["resume", "nobody"], "no thread 'nobody'"),
        (["show", "nobody"], "no thread 'nobody'"),
        (["history", "nobody"], "no thread 'nobody'"),
        (["delete", "nobody"], "no thread 'nobody'"),
        (["fork", "nobody", "--at", "0"], "must be a whole number from 1"),
        ([], "required: COMMAND"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_2(cats, args, problem):
    run = minideep(*args, cwd=cats)
    assert run.returncode == 2
    assert problem in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr


def test_a_model_without_its_key_fails_with_the_remedy(cats):
    run = minideep("run", "x", "--model", "anthropic:claude-sonnet-4-6", cwd=cats)
    assert run.returncode == 1
    assert "AuthenticationFailed" in run.stdout
    assert "ANTHROPIC_API_KEY" in run.stdout


def test_a_turn_at_its_limit_exits_4_and_can_be_resumed(cats):
    run = minideep("run", "Say what is here", "--limit-steps", "2", "--thread", "t", cwd=cats)
    assert run.returncode == 4
    assert "exhausted: steps" in run.stdout
    assert "\ntodos: 2 of 3 not done\n" in run.stdout
    codes = [minideep("resume", "t", cwd=cats).returncode for _ in range(3)]
    assert codes[-1] == 0
    assert (cats / "REPORT.md").exists()


def test_the_answer_is_printed_even_if_the_thread_cannot_be_saved(cats):
    (cats / "file").write_text("in the way")
    run = minideep("run", "Say what is here", "--state", "file/state", cwd=cats)
    assert run.returncode == 0
    assert "/REPORT.md is written" in run.stdout
    assert "not saved: cannot write the state in 'file/state'" in run.stderr


@pytest.mark.parametrize("no_color", [None, "1"])
def test_a_terminal_gets_colours_unless_no_color_is_set(cats, no_color):
    ours, theirs = pty.openpty()
    env = {"TERM": "xterm-256color", "NO_COLOR": no_color or ""}
    started = process(["run", "Say what is here"], cats, env)
    with subprocess.Popen(**started, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += (part := os.read(ours, 65536))
            except OSError:  # The other side is closed: Linux says EIO.
                break
            if not part:
                break
    os.close(ours)
    assert run.returncode == 0
    assert (b"\x1b[33m" in shown, b"\x1b[32m" in shown) == ((not no_color,) * 2)


def test_no_text_of_a_file_or_a_goal_can_move_the_cursor(cats):
    (cats / "README.md").write_text("\x1b[31m[red]Red cats sleep all day long.[/red]\x1b[2J \u202eevil\n")
    run = minideep("run", "Say \x1b[31mwhat is [bold]here", cwd=cats)
    shown = minideep("show", thread_of(run), "--subagents", cwd=cats).stdout
    for text in (run.stdout, shown, minideep("threads", cwd=cats).stdout):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "\\x1b[31mwhat is [bold]here" in shown


def test_ctrl_c_exits_130_and_the_thread_can_be_resumed(cats):
    listening = socket.create_server(("127.0.0.1", 0))
    env = {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"http://127.0.0.1:{listening.getsockname()[1]}"}
    started = process(["run", "go", "--model", "openai-chat:slow", "--thread", "t"], cats, env)
    with (
        listening,
        subprocess.Popen(**started, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run,
    ):
        connection, _ = listening.accept()  # The model is asked, and never answers.
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=20)
        connection.close()
    assert (run.returncode, b"Traceback" in err) == (130, False)
    assert b"resume with `minideep resume t`" in out + err
    assert re.search(r"t\s+cancelled", minideep("threads", cwd=cats).stdout)


def test_ctrl_c_in_the_middle_of_a_tool_call_saves_the_thread_at_once(tmp_path):
    code = f"""
import asyncio, time
from minideep import Agent, DiskCheckpointer, ToolCall, tool
from minideep.models import ScriptedModel
from minideep.runtime.turns import Turns

@tool
def slow() -> str:
    print("started", flush=True)
    time.sleep(60)

agent = Agent(ScriptedModel([ToolCall("slow", {{}}, "s")]), [slow], checkpointer=DiskCheckpointer({str(tmp_path)!r}))
agent._turns = Turns(grace=0.1)
try:
    asyncio.run(agent.run("go", "t"))
except KeyboardInterrupt:
    state = agent.get_state("t")
    print(state.status, list(state.open))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[0] == "cancelled ['s']\n"
    assert process.returncode == 0


@pytest.mark.parametrize("moment", [0.15, 0.25, 0.3, 0.35, 0.45])
def test_killed_at_any_moment_the_thread_is_finished_by_resume(cats, moment):
    started = process(["run", "Say what is here, to OUT.md", "--thread", "t"], cats, {})
    run = subprocess.Popen(**started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(moment)
    run.kill()
    run.wait()
    run = minideep("resume", "t", cwd=cats)
    if run.returncode == 2:  # Killed before the goal was accepted.
        assert "no thread 't'" in run.stderr
        run = minideep("run", "Say what is here, to OUT.md", "--thread", "t", cwd=cats)
    assert run.returncode == 0, run.stderr
    assert "This folder says what cats eat" in (cats / "OUT.md").read_text()
    assert not (cats / "OUT-2.md").exists()


def test_a_closed_pipe_prints_no_traceback(cats):
    shell = f"{sys.executable} -m minideep run 'Say what is here' | head -1"
    started = process([], cats, {}) | {"args": ["bash", "-c", shell]}
    run = subprocess.run(**started, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in run.stderr


def test_the_module_prints_its_help():
    run = minideep("--help", cwd=Path())
    assert run.returncode == 0
    assert all(command in run.stdout for command in ("run", "resume", "threads", "show"))


def test_a_goal_is_planned_done_and_judged_and_a_person_may_change_the_plan(cats):
    run = minideep("plan", "What do cats like?", "--model", "offline:", cwd=cats)
    assert run.returncode == 0, run.stderr
    assert "1. research-specialist -> findings.md: What do cats like?" in run.stdout
    assert "The bengal is a cat that likes fish and warm places." in run.stdout
    assert not (cats / "findings.md").exists()

    waits = minideep("plan", "What do cats like?", "--model", "offline:", "--approve", "--thread", "p", cwd=cats)
    assert waits.returncode == 3
    plan = json.loads(re.search(r"^\{.*^\}$", waits.stdout, re.MULTILINE | re.DOTALL)[0])
    assert [subtask["expected_artifact"] for subtask in plan["subtasks"]] == ["findings.md"]
    (cats / "plan.json").write_text(json.dumps(plan).replace("findings.md", "../.."))
    refused = minideep("resume", "p", "--plan", "plan.json", cwd=cats)
    assert refused.returncode == 3
    assert "no folders and no '..'" in refused.stdout
    (cats / "plan.json").write_text(json.dumps(plan).replace("findings.md", "likes.md"))
    done = minideep("resume", "p", "--plan", "plan.json", cwd=cats)
    assert done.returncode == 0, done.stderr
    assert "research-specialist -> likes.md" in done.stdout


def test_a_rejected_plan_is_replaced_by_a_new_one(cats):
    minideep("plan", "What do cats like?", "--model", "offline:", "--approve", "--thread", "p", cwd=cats)
    again = minideep("resume", "p", "--reject", "too short", cwd=cats)
    assert again.returncode == 3
    assert minideep("resume", "p", "--approve", cwd=cats).returncode == 0
    nothing = minideep("resume", "p", "--approve", cwd=cats)
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1)
    assert "no call of thread 'p' waits for a decision" in nothing.stderr
