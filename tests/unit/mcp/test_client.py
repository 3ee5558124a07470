"""Clients of real servers: processes that speak over their pipes, or over HTTP on loopback."""

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import mcp_server, odd_mcp_server
from harness.agents import answers, results
from harness.processes import python
from harness.sse_mcp_server import streaming

from minideep import (
    Agent,
    Approve,
    Audio,
    ConfigError,
    Document,
    Image,
    MemoryCheckpointer,
    Subagent,
    Text,
    ToolCall,
    create_deep_agent,
    tool,
)
from minideep.mcp import MCPClient
from minideep.models import ScriptedModel
from minideep.permissions import Ask, Deny

SERVER = [sys.executable, mcp_server.__file__]
NAME_OF_AN_ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
ODD = [sys.executable, odd_mcp_server.__file__]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    log = tmp_path_factory.mktemp("mcp") / "log"
    with MCPClient(SERVER, env={"LOG": str(log)}) as client:
        client.log = log
        yield client


@contextmanager
def over_http(port, log):
    """Run the server on *port* of loopback, until the block ends."""
    process = subprocess.Popen([*SERVER, str(port)], env={**os.environ, "LOG": str(log)}, stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        until(lambda: _answers(port))
        yield process
    finally:
        process.kill()
        process.wait()


def _answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(holds):
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never happened")


def ask(client, *calls, **more):
    """Return the results of *calls* by an agent with the tools of *client*."""
    return results(Agent(ScriptedModel([*calls, "done"]), client.tools, **more).run_sync("Go."))


def named(client, name):
    return next(tool for tool in client.tools if tool.name == name)


def logged(client):
    return client.log.read_text().split("\n")


# ---- what an agent sees


def test_a_tool_is_what_the_server_says_of_it(library):
    search = named(library, "search")
    assert search.description == "Search the catalog."
    assert search.signature == "query (string), limit (integer, optional)"
    assert search.read_only
    assert not named(library, "die").read_only
    assert library.instructions == "Ask for a title first."


def test_a_call_reaches_the_server_with_its_arguments_as_the_schema_wants_them(library):
    (result,) = ask(library, ToolCall("search", {"query": "Austen", "limit": "3"}))
    assert (result.text, result.is_error) == ("Austen: Emma", False)
    assert "search Austen 3" in logged(library)


def test_an_optional_argument_that_is_null_is_left_out(library):
    assert not ask(library, ToolCall("search", {"query": "x", "limit": None}))[0].is_error


def test_arguments_that_do_not_fit_are_refused_by_the_server_and_those_that_are_no_json_before(library):
    missing, broken = ask(library, [ToolCall("search", {}), ToolCall("search", b'"{query: Aus"')])
    assert missing.is_error
    assert "query" in missing.text
    assert broken.is_error
    assert "are not a JSON object" in broken.text


def test_an_error_of_the_tool_is_an_error_result_with_its_words(library):
    (result,) = ask(library, ToolCall("refuse"))
    assert result.is_error
    assert "the library is closed" in result.text


def test_every_kind_of_content_becomes_a_block_or_is_said_in_words(library):
    (result,) = ask(library, ToolCall("media"))
    title, image, sound, note, plan, archive, link = result.content
    assert title == Text("a title")
    assert image == Image(mcp_server.PIXEL, "image/gif")  # The type that its bytes have, not the one that was said.
    assert isinstance(sound, Audio)
    assert note == Text("[file:///notes.txt]\na note")
    assert (type(plan), plan.name) == (Document, "plan.pdf")
    assert archive == Text("[file:///b.zip: 2 bytes of application/zip, not shown]")
    assert link == Text("[cover: https://example.com/cover (image/png)]")


def test_structured_content_is_not_shown_twice(library):
    (result,) = ask(library, ToolCall("shelf_list"))
    assert result.text.replace(" ", "").replace("\n", "") == '{"Emma":2}'


def test_a_server_sees_the_variables_that_it_is_given_and_no_others(library):
    (result,) = ask(library, ToolCall("environment"))
    seen = {name for name in os.environ if f'"{name}"' in result.text or f"{name}\n" in f"{result.text}\n"}
    assert seen <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}
    assert "LOG" in result.text


def test_a_tool_can_be_called_as_a_function(library):
    assert asyncio.run(named(library, "search")(query="Austen")).text == "Austen: Emma"


def test_only_the_tools_that_are_named_are_offered_and_a_prefix_tells_servers_apart():
    with MCPClient([*ODD, "names"], only=["a.b", "a_b"], prefix="lib_") as client:
        assert [tool.name for tool in client.tools][1] == "lib_a_b"
        assert ask(client, ToolCall(client.tools[0].name))[0].text == '["a.b", {}]'
        assert len(client.tools) == 2


def test_a_name_in_only_that_the_server_lacks_is_refused_with_the_one_that_was_meant():
    with pytest.raises(ConfigError, match=r"no tool 'ecoh', which `only` names; did you mean 'echo'\?"):
        MCPClient([*ODD, "plain"], only=["ecoh"]).connect()


def test_two_tools_of_one_name_are_refused_with_the_remedy(library):
    @tool
    def search() -> str:
        """Search."""
        return ""

    with pytest.raises(ConfigError, match=r"two tools are named 'search'; connect to .*'library' with .*prefix="):
        Agent("offline:", [search, *library.tools])
    with pytest.raises(ConfigError, match=r"two tools are named 'search'; .*prefix="):
        Agent("offline:", [*library.tools, search])


def test_rules_and_approvals_hold_for_the_tools_of_a_server_by_their_names(library):
    model = ScriptedModel([[ToolCall("refuse"), ToolCall("search", {"query": "Austen"})], "done"])
    rules = [Deny("refuse"), *(Ask(tool.name) for tool in library.tools if tool.read_only)]
    agent = create_deep_agent(model, library.tools, permissions=rules)
    turn = agent.run_sync("Go.", "t")
    assert [waiting.call.name for waiting in turn.interrupts] == ["search"]
    turn = agent.resume_sync("t", {turn.interrupts[0].key: Approve()})
    refused, found = results(turn)
    assert "forbids it" in refused.text
    assert found.text == "Austen: Emma"


# ---- services


def test_turns_on_several_event_loops_share_one_connection(library):
    agent = Agent(lambda_model(), library.tools)
    texts = []

    def turn(number):
        texts.append(agent.run_sync(f"book {number}").text)

    threads = [threading.Thread(target=turn, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts) == [f"book {number}: Emma" for number in range(4)]
    assert logged(library).count("start") == 1


def lambda_model():
    """A model that searches for what it is told, and repeats what it finds."""

    def reply(request):
        last = request.messages[-1]
        return ToolCall("search", {"query": last.text}) if last.role == "user" else last.text

    return ScriptedModel(reply)


def test_a_deep_agent_and_its_subagents_use_the_same_connection(library):
    below = Subagent(name="finder", description="finds", tools=library.tools, model=lambda_model())
    call = ToolCall("task", {"description": "Austen", "subagent_type": "finder"})
    agent = create_deep_agent(ScriptedModel([call, "done"]), library.tools, subagents=[below])
    assert "Austen: Emma" in answers(agent.run_sync("Go."))[0]


async def test_the_block_of_a_coroutine_does_not_hold_up_its_event_loop():
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    beside = asyncio.create_task(tick())
    async with MCPClient(SERVER, only=["search"]) as client:
        assert ticks > 5
        turn = await Agent(lambda_model(), client.tools).run("Austen")
    beside.cancel()
    assert turn.text == "Austen: Emma"


async def test_a_block_that_is_cancelled_while_it_connects_leaves_nothing_behind(tmp_path):
    async def enter():
        async with MCPClient([*ODD, "silent"], cwd=tmp_path):
            raise AssertionError

    entering = asyncio.create_task(enter())
    while not processes_in(tmp_path):
        await asyncio.sleep(0.02)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert not processes_in(tmp_path)


async def test_cancelling_a_turn_cancels_the_request(library):
    agent = Agent(ScriptedModel([ToolCall("wait", {"seconds": 100})]), library.tools, checkpointer=MemoryCheckpointer())
    turn = asyncio.create_task(agent.run("Go.", "t"))
    while "wait begins" not in logged(library):
        await asyncio.sleep(0.02)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    while "wait cancelled" not in logged(library):
        await asyncio.sleep(0.02)


async def test_calls_that_are_cancelled_do_not_disturb_those_beside_them():
    async with MCPClient([*ODD, "plain"]) as client:
        calls = [asyncio.create_task(client.tools[0](n=number)) for number in range(100)]
        await asyncio.sleep(0)
        for call in calls[::3]:
            call.cancel()
        found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in found[::3])
    assert [result.text for result in found[1::3]] == [f'["echo", {{"n": {number}}}]' for number in range(1, 100, 3)]


def test_a_call_that_takes_longer_than_its_timeout_is_an_error_and_the_server_goes_on():
    with MCPClient([*ODD, "hangs"], timeout=0.2) as client:
        (late,) = ask(client, ToolCall("echo"))
        assert late.is_error
        assert "did not end within 0.2 s" in late.text


def test_the_limit_of_one_tool_can_be_its_own(library):
    slow = named(library, "wait")
    slow.timeout, before = 0.1, slow.timeout
    try:
        assert "did not end within 0.1 s" in ask(library, ToolCall("wait", {"seconds": 100}))[0].text
    finally:
        slow.timeout = before


# ---- a server that ends


def test_a_server_that_dies_in_a_call_is_an_error_and_the_next_call_starts_it_anew(tmp_path):
    with MCPClient(SERVER, env={"LOG": str(tmp_path / "log")}) as client:
        client.log = tmp_path / "log"
        died, found = ask(client, ToolCall("die"), ToolCall("search", {"query": "Austen"}))
        assert died.is_error
        assert "ended while it worked on 'die', which may have taken effect" in died.text
        assert (found.text, found.is_error) == ("Austen: Emma", False)
        assert logged(client).count("start") == 2
        assert logged(client).count("die") == 1


def test_what_a_server_says_as_it_dies_is_in_the_error_and_not_on_the_terminal(tmp_path, capfd):
    with MCPClient([*ODD, "once", str(tmp_path / "mark")]) as client:
        died, fine = ask(client, ToolCall("echo"), ToolCall("echo", {"a": 1}))
    assert "out of memory" in died.text
    assert fine.text == '["echo", {"a": 1}]'
    assert capfd.readouterr().err == ""


def test_a_tool_keeps_its_own_limit_when_its_server_is_started_anew(tmp_path):
    with MCPClient([*ODD, "once", str(tmp_path / "mark")]) as client:
        client.tools[0].timeout = 7
        ask(client, ToolCall("echo"), ToolCall("echo"))
        assert client.tools[0].timeout == 7


def test_a_server_that_always_dies_is_an_error_each_time():
    with MCPClient([*ODD, "dies"]) as client:
        assert all(result.is_error for result in ask(client, ToolCall("echo"), ToolCall("echo")))


def test_calls_beside_the_one_that_kills_the_server_get_an_error_and_none_hangs():
    with MCPClient([*ODD, "dies"]) as client:
        found = ask(client, [ToolCall("echo", {"n": number}) for number in range(5)])
    assert [result.is_error for result in found] == [True] * 5


def test_a_command_that_does_not_exist_or_ends_at_once_says_why_without_its_secrets():
    with pytest.raises(ConfigError, match="'no-such-server' cannot be reached: there is no 'no-such-server'"):
        MCPClient("no-such-server --port 1").connect()
    with pytest.raises(ConfigError, match=r"it said: no license found for key \*\*\*"):
        MCPClient([*ODD, "leaves"], env={"KEY": "sk-secret-123"}).connect()


def test_a_server_that_says_nothing_is_given_up_after_the_limit_for_connecting():
    with pytest.raises(ConfigError, match=r"did not answer within 0\.3 s; `connect_timeout` gives it longer"):
        MCPClient([*ODD, "silent"], connect_timeout=0.3).connect()


def test_a_server_that_ignores_signals_is_gone_with_its_children_when_the_block_ends(tmp_path):
    with MCPClient([*ODD, "stubborn"], cwd=tmp_path) as client:
        assert not ask(client, ToolCall("echo"))[0].is_error
        assert len(processes_in(tmp_path)) == 2
    until(lambda: not processes_in(tmp_path))


def test_a_server_that_says_much_beside_the_protocol_is_neither_held_up_nor_kept():
    with MCPClient([*ODD, "chatty"]) as client:
        assert not ask(client, ToolCall("echo"))[0].is_error
        assert 0 < len(client._session._connection.noted.text) <= 2_000


def processes_in(folder):
    """Return the processes of this machine that run in *folder*."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def test_after_the_block_a_call_says_that_the_connection_is_closed():
    with MCPClient([*ODD, "plain"]) as client:
        agent = Agent(ScriptedModel([ToolCall("echo"), "done"]), client.tools)
    (result,) = results(agent.run_sync("Go."))
    assert result.is_error
    assert "its block has ended" in result.text
    client.close()


def test_a_call_that_is_under_way_when_the_block_ends_gets_an_error():
    with MCPClient([*ODD, "hangs"]) as client:
        found = []
        agent = Agent(ScriptedModel([ToolCall("echo"), "done"]), client.tools)
        thread = threading.Thread(target=lambda: found.extend(results(agent.run_sync("Go."))))
        thread.start()
        until(lambda: client._session._connection.calls)
    thread.join()
    assert found[0].is_error


def test_a_client_that_is_not_connected_or_is_twice_says_what_to_do(library):
    with pytest.raises(ConfigError, match=r"is not connected; use its tools inside `with MCPClient"):
        _ = MCPClient("uvx some-server").tools
    with pytest.raises(ConfigError, match="is connected already"):
        library.connect()


def test_without_the_sdk_connecting_says_what_to_install():
    code = """
import sys
sys.modules["mcp"] = None
from minideep import ConfigError
from minideep.mcp import MCPClient
try:
    MCPClient("uvx some-server").connect()
except ConfigError as error:
    print(error)
"""
    assert python(code) == "MCPClient needs the package 'mcp': pip install 'minideep[mcp]'\n"


def test_a_program_that_never_closes_a_client_ends_and_so_does_its_server(tmp_path):
    code = """
import sys
from minideep.mcp import MCPClient
client = MCPClient(sys.argv[1:]).connect()
print(len(client.tools))
"""
    assert python(code, *ODD, "plain", cwd=tmp_path) == "1\n"
    assert not processes_in(tmp_path)


def test_a_forked_process_is_told_that_the_connection_is_not_its_own(tmp_path):
    code = """
import asyncio, os, sys
from minideep import ToolError
from minideep.mcp import MCPClient
with MCPClient(sys.argv[1:]) as client:
    if not (child := os.fork()):
        try:
            asyncio.run(client.tools[0]())
        except ToolError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(asyncio.run(client.tools[0]()).text)
"""
    closed, fine = python(code, *ODD, "plain", warns=True).splitlines()
    assert "another process's" in closed
    assert fine == '["echo", {}]'


# ---- odd servers


def test_lines_that_are_no_messages_do_no_harm_and_reach_no_terminal():
    code = """
import asyncio, sys
from minideep.mcp import MCPClient
with MCPClient(sys.argv[1:]) as client:
    print(asyncio.run(client.tools[0]()).text)
"""
    assert python(code, *ODD, "garbage") == '["echo", {}]\n'


@pytest.mark.parametrize("kind", ["strict", "modern"])
def test_a_server_that_knows_only_one_generation_of_the_protocol_is_reached(kind):
    with MCPClient([*ODD, kind]) as client:
        assert ask(client, ToolCall("echo", {"a": 1}))[0].text == '["echo", {"a": 1}]'


def test_a_client_can_be_connected_anew_after_it_was_closed():
    client = MCPClient([*ODD, "plain"])
    for _ in range(2):
        with client:
            assert not ask(client, ToolCall("echo"))[0].is_error


def test_a_list_in_pages_is_read_whole_and_one_without_end_is_cut():
    with MCPClient([*ODD, "many"]) as client:
        assert len({tool.name for tool in client.tools}) == 200
        assert ask(client, ToolCall("tool_199"))[0].text == '["tool_199", {}]'
    with MCPClient([*ODD, "endless"]) as client:
        assert len(client.tools) == 100


def test_a_changed_list_is_seen_by_new_agents_and_old_ones_keep_theirs(caplog):
    with MCPClient([*ODD, "changes"]) as client:
        agent = Agent(ScriptedModel([ToolCall("echo"), "done"]), client.tools)
        agent.run_sync("Go.")
        until(lambda: len(client.tools) == 2)
        assert [tool.name for tool in client.tools] == ["echo", "more"]
        assert [*agent.spec.tools] == ["echo"]
    assert "has changed its tools (new: ['more'], gone: [])" in caplog.text


def test_a_changed_list_is_seen_in_the_newer_protocol_too(tmp_path):
    port = free_port()
    with over_http(port, tmp_path / "log"), MCPClient(f"http://127.0.0.1:{port}/mcp") as client:
        ask(client, ToolCall("grow"))
        until(lambda: "grown" in [tool.name for tool in client.tools])


def test_every_schema_of_a_server_becomes_one_that_providers_take():
    with MCPClient([*ODD, "schemas"]) as client:
        calls = [ToolCall(tool.name, {"a": "1", "page": 2}) for tool in client.tools]
        assert [result.is_error for result in ask(client, calls)] == [False] * len(odd_mcp_server.BAD_SCHEMAS)
        for one in client.tools:
            assert one.schema["type"] == "object"
            assert isinstance(one.schema["properties"], dict)
            assert not {"anyOf", "oneOf", "allOf", "not", "enum"} & {*one.schema}


def test_an_argument_whose_name_providers_refuse_has_another_one_and_the_server_gets_its_own():
    with MCPClient([*ODD, "schemas"], only=["keys"]) as client:
        (keys,) = client.tools
        identity, before, after, plain = keys.schema["properties"]
        assert (identity, plain, keys.schema["required"]) == ("filter_id_", "plain.key", ["filter_id_"])
        call = ToolCall("keys", {identity: "3", before: 1, after: 2, plain: 4})
        assert ask(client, call)[0].text == '["keys", {"filter[id]": 3, "Time<": 1, "Time>": 2, "plain.key": 4}]'
        assert all(NAME_OF_AN_ARGUMENT.fullmatch(name) for name in keys.schema["properties"])


def test_a_name_that_providers_refuse_is_made_fit_and_mapped_back():
    with MCPClient([*ODD, "names"]) as client:
        names = [tool.name for tool in client.tools]
        assert len({*names}) == 6
        assert all(len(name) <= 64 and name.replace("_", "").isalnum() and name.isascii() for name in names)
        found = ask(client, [ToolCall(name) for name in names])
    assert [result.text for result in found][:4] == [f'["{name}", {{}}]' for name in ("a.b", "a/b", "a_b", "x" * 100)]


def test_an_error_that_sends_a_person_to_a_page_names_the_page():
    with MCPClient([*ODD, "link"]) as client:
        (result,) = ask(client, ToolCall("echo"))
    assert "a person has to allow it" in result.text
    assert "https://example.com/allow" in result.text


def test_an_answer_that_is_none_is_an_error_of_the_call_alone():
    with MCPClient([*ODD, "malformed"]) as client:
        assert ask(client, ToolCall("echo"))[0].is_error


def test_a_huge_answer_is_capped_as_that_of_any_tool_is():
    with MCPClient([*ODD, "huge"]) as client:
        (result,) = ask(client, ToolCall("echo"))
    assert result.is_error
    assert "3,000,000 characters" in result.text


# ---- HTTP


def test_over_http_a_server_that_was_started_anew_is_found_again(tmp_path):
    port = free_port()
    with over_http(port, tmp_path / "log") as process:
        client = MCPClient(f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer token-1234"})
        client.log = tmp_path / "log"
        with client:
            assert ask(client, ToolCall("search", {"query": "Austen"}))[0].text == "Austen: Emma"
            process.kill()
            process.wait()
            (dead,) = ask(client, ToolCall("search", {"query": "x"}))
            assert dead.is_error
            assert "cannot be reached" in dead.text
            with over_http(port, tmp_path / "log"):
                assert ask(client, ToolCall("search", {"query": "again"}))[0].text == "again: Emma"
    assert logged(client).count("search again 10") == 1


def test_over_http_a_server_that_dies_in_a_call_is_an_error_and_cancelling_reaches_it(tmp_path):
    port = free_port()
    with over_http(port, tmp_path / "log"), MCPClient(f"http://127.0.0.1:{port}/mcp") as client:
        client.log = tmp_path / "log"
        named(client, "wait").timeout = 1
        assert "did not end within 1 s" in ask(client, ToolCall("wait", {"seconds": 100}))[0].text
        until(lambda: "wait cancelled" in logged(client))
        died, gone = ask(client, ToolCall("die"), ToolCall("search", {"query": "x"}))
    assert died.is_error
    assert gone.is_error
    assert logged(client).count("die") == 1


def test_a_session_that_the_server_has_forgotten_is_begun_anew_and_the_call_made_once():
    with streaming() as server, MCPClient(server.url, headers={"X-Team": "library"}) as client:
        assert ask(client, ToolCall("say", {"size": 3}))[0].text == "xxx"
        server.session += 1
        assert ask(client, ToolCall("say", {"size": 4}))[0].text == "xxxx"
        assert server.calls == 2
        assert all(headers["X-Team"] == "library" for headers in server.headers)


def test_an_answer_that_is_streamed_may_be_as_large_as_media_are():
    with streaming() as server, MCPClient(server.url) as client:
        server.padding = 20_000_000
        assert ask(client, ToolCall("say", {"size": 3}))[0].text == "xxx"


def test_an_address_that_is_no_server_says_what_it_answered(tmp_path):
    page = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port := free_port())]
    process = subprocess.Popen(page, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port))
        with pytest.raises(ConfigError, match=r"'http://127.0.0.1:\d+/mcp' cannot be reached: .*HTTP 501") as caught:
            MCPClient(f"http://me:pass@127.0.0.1:{port}/mcp?key=secret").connect()
        assert "secret" not in str(caught.value)
        assert "pass" not in str(caught.value)
    finally:
        process.kill()
        process.wait()


def test_what_does_not_belong_to_a_kind_of_server_is_refused():
    with pytest.raises(ConfigError, match="the address of a server takes no env and no cwd"):
        MCPClient("https://example.com/mcp", env={"A": "b"}, cwd="/")
    with pytest.raises(ConfigError, match="a command takes no headers"):
        MCPClient("uvx some-server", headers={"A": "b"})
    with pytest.raises(ConfigError, match="server must be the address of a server"):
        MCPClient(" ")
    with pytest.raises(ConfigError, match="cannot be split: No closing quotation"):
        MCPClient("uvx 'some-server")
