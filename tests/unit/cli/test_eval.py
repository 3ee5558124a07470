"""`minideep eval`: the table, JUnit XML, the exit status, and bad usage."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from xml.etree import ElementTree as Xml

import pytest

from minideep.evals import Report

ENV = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}


def minideep(*args, cwd, env=ENV):
    command = [sys.executable, "-m", "minideep", "eval", *map(str, args)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


def test_the_command_prints_the_table_writes_reports_and_exits_1_if_a_case_fails(tmp_path):
    file = tmp_path / "golden.jsonl"
    file.write_text('{"goal": "Say what is here"}\n{"goal": "Say xyzzy", "expected_final_answer": "xyzzy, quoth he"}\n')
    outputs = ["--junit", "out.xml", "--json", "out.json"]
    run = minideep(file, "--model", "offline:", *outputs, "--concurrency", 2, "--repeat", 2, cwd=tmp_path)
    assert run.returncode == 1, run.stderr
    assert run.stdout.splitlines()[0].split() == [
        "#", "result", "status", "seconds", "steps", "calls", "tokens", "cost", "golden",
    ]  # fmt: skip
    assert "answers_as_expected: expected 'xyzzy, quoth he' in the answer" in run.stdout
    suite = Xml.parse(tmp_path / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    report = Report.from_json((tmp_path / "out.json").read_bytes())
    assert [(case.golden.goal, case.run, case.passed) for case in report.cases] == [
        ("Say what is here", 1, True), ("Say what is here", 2, True), ("Say xyzzy", 1, False), ("Say xyzzy", 2, False),
    ]  # fmt: skip
    assert "the threads were not kept; with --state DIR they can be read afterwards" in run.stderr


def test_the_threads_of_an_evaluation_do_not_stay_in_the_persons_store(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "golden.yaml").write_text("- goal: Say what is here\n")
    env = ENV | {"XDG_STATE_HOME": str(state)}
    run = minideep("golden.yaml", "--model", "offline:", cwd=tmp_path, env=env)
    assert (run.returncode, run.stdout.splitlines()[-1][:13]) == (0, "1 of 1 passed"), run.stdout + run.stderr
    assert [*state.rglob("*")] == []


def test_with_a_folder_for_them_the_threads_of_failing_cases_can_be_read(tmp_path):
    (tmp_path / "golden.yaml").write_text("- {goal: Say what is here, expected_final_answer: xyzzy}\n")
    run = minideep("golden.yaml", "--model", "offline:", "--state", "kept", cwd=tmp_path)
    assert (run.returncode, "read a thread with `minideep show THREAD --state kept`" in run.stderr) == (1, True)
    thread = re.search("thread (eval-[0-9a-f]+)", run.stdout)[1]
    show = [sys.executable, "-m", "minideep", "show", thread, "--state", "kept"]
    shown = subprocess.run(show, cwd=tmp_path, env=ENV, capture_output=True, text=True)
    assert "Say what is here" in shown.stdout


OWN = """
from minideep import Agent, Reply, Usage
from minideep.messages import AssistantMessage
from minideep.models import ScriptedModel

def said(golden):
    return golden.metadata.get("says", "yes")

def one():
    return Agent(ScriptedModel(lambda request: Reply(AssistantMessage("yes"), Usage(9, 1), cost=0.4)), name="one")

def fresh(golden):
    return Agent(ScriptedModel([said(golden)]), name="fresh")

def two(golden, more):
    pass

def leaves():
    raise SystemExit(0)
"""


def test_an_agent_of_ones_own_is_evaluated_within_a_budget(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "golden.jsonl").write_text("".join(f'{{"goal": "{goal}"}}\n' for goal in "abc"))
    run = minideep("golden.jsonl", "--agent", "own:one", "--budget", "0.5", "--json", "out.json", cwd=tmp_path)
    assert run.returncode == 1, run.stdout
    assert "     not run: budget: $0.5 are spent" in run.stdout.splitlines()
    assert run.stdout.splitlines()[-1].startswith("2 of 2 passed, 1 not run")
    report = Report.from_json((tmp_path / "out.json").read_bytes())
    assert (report.about["agents"], report.about["budget"]) == (["one"], 0.5)


def test_a_report_is_compared_with_an_earlier_one_and_only_what_is_worse_fails(tmp_path):
    (tmp_path / "own.py").write_text(OWN)

    def run(says, *more):
        golden = [{"goal": goal, "expected_final_answer": "yes", "metadata": {"says": said}} for goal, said in says]
        (tmp_path / "golden.jsonl").write_text("\n".join(map(json.dumps, golden)))
        return minideep("golden.jsonl", "--agent", "own:fresh", *more, cwd=tmp_path)

    assert run([("a", "yes"), ("b", "no")], "--json", "old.json").returncode == 1
    same = run([("a", "yes"), ("b", "no")], "--baseline", "old.json")
    assert (same.returncode, "2 same" in same.stdout.splitlines()) == (0, True), same.stdout + same.stderr
    worse = run([("a", "no"), ("b", "yes")], "--baseline", "old.json", "--json", "old.json")
    assert (worse.returncode, "1 worse, 1 better" in worse.stdout.splitlines()) == (1, True), worse.stdout
    again = run([("a", "no"), ("b", "yes")], "--baseline", "old.json")
    assert again.returncode == 0


def test_the_command_runs_cases_at_the_same_time_and_stops_at_ctrl_c(tmp_path):
    (tmp_path / "golden.jsonl").write_text('{"goal": "x"}\n{"goal": "y"}\n')
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(20)
    env = ENV | {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"http://127.0.0.1:{listening.getsockname()[1]}"}
    options = ["golden.jsonl", "--model", "openai-chat:slow", "--concurrency", "2"]
    command = [sys.executable, "-m", "minideep", "eval", *options]
    with listening, subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE) as process:
        try:
            both = [listening.accept()[0] for _ in range(2)]  # Both are asked, and neither is answered.
            process.send_signal(signal.SIGINT)
            err = process.communicate(timeout=20)[1]
        finally:
            process.kill()
        for connection in both:
            connection.close()
    assert (process.returncode, err.splitlines()[-1]) == (130, b"minideep: cancelled")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["missing.jsonl"], "the golden set at path 'missing.jsonl' cannot be read"),
        (["bad.jsonl"], "'bad.jsonl', line 1: "),
        (["good.jsonl", "--model", "acme:x"], "unknown model 'acme:x'"),
        (["good.jsonl", "--root", "missing"], "--root 'missing' is not a folder"),
        (
            ["good.jsonl", "--junit", "missing/out.xml"],
            "--junit 'missing/out.xml' is in no folder that exists; create it",
        ),
        (["good.jsonl", "--json", "."], "--json '.' is a folder; name a file"),
        (["good.jsonl", "--baseline", "missing.json"], "--baseline 'missing.json' cannot be read: [Errno 2]"),
        (["good.jsonl", "--baseline", "good.jsonl"], "--baseline 'good.jsonl' cannot be read: this is not a report"),
        (["good.jsonl", "--agent", "own:two"], "it must be an Agent, or a function without arguments"),
        (["good.jsonl", "--agent", "own:leaves"], "--agent own:leaves: it called sys.exit(0) while it was loaded"),
        (
            ["good.jsonl", "--agent", "script:agent"],
            "--agent script:agent: it called sys.exit(None) while it was loaded",
        ),
        (["good.jsonl", "--agent", "own:none"], "module 'own' has no 'none'"),
        (
            ["good.jsonl", "--agent", "own:one", "--model", "offline:"],
            "--model applies to this command's own agents only",
        ),
        (["good.jsonl", "--budget", "0"], "must be a number above 0, not '0'"),
        (["good.jsonl", "--timeout", "nan"], "must be a number above 0, not 'nan'"),
        (["good.jsonl", "--repeat", "0"], "must be a whole number from 1"),
        (["good.jsonl", "--concurrency", "0"], "must be a whole number from 1"),
        ([], "eval needs a golden set: its file, `--behaviours`, or `--from THREAD`"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_2(tmp_path, args, problem):
    (tmp_path / "good.jsonl").write_text('{"goal": "x"}\n')
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "script.py").write_text("import sys\n\nsys.exit()\n")
    (tmp_path / "bad.jsonl").write_text('{"gaol": "x"}\n')
    run = minideep(*args, cwd=tmp_path)
    assert (run.returncode, run.stdout, "Traceback" in run.stderr) == (2, "", False)
    assert problem in run.stderr.splitlines()[-1]
