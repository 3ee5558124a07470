"""`minideep replay`, `export --events` and `eval --from`: a thread is run again, is kept as a file, becomes goldens."""

import json

import pytest
from harness.terminal import minideep

from minideep import create_deep_agent
from minideep.backends import FilesystemBackend
from minideep.evals import load
from minideep.testing import recorded


@pytest.fixture
def cats(tmp_path):
    (tmp_path / "cats.txt").write_text("Cats sleep.\n")
    run = minideep("run", "Read this", "--model", "offline:", "--thread", "t", "--state", "st", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    return tmp_path


def run(cats, *args):
    return minideep(*args, "--state", "st", cwd=cats)


def test_a_thread_is_run_again_and_both_runs_are_shown(cats):
    before = {path: path.read_bytes() for path in cats.rglob("*") if path.is_file() and "st" not in path.parts}
    again = run(cats, "replay", "t")
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "no differences"), again.stderr
    lines = again.stdout.splitlines()
    assert lines[0].split() == ["turn", "status", "calls", "steps", "tokens", "cost", "seconds", "answer"]
    assert lines[1].split()[:3] == ["1", "recorded", "ended"]
    assert lines[2].split()[:2] == ["replayed", "ended"]
    assert before == {path: path.read_bytes() for path in cats.rglob("*") if path.is_file() and "st" not in path.parts}


def test_it_is_printed_as_json_up_to_a_boundary(cats):
    assert run(cats, "run", "Read it again", "--thread", "t").returncode == 0
    found = json.loads(run(cats, "replay", "t", "--at", "1", "--json").stdout)
    assert [turn["said"] for turn in found["turns"]] == ["Read this"]
    assert len(json.loads(run(cats, "replay", "t", "--json").stdout)["turns"]) == 2
    refused = run(cats, "replay", "t", "--at", "9")
    assert (refused.returncode, "no boundary 9" in refused.stderr) == (2, True)


def test_another_model_is_asked_and_one_without_its_key_fails(cats):
    other = run(cats, "replay", "t", "--model", "anthropic:claude-sonnet-4-6")
    assert other.returncode == 1
    assert "turn 1: status: ended -> failed" in other.stdout


def test_an_agent_of_ones_own_may_run_it_with_another_model(cats):
    (cats / "own.py").write_text(
        "from minideep import Agent\nfrom minideep.models import ScriptedModel\n\n"
        "def agent():\n    return Agent(ScriptedModel(['mine']))\n"
    )
    own = run(cats, "replay", "t", "--agent", "own:agent")
    assert "-> 'mine'" in own.stdout
    own = run(cats, "replay", "t", "--agent", "own:agent", "--model", "offline:")
    assert (own.returncode, "mine" in own.stdout) == (0, False)


def test_an_unknown_thread_and_a_wrong_option_are_usage(cats):
    assert run(cats, "replay", "none").returncode == 2
    assert run(cats, "replay", "t", "--others", "perhaps").returncode == 2
    assert run(cats, "eval", "--from", "none").returncode == 2
    assert run(cats, "eval").returncode == 2


async def test_its_events_are_a_recording_that_runs_without_the_store(cats):
    (cats / "t.jsonl").write_text(run(cats, "export", "t", "--events").stdout)
    agent = create_deep_agent("openai:gpt-5", backend=FilesystemBackend(cats))
    replay = await recorded(cats / "t.jsonl").run(agent)
    assert replay.differences == []
    assert "REPORT.md" in replay.turn.text


def test_a_thread_becomes_goldens_that_pass(cats):
    assert run(cats, "run", "Read it again", "--thread", "t").returncode == 0
    printed = run(cats, "eval", "--from", "t")
    assert printed.returncode == 0, printed.stderr
    (cats / "golden.jsonl").write_text(printed.stdout)
    first, second = load(cats / "golden.jsonl")
    assert (first.id, first.goal, first.earlier, first.expected_status) == ("t-1", "Read this", (), "ended")
    assert (second.id, second.earlier) == ("t-2", ("Read this",))
    assert "expected_status" not in printed.stdout  # What is at its default is left out.
    assert {call.name for call in first.expected_calls} >= {"glob", "read_file", "write_file"}
    (cats / "REPORT.md").unlink()
    (cats / "own.py").write_text(
        "from minideep import create_deep_agent\nfrom minideep.backends import FilesystemBackend\n\n"
        "def agent(golden):\n    return create_deep_agent('offline:', backend=FilesystemBackend('.'))\n"
    )
    kept = {name: getattr(first, name) for name in first.__struct_fields__}
    line = json.dumps(kept | {"expected_calls": [], "expected_final_answer": "REPORT.md is written"})
    (cats / "golden.jsonl").write_text(line)
    assert minideep("eval", "golden.jsonl", "--agent", "own:agent", cwd=cats).returncode == 0
