"""The tool `execute`: what a model reads of a command, who has it, and when it runs."""

import asyncio
import secrets

import pytest
from harness.agents import ok, results
from harness.sandboxes import running

from minideep import Agent, Approve, MemoryCheckpointer, Reject, Subagent, ToolCall, create_deep_agent
from minideep.access import Access
from minideep.backends import CompositeBackend, Executed, FilesystemBackend, LocalShellBackend, StateBackend
from minideep.errors import ConfigError
from minideep.middleware import FilesystemMiddleware, ShellMiddleware
from minideep.middleware.shell import readable, result_of
from minideep.models import ScriptedModel
from minideep.permissions import Allow, Deny


def execute(command, **more):
    return ToolCall("execute", {"command": command, **more})


@pytest.fixture
def shell(tmp_path):
    return LocalShellBackend(tmp_path)


def ran(shell, *calls):
    """Return the result messages of calls that one agent makes."""
    turn = Agent(ScriptedModel([*calls, "done"]), middleware=[ShellMiddleware(shell)]).run_sync("go")
    assert turn.status == "ended"
    return results(turn)


# ---- what a model reads


@pytest.mark.parametrize(
    ("executed", "text", "is_error"),
    [
        (Executed("hello\n", 0), "hello\n[exit code 0]", False),
        (Executed("", 0), "[exit code 0, no output]", False),
        (Executed("oh\n\n", 1), "oh\n[exit code 1]", True),
        (Executed("", 137), "[exit code 137, ended by signal 9, no output]", True),
        (Executed("half", 0, timed_out=True), "half\n[its time was over, so it was stopped", True),
        (Executed("", 143, timed_out=True), "[its time was over", True),
    ],
)
def test_a_result_ends_with_what_became_of_the_command(executed, text, is_error):
    found = result_of(executed)
    assert found.content.startswith(text)
    assert found.is_error is is_error


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        (" 1%\r50%\r100%\nnext", "100%\nnext"),
        ("50%\r", "50%"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07text \x1b[2K\x1b[1Gover \x1b(B", "red text over \ufffd(B"),
        ("\x1b]0;no end\nseen", "\nseen"),
        ("nul \0, bell \a, del \x7f, tab \t.", "nul \ufffd, bell \ufffd, del \ufffd, tab \t."),
        ("\x1b", "\ufffd"),
    ],
)
def test_colours_and_overwritten_text_are_left_out(raw, shown):
    assert readable(raw) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\r" + "x" * 200_000, "x" * 200_000),
        ("\x1b]" * 100_000, ""),
        ("\x1b[" + "0" * 200_000, "\ufffd[" + "0" * 200_000),
        ("\r" * 200_000, ""),
    ],
)
def test_long_output_is_read_as_short_output_is(raw, shown):
    assert readable(raw) == shown


def test_a_command_that_fails_is_an_error_result(shell):
    good, bad = ran(shell, [execute("echo fine"), execute("echo oh >&2; exit 2")])
    assert (good.text, good.is_error) == ("fine\n[exit code 0]", False)
    assert (bad.text, bad.is_error) == ("oh\n[exit code 2]", True)


@pytest.mark.parametrize("timeout", [0, -1, 3601, 10**30, "soon"])
def test_a_time_that_no_command_may_take_is_refused(shell, timeout):
    [refused] = ran(shell, execute("echo ran >ran", timeout=timeout))
    assert refused.is_error
    assert "timeout" in refused.text
    assert [info.path for info in shell.ls(None, "/")] == []


def test_a_command_whose_time_is_over_says_so(shell):
    [late] = ran(shell, execute("echo begun; sleep 30", timeout=0.3))
    assert late.is_error
    assert late.text.startswith("begun\n[its time was over")


def test_a_huge_command_is_an_error_result(shell):
    [refused] = ran(shell, execute(f"echo {'x' * 200_000}"))
    assert refused.is_error
    assert "write a script with write_file" in refused.text


def test_output_larger_than_a_result_may_be_goes_into_a_file(tmp_path):
    shell = LocalShellBackend(tmp_path, max_output=3_000_000)
    calls = [execute("head -c 2000000 /dev/zero | tr '\\0' 'x\n'")]
    turn = create_deep_agent(ScriptedModel([*calls, "done"]), backend=shell).run_sync("go")
    assert "large_tool_results" in results(turn)[0].text


# ---- who has it


def test_an_agent_has_it_if_its_backend_runs_commands_and_subagents_too(shell, tmp_path):
    child = Subagent(name="child", description="a child")

    def tools(backend):
        agent = create_deep_agent(ScriptedModel(ok), subagents=[child], backend=backend)
        below = [part for part in agent._middleware if type(part).__name__ == "SubAgentMiddleware"]
        agents = [agent, *(other for part in below for _, other in part._agents.values())]
        return ["execute" in one.spec.tools for one in agents]

    assert tools(shell) == [True, True, True]
    assert tools(FilesystemBackend(tmp_path)) == [False, False, False]


def test_a_composite_runs_commands_where_its_first_backend_does(shell):
    parts = CompositeBackend(shell, {"/memories/": StateBackend()})
    model = ScriptedModel([execute("touch here; ls"), "done"])
    [found] = results(create_deep_agent(model, backend=parts).run_sync("go"))
    assert found.text == "here\n[exit code 0]"
    agent = create_deep_agent(ScriptedModel(ok), backend=CompositeBackend(StateBackend(), {"/desk/": shell}))
    assert "execute" not in agent.spec.tools


def test_permissions_decide_about_each_command_of_a_line(shell):
    rules = [Deny("execute", "rm *"), Allow("execute", "touch *"), Deny("execute")]
    model = ScriptedModel([[execute("touch kept"), execute("touch other; rm kept"), execute("ls")], "done"])
    turn = create_deep_agent(model, backend=shell, permissions=rules).run_sync("go")
    assert [found.is_error for found in results(turn)] == [False, True, True]
    assert [info.path for info in shell.ls(None, "/")] == ["/kept"]


def test_the_tools_stay_the_same_from_request_to_request(shell):
    model = ScriptedModel([execute("true"), execute("false"), "done"])
    create_deep_agent(model, backend=shell).run_sync("go")
    names = [[tool.name for tool in request.tools] for request in model.requests]
    assert names[0] == names[1] == names[2]
    assert "execute" in names[0]


def test_one_of_your_own_takes_its_place_in_the_general_purpose_agent_too(shell, tmp_path):
    (tmp_path / "other").mkdir()
    other = ShellMiddleware(LocalShellBackend(tmp_path / "other"))
    task = ToolCall("task", {"subagent_type": "general-purpose", "description": "run it"})
    model = ScriptedModel([execute("touch one"), task, execute("touch two"), "tried", "done"])
    assert create_deep_agent(model, backend=shell, middleware=[other]).run_sync("go").status == "ended"
    assert [info.path for info in shell.walk(None, "/")] == ["/other/one", "/other/two"]


def test_it_stands_without_file_tools(shell):
    agent = Agent(ScriptedModel(ok), middleware=[ShellMiddleware(shell)])
    assert list(agent.spec.tools) == ["execute"]


@pytest.mark.parametrize("wrong", [None, "folder", 5])
def test_a_backend_that_runs_no_commands_is_refused(wrong):
    with pytest.raises(ConfigError, match="backend"):
        ShellMiddleware(wrong)


def test_a_folder_without_a_shell_is_refused_with_the_class_that_has_one(tmp_path):
    with pytest.raises(ConfigError, match="LocalShellBackend"):
        ShellMiddleware(FilesystemBackend(tmp_path))


# ---- guards, replays and cancels


def test_a_guard_learns_the_command(shell):
    [tool] = ShellMiddleware(shell).tools
    assert list(tool.access({"command": "rm x", "timeout": None})) == [Access("execute", "rm x")]
    assert not tool.thread_only


def test_a_command_waits_for_a_person(shell):
    store = MemoryCheckpointer()
    model = ScriptedModel([[execute("touch yes"), execute("touch no")], "done"])
    agent = create_deep_agent(model, backend=shell, interrupt_on={"execute": True}, checkpointer=store)
    turn = agent.run_sync("go", "t")
    assert [wait.call.args["command"] for wait in turn.interrupts] == ["touch yes", "touch no"]
    assert shell.ls(None, "/") == []
    yes, no = [wait.key for wait in turn.interrupts]
    agent.resume_sync("t", {yes: Approve(), no: Reject("no")})
    assert [info.path for info in shell.ls(None, "/")] == ["/yes"]


def test_a_replay_does_not_run_a_command_again(shell):
    store = MemoryCheckpointer()
    agent = create_deep_agent(
        ScriptedModel([execute("echo x >>ran; cat ran"), "done"]), backend=shell, checkpointer=store
    )
    agent.run_sync("go", "t")
    again = create_deep_agent(
        ScriptedModel([execute("echo x >>ran; cat ran"), execute("touch other"), "done"]),
        backend=shell,
        checkpointer=store,
    )
    replay = asyncio.run(again.replay("t"))
    first, other = replay.turns[0].replayed.calls
    assert (first.result, first.is_error) == ("x\n[exit code 0]", False)
    assert other.is_error
    assert [info.path for info in shell.ls(None, "/")] == ["/ran"]
    assert shell.read(None, "/ran") == b"x\n"


async def test_a_turn_that_is_cancelled_stops_its_commands(shell, tmp_path):
    mark = f"1000.{secrets.randbelow(10**9):09}"
    calls = [execute(f"touch one; sleep {mark}"), execute(f"touch two; setsid sleep {mark} & sleep {mark}")]
    agent = create_deep_agent(ScriptedModel([calls]), backend=shell, checkpointer=MemoryCheckpointer())
    turn = asyncio.ensure_future(agent.run("go", "t"))
    while not ((tmp_path / "one").exists() and (tmp_path / "two").exists()):
        await asyncio.sleep(0.01)
    turn.cancel()
    await asyncio.wait([turn])
    assert running(mark) == []


def test_the_description_is_short_and_names_what_the_file_tools_are_for(shell):
    [tool] = ShellMiddleware(shell).tools
    assert len(tool.description) / 4 <= 200
    assert "file tools" in tool.description
    assert FilesystemMiddleware(shell).prompt.count("write relative paths in commands") == 1
