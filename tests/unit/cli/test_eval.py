"""`minideep eval`: the table, JUnit XML, the exit status, and bad usage."""

import os
import signal
import socket
import subprocess
import sys
from xml.etree import ElementTree as Xml

import pytest

ENV = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}


def minideep(*args, cwd):
    command = [sys.executable, "-m", "minideep", "eval", *map(str, args)]
    return subprocess.run(command, cwd=cwd, env=ENV, capture_output=True, text=True, timeout=60)


def test_the_command_prints_the_table_writes_junit_and_exits_1_if_a_case_fails(tmp_path):
    file = tmp_path / "golden.jsonl"
    file.write_text('{"goal": "Say what is here"}\n{"goal": "Say xyzzy", "expected_final_answer": "xyzzy, quoth he"}\n')
    run = minideep(file, "--model", "offline:", "--junit", "out.xml", "--concurrency", 2, cwd=tmp_path)
    assert run.returncode == 1, run.stderr
    assert run.stdout.splitlines()[0].split() == [
        "#", "result", "status", "seconds", "steps", "tokens", "state", "bytes", "goal",
    ]  # fmt: skip
    assert "answers_as_expected: expected 'xyzzy, quoth he' in the answer" in run.stdout
    suite = Xml.parse(tmp_path / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_the_command_exits_0_if_all_cases_pass_and_keeps_the_threads(tmp_path):
    file = tmp_path / "golden.jsonl"
    file.write_text('{"goal": "Say what is here"}\n')
    run = minideep(file, "--model", "offline:", cwd=tmp_path)
    assert (run.returncode, run.stdout.splitlines()[-1][:13]) == (0, "1 of 1 passed"), run.stdout + run.stderr
    threads = [sys.executable, "-m", "minideep", "threads"]
    assert "eval-" in subprocess.run(threads, cwd=tmp_path, env=ENV, capture_output=True, text=True).stdout


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
        (["good.jsonl", "--junit", "missing/out.xml"], "the folder of --junit 'missing/out.xml' does not exist"),
        (["good.jsonl", "--concurrency", "0"], "must be a whole number from 1"),
        ([], "required: file"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_2(tmp_path, args, problem):
    (tmp_path / "good.jsonl").write_text('{"goal": "x"}\n')
    (tmp_path / "bad.jsonl").write_text('{"gaol": "x"}\n')
    run = minideep(*args, cwd=tmp_path)
    assert (run.returncode, run.stdout, "Traceback" in run.stderr) == (2, "", False)
    assert problem in run.stderr.splitlines()[-1]
