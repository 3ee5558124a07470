"""`minideep eval --behaviours`: with a model over a wire, and without one as scripts."""

import os
import subprocess
import sys

import pytest
from harness.providers import Provider
from harness.wires import chat

from minideep.evals import Report

ENV = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}


def minideep(*args, cwd, env=ENV):
    command = [sys.executable, "-m", "minideep", "eval", *map(str, args)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


def test_without_a_model_the_shapes_are_played_and_nothing_is_left_behind(tmp_path):
    run = minideep("--behaviours", "read-together", "keep-line-ends", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].split() == ["result", "steps", "calls", "tokens", "task", "and", "shape"]
    assert lines[1].split()[0] == "pass"
    assert "2 tasks: 2 of 2 right shapes pass, 3 of 3 wrong ones are caught" in lines
    assert "no model was asked: these are scripts" in run.stderr
    assert [*tmp_path.iterdir()] == []


def test_with_a_model_the_tasks_run_and_the_report_is_written(tmp_path):
    said = [chat.answer(chat.said(text)) for text in ("Done.", "The server has not found it.")]
    with Provider(*said) as provider:
        env = ENV | {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": provider.url}
        tasks = ["--behaviours", "answer-a-plain-question", "keep-line-ends"]
        run = minideep(*tasks, "--model", "openai-chat:gpt-5", "--json", "out.json", cwd=tmp_path, env=env)
    assert run.returncode == 1, run.stderr
    assert "tasks: 2, with openai-chat:gpt-5; --budget limits what they may cost" in run.stderr
    report = Report.from_json((tmp_path / "out.json").read_bytes())
    # In the order of the set, not of the command.
    assert [(case.golden.name, case.passed) for case in report.cases] == [
        ("keep-line-ends", False), ("answer-a-plain-question", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ([], "eval needs a golden set: its file, `--behaviours`"),
        (["golden.yaml", "--behaviours"], "eval needs a golden set: its file, `--behaviours`"),
        (["--behaviours", "nope"], "--behaviours: there is no task 'nope'; the tasks are fix-a-test, "),
        (["--behaviours", "--model", "acme:x"], "unknown model 'acme:x'"),
        (["--behaviours", "--agent", "a:b"], "--agent applies to a golden set only"),
        (["--behaviours", "--json", "out.json"], "--json needs a model, and there is none; give --model or a key"),
        (["--behaviours", "--model", "offline:", "--budget", "2"], "--budget needs a model, and there is none"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_2(tmp_path, args, problem):
    run = minideep(*args, cwd=tmp_path)
    assert (run.returncode, run.stdout, "Traceback" in run.stderr) == (2, "", False)
    assert problem in run.stderr.splitlines()[-1]
