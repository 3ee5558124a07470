"""`--permissions` of the terminal, and the decisions that it offers about calls that take only some."""

import pytest
from harness.terminal import at_a_terminal, call, minideep, scripted

MODEL = ("--model", "openai-chat:script")
LIBRARY = '''
from minideep import Approval, ToolCall, ToolContext, create_deep_agent, tool
from minideep.models import ScriptedModel


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def book(ctx: ToolContext) -> str:
    """Book a flight."""
    return f"booked for {ctx.interrupt('Which day?')}"


def say(request):
    last = request.messages[-1]
    return ToolCall(last.text, {"amount": 5} if last.text == "pay" else {}, "c1") if last.role == "user" else last.text


approval = Approval(describe=lambda ctx, call: f"Pay {call.args['amount']} euros?", decisions=("approve", "reject"))
agent = create_deep_agent(ScriptedModel(say), [pay, book], interrupt_on={"pay": approval})
'''


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def writes(path):
    return [call("write_file", file_path=path, content="new\n")]


def test_an_agent_that_may_only_read_changes_nothing_and_the_thread_keeps_that(root):
    with scripted(writes("/a.md"), "Done.", writes("/b.md"), "Done.", writes("/c.md"), "Done.") as env:
        first = minideep("run", "go", "--thread", "t", "--permissions", "read-only", *MODEL, cwd=root, env=env)
        assert first.returncode == 0
        minideep("run", "again", "--thread", "t", "--yes", cwd=root, env=env)
        assert list(root.iterdir()) == []
        assert "Deny('write') forbids it" in minideep("show", "t", cwd=root).stdout
        minideep("run", "again", "--thread", "t", "--permissions", "default", cwd=root, env=env)
    assert [file.name for file in root.iterdir()] == ["c.md"]


def test_an_agent_that_asks_before_every_change_waits_for_a_new_file_too(root):
    with scripted(writes("/a.md"), "Done.", writes("/b.md"), "Done.") as env:
        waits = minideep("run", "go", "--thread", "t", "--permissions", "ask", *MODEL, cwd=root, env=env)
        assert waits.returncode == 3
        assert "Ask('write') has a person decide" in waits.stdout
        assert list(root.iterdir()) == []
        assert minideep("resume", "t", "--approve", cwd=root, env=env).returncode == 0
        code, shown = at_a_terminal("run", "more", "--thread", "t", cwd=root, env=env, typed="n\n")
    assert code == 0, shown
    assert [file.name for file in root.iterdir()] == ["a.md"]


def test_permissions_are_for_threads_of_run(root):
    for command in (["plan", "go"], ["run", "go", "--agent", "library:agent"]):
        refused = minideep(*command, "--permissions", "ask", cwd=root)
        assert refused.returncode == 2
    minideep("plan", "What is here?", "--model", "offline:", "--approve", "--thread", "p", cwd=root)
    refused = minideep("resume", "p", "--approve", "--permissions", "ask", cwd=root)
    assert (refused.returncode, "--permissions applies to threads of `minideep run`" in refused.stderr) == (2, True)


def test_only_the_decisions_that_an_approval_allows_are_offered_and_the_person_reads_what_it_says(root):
    (root / "library.py").write_text(LIBRARY)
    agent = ("--agent", "library:agent")
    waits = minideep("run", "pay", "--thread", "t", *agent, cwd=root)
    assert (waits.returncode, "Pay 5 euros?" in waits.stdout) == (3, True), waits.stderr
    assert "decide with `minideep resume t --agent library:agent --approve` or `--reject REASON`\n" in waits.stdout
    refused = minideep("resume", "t", "--respond", "paid", *agent, cwd=root)
    assert (refused.returncode, "give Approve or Reject" in refused.stderr) == (2, True)
    assert "paid 5" in minideep("resume", "t", "--approve", *agent, cwd=root).stdout


def test_a_question_of_a_tool_is_answered_with_an_option(root):
    (root / "library.py").write_text(LIBRARY)
    agent = ("--agent", "library:agent")
    waits = minideep("run", "book", "--thread", "t", *agent, cwd=root)
    assert (waits.returncode, "Which day?" in waits.stdout) == (3, True), waits.stderr
    assert "decide with `minideep resume t --agent library:agent --reject REASON` or `--respond TEXT`" in waits.stdout
    assert "booked for Monday" in minideep("resume", "t", "--respond", "Monday", *agent, cwd=root).stdout
