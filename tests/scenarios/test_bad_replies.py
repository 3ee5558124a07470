"""No bad reply poisons a thread: after each, four turns and three resumes work, over real SDKs, in all three formats.

The oracle of the harness looks at every body on the way. Each turn and each resume has an agent of its own; of the four
turns one fails, one is cancelled and one is killed in the middle, and all three are resumed.
"""

import asyncio
import base64
import json
import threading
from typing import Any, NamedTuple

import pytest
from harness.providers import Answer, Provider, json_answer
from harness.replies import REPLIES
from harness.stores import copy_of
from harness.wires import WIRES, chat, claude, connected, ls, reply, responses
from hypothesis import given, settings, strategies as st

from minideep import Agent, Image, MemoryCheckpointer, Text, ToolResult, Turn, UserMessage, tool
from minideep.workers import in_thread

LIVES = 15
"""The number of lives with random replies in each format; 1,000 are a long campaign."""

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)
JPEG = b"\xff\xd8\xff\xe0" + bytes(32)
AS_PNG, AS_JPEG = (base64.b64encode(data).decode() for data in (PNG, JPEG))
NAMES = {
    "channel": "weather<|channel|>json",
    "empty": "",
    "blank": " ",
    "dots": "browser.tabs.open",
    "long": "a" * 300,
    "umlauts": "prüfe",
}
FAILURE = json_answer({"error": {"type": "api_error", "message": "Oops."}}, 500, x_should_retry="false")
NEVER = Answer(b"", hold=True)


class Bad(NamedTuple):
    """A reply after which a thread must go on, or an input that is no better."""

    reply: dict[str, Any]
    input: Any = "go"
    settings: dict[str, Any] = {}  # noqa: RUF012
    then: tuple[dict[str, Any], ...] = ()
    """What the model says next; after that it always says `ok`."""
    kept: str = ""
    """What each later request must hold of it."""


@tool
async def look() -> list[Any]:
    """Look, through a camera that labels all its pictures as PNG."""
    return [Text("see"), Image(JPEG, "image/png")]


@tool
async def fail() -> ToolResult:
    """Fail, and show how."""
    return ToolResult((Text("broken"), Image(PNG)), is_error=True)


@tool
async def memory(command: str, path: str) -> str:
    """Remember."""
    return "nothing"


@tool
async def patch(input: str) -> str:
    """Apply a patch."""
    return "done"


MISLABELLED = UserMessage((Text("what is this?"), Image(JPEG, "image/png")))


# ---- the Messages API


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
THINKING = {"type": "thinking", "thinking": "let me look", "signature": "c2lnbmVk=="}
RUN = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": {"code": "ls()"}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_2", "content": {"type": "code_execution_result"}}
HOSTED = {"tools": [{"type": "web_search_20260209", "name": "web_search"}]}
CODE = {"tools": [{"type": "code_execution_20260120", "name": "code_execution"}]}
CONTAINER = {"container": {"id": "container_1", "expires_at": "2026-11-22T23:00:00Z"}}
BY_CODE = {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_2"}}


def use(name: str = "ls", arguments: Any = {"path": "/"}, **fields: Any) -> dict[str, Any]:  # noqa: B006
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments} | fields


def cut_off(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"input": '{"query": "x'}


CLAUDE = {
    "thinking cut short": Bad(claude.message(THINKING, stop="max_tokens"), kept="c2lnbmVk"),
    "only a blank": Bad(claude.message(claude.text(" \n"))),
    "a blank and a call": Bad(claude.message(claude.text("\n"), use(), stop="tool_use")),
    **{f"a name: {kind}": Bad(claude.message(use(name), stop="tool_use")) for kind, name in NAMES.items()},
    "a picture of a person": Bad(claude.said("nice"), MISLABELLED, kept=AS_JPEG),
    "a picture of a tool": Bad(claude.message(use("look", {}), stop="tool_use"), kept=AS_JPEG),
    "an error with a picture": Bad(claude.message(use("fail", {}), stop="tool_use"), kept=AS_PNG),
    "arguments that are no JSON": Bad(claude.message(use(arguments='{"path": /x'), stop="tool_use")),
    "arguments cut short": Bad(claude.message(use(arguments='{"path": "/'), stop="max_tokens")),
    "one id for two calls": Bad(claude.message(use(), use(), stop="tool_use")),
    "an id with a space": Bad(claude.message(use(id="call 1|x"), stop="tool_use")),
    "no content": Bad(claude.message()),
    "no content, refused": Bad(claude.message(stop="refusal")),
    "refused in the middle": Bad(claude.message(claude.text("I never "), stop="refusal"), kept="I never"),
    "a search cut short": Bad(
        claude.message(claude.text("Let me see."), cut_off(SEARCH), stop="max_tokens"), settings=HOSTED
    ),
    "a search cut short at once": Bad(claude.message(cut_off(SEARCH), stop="max_tokens"), settings=HOSTED),
    "a pause that ends in blanks": Bad(
        claude.message(SEARCH, FOUND, claude.text("Let me see. \n"), stop="pause_turn"), settings=HOSTED
    ),
    "a pause that is all blanks": Bad(
        claude.message(SEARCH, FOUND, claude.text("\n\n"), stop="pause_turn"), settings=HOSTED
    ),
    "a pause in a search": Bad(
        claude.message(claude.text("Let me see."), SEARCH, stop="pause_turn"),
        settings=HOSTED,
        then=(claude.message(FOUND, claude.text("There.")),),
        kept="srvtoolu_1",
    ),
    "a pause that is never taken up": Bad(
        claude.message(claude.text("Let me see."), SEARCH, stop="pause_turn"), settings=HOSTED
    ),
    "code that calls a tool": Bad(
        claude.message(RUN, use(**BY_CODE), stop="tool_use") | CONTAINER,
        settings=CODE,
        then=(claude.message(RAN, claude.text("There.")) | CONTAINER,),
        kept="srvtoolu_2",
    ),
    "code beside a call": Bad(
        claude.message(RUN, use(), stop="tool_use") | CONTAINER,
        settings=CODE,
        then=(claude.message(RAN, claude.text("There.")) | CONTAINER,),
        kept="srvtoolu_2",
    ),
    "a tool of the provider that we run": Bad(
        claude.message(use("memory", {"command": "view", "path": "/memories"}), stop="tool_use"),
        settings={"tools": [{"type": "memory_20250818", "name": "memory"}]},
    ),
}


# ---- the Responses API


REASONING = responses.reasoning("let me look")
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
FILTERED = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
STORED = {"store": True}


def asks(name: str = "ls", arguments: str = '{"path": "/"}', **fields: Any) -> dict[str, Any]:
    return responses.call("call_1", arguments, name=name, **fields)


def client_call(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "ctc_1", "call_id": "call_9", "status": "completed"} | fields


OURS = {
    "a custom call": client_call("custom_tool_call", name="patch", input="*** Begin Patch"),
    "a shell call": client_call("shell_call", action={"commands": ["ls"]}),
    "a local shell call": client_call("local_shell_call", action={"type": "exec", "command": ["ls"], "env": {}}),
    "a patch": client_call("apply_patch_call", operation={"type": "delete_file", "path": "a.md"}),
    "a click": client_call("computer_call", action={"type": "screenshot"}, pending_safety_checks=[]),
}
"""Calls that wait for an answer of ours. We have a tool for the first alone, and declare none."""

CONTAINED = [
    client_call("shell_call", action={"commands": ["ls"]}, environment={"type": "container_reference"}),
    {"type": "shell_call_output", "id": "sho_1", "call_id": "call_9", "output": [
        {"stdout": "a.md", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
]  # fmt: skip

RESPONSES = {
    "reasoning cut short": Bad(responses.response(REASONING, **CUT)),
    "reasoning cut short, stored": Bad(responses.response(REASONING, **CUT), settings=STORED),
    "reasoning at the end": Bad(responses.response(responses.message("so"), REASONING, **CUT)),
    "reasoning at the end, stored": Bad(responses.response(responses.message("so"), REASONING, **CUT), settings=STORED),
    "reasoning before nothing said": Bad(responses.response(REASONING, responses.message(""))),
    "reasoning before a call, stored": Bad(responses.response(REASONING, asks()), settings=STORED, kept="rs_1"),
    "reasoning before a text, stored": Bad(
        responses.response(REASONING, responses.message("so")), settings=STORED, kept="rs_1"
    ),
    **{f"a name: {kind}": Bad(responses.response(asks(name))) for kind, name in NAMES.items()},
    "a picture of a person": Bad(responses.said("nice"), MISLABELLED, kept=AS_JPEG),
    "a picture of a tool": Bad(responses.response(asks("look", "{}")), kept=AS_JPEG),
    "an error with a picture": Bad(responses.response(asks("fail", "{}")), kept=AS_PNG),
    "arguments that are no JSON": Bad(responses.response(asks(arguments='{"path": /x'))),
    "arguments cut short": Bad(
        responses.response(REASONING, asks(arguments='{"path": "/', status="incomplete"), **CUT)
    ),
    "one id for two calls": Bad(responses.response(asks(), asks(id="fc_2"))),
    "an id of 100 characters": Bad(responses.response(asks() | {"call_id": "c" * 100})),
    "no output": Bad(responses.response()),
    "no content": Bad(responses.response(responses.message("") | {"content": []})),
    "refused": Bad(responses.response(responses.REFUSED | {"id": "msg_1"}), kept="I cannot"),
    "refused after reasoning, stored": Bad(
        responses.response(REASONING, responses.REFUSED | {"id": "msg_1"}), settings=STORED
    ),
    "filtered": Bad(responses.response(REASONING, responses.message("I "), **FILTERED)),
    **{name: Bad(responses.response(REASONING, call), kept="call_9") for name, call in OURS.items()},
    "a custom call beside another": Bad(responses.response(REASONING, OURS["a custom call"], asks())),
    "a custom call, declared": Bad(
        responses.response(REASONING, OURS["a custom call"]), settings={"tools": [{"type": "custom", "name": "patch"}]}
    ),
    "a custom call, stored": Bad(responses.response(REASONING, OURS["a custom call"]), settings=STORED),
    "a custom call by a name that is none": Bad(
        responses.response(client_call("custom_tool_call", name="fs.patch<|channel|>", input="*"))
    ),
    "a call of a container": Bad(responses.response(REASONING, *CONTAINED, responses.message("so"))),
}


# ---- Chat Completions


def chat_use(name: str = "ls", arguments: Any = '{"path": "/"}', call_id: Any = "call_1") -> dict[str, Any]:
    return chat.call(call_id, "") | {"function": {"name": name, "arguments": arguments}}


def calling(*calls: dict[str, Any], finish: str = "tool_calls", **fields: Any) -> dict[str, Any]:
    return chat.completion({"tool_calls": list(calls)} | fields, finish)


CHAT = {
    "reasoning cut short": Bad(chat.completion({"reasoning_content": "let me look"}, "length")),
    **{f"a name: {kind}": Bad(calling(chat_use(name))) for kind, name in NAMES.items()},
    "a picture of a person": Bad(chat.said("nice"), MISLABELLED, kept=AS_JPEG),
    "a picture of a tool": Bad(calling(chat_use("look", "{}")), kept=AS_JPEG),
    "an error with a picture": Bad(calling(chat_use("fail", "{}")), kept=AS_PNG),
    "arguments that are no JSON": Bad(calling(chat_use(arguments='{"path": /x'))),
    "arguments that are a list": Bad(calling(chat_use(arguments="[1]"))),
    "arguments cut short": Bad(calling(chat_use(arguments='{"path": "/'), finish="length")),
    "one id for two calls": Bad(calling(chat_use(), chat_use())),
    "no id": Bad(calling(chat_use(call_id=None))),
    "an id of 100 characters": Bad(calling(chat_use(call_id="c" * 100))),
    "no content": Bad(chat.completion({"content": None})),
    "empty content": Bad(chat.completion({"content": ""})),
    "refused": Bad(chat.completion({"refusal": "I cannot"}), kept="I cannot"),
    "filtered": Bad(chat.completion({"content": "I "}, "content_filter")),
    "reasoning and a call": Bad(calling(chat_use(), reasoning_content="let me see"), kept="let me see"),
}

BAD = {"anthropic": CLAUDE, "openai": RESPONSES, "openai-chat": CHAT}


# ---- the life of a thread


class Recovering(Provider):
    """Says `ok` once its answers are given."""

    def __init__(self, kind: str, stream: bool) -> None:
        super().__init__()
        self.kind, self.stream = kind, stream
        self.asked = threading.Event()

    def take(self) -> Answer:
        answer = self.answers.popleft() if self.answers else reply(self.kind, text="ok", stream=self.stream)
        if answer is NEVER:
            self.asked.set()
        return answer


class Life:
    """One thread, whose every turn and resume has an agent of its own."""

    def __init__(self, kind: str, bad: Bad, stream: bool) -> None:
        self.kind, self.bad, self.stream = kind, bad, stream
        self.provider = Recovering(kind, stream)
        self.store = MemoryCheckpointer()

    async def turn(self, verb: str, *given: Any) -> Turn:
        async with connected(self.kind, self.provider.url, **self.bad.settings) as model:
            agent = Agent(model, [ls, look, fail, memory, patch], "Be brief.", checkpointer=self.store)
            if not self.stream:
                return await getattr(agent, verb)(*given)
            events = agent.stream(*given) if verb == "run" else agent.resume_stream(*given)
            async for _ in events:
                pass
            return events.turn

    async def begin(self) -> Turn:
        """The turn with the bad reply. If the model is asked again in it, that fails first, and the turn is resumed."""
        turn = await self.begin_and_fail()
        if turn.status == "failed":
            self.provider.answers.extend(WIRES[self.kind].answer(whole, self.stream) for whole in self.bad.then)
            turn = await self.resume()
        self.provider.answers.clear()
        return turn

    async def begin_and_fail(self) -> Turn:
        turn = await self.say(self.bad.input, WIRES[self.kind].answer(self.bad.reply, self.stream), FAILURE)
        self.provider.answers.clear()
        return turn

    async def say(self, input: Any, *answers: Answer) -> Turn:
        self.provider.answers.extend(answers)
        return await self.turn("run", input, "t")

    async def resume(self) -> Turn:
        return await self.turn("resume", "t")

    async def fail(self, input: str) -> Turn:
        """A turn of which the second request fails."""
        path = {"path": "/"}
        return await self.say(input, reply(self.kind, ("later_1", path), stream=self.stream), FAILURE)

    async def stop(self, input: str, kill: bool) -> None:
        """A turn that is cancelled, or whose process is killed, while the model is asked."""
        self.provider.asked.clear()
        turn = asyncio.ensure_future(self.say(input, NEVER))
        assert await in_thread(self.provider.asked.wait, 10)
        left = copy_of(self.store) if kill else self.store
        turn.cancel()
        await asyncio.wait([turn])
        self.store = left


CASES = [(kind, name) for kind in BAD for name in BAD[kind]]
"""Each of them begins a thread that goes on; every second one is moved to other servers, the others are resumed there."""


@pytest.mark.parametrize(("kind", "name"), CASES)
async def test_a_thread_goes_on_after_a_bad_reply(kind, name):
    life = Life(kind, BAD[kind][name], stream=True)  # The tests below have whole answers.
    with life.provider as provider:
        assert (await life.begin()).status == "ended"
        assert (await life.fail("one")).status == "failed"
        assert (await life.resume()).text == "ok"
        await life.stop("two", kill=False)
        assert (await life.resume()).text == "ok"
        await life.stop("three", kill=True)
        assert (await life.resume()).text == "ok"
        assert (await life.say("four")).text == "ok"
    assert not provider.answers
    last = json.dumps(provider.bodies[-1])
    assert [word for word in ("one", "two", "three", "four") if f'"{word}"' not in last] == []
    assert last.count('"later_1"') == 2
    assert life.bad.kept in last


@pytest.mark.parametrize(("kind", "name"), CASES[::2])
async def test_a_thread_with_a_bad_reply_may_be_given_up_and_move_to_other_servers_of_all_formats_and_back(kind, name):
    home = Life(kind, BAD[kind][name], stream=False)
    with home.provider:
        await home.begin_and_fail()
        assert (await home.say("never mind")).text == "ok"
        for other in BAD:
            away = Life(other, Bad({}), stream=False)
            away.store = home.store
            with away.provider:
                assert (await away.fail("away")).status == "failed"
                assert (await away.resume()).text == "ok"
        assert (await home.say("home again")).text == "ok"


@pytest.mark.parametrize(("kind", "name"), CASES[1::2])
async def test_a_turn_with_a_bad_reply_may_be_resumed_by_another_server_of_any_format(kind, name):
    home = Life(kind, BAD[kind][name], stream=False)
    with home.provider:
        begun = await home.begin_and_fail()
    for other in BAD if begun.status == "failed" else ():
        settings = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if other == "anthropic" else {}
        away = Life(other, Bad({}, settings=settings), stream=False)
        away.store = copy_of(home.store)
        with away.provider:
            assert (await away.resume()).text == "ok"
            assert (await away.say("and?")).text == "ok"


@pytest.mark.parametrize("kind", BAD)
def test_a_thread_goes_on_after_any_replies(kind):
    @settings(max_examples=LIVES, deadline=None)
    @given(st.lists(REPLIES[kind], min_size=1, max_size=4), st.booleans(), st.sampled_from([{}, STORED]))
    def live(wholes, stream, stored):
        bad = Bad(wholes[0], then=tuple(wholes[1:]), settings=stored if kind == "openai" else {})
        asyncio.run(lived(Life(kind, bad, stream)))

    async def lived(life):
        with life.provider:
            assert (await life.begin()).status == "ended"
            assert (await life.fail("one")).status == "failed"
            assert (await life.resume()).text == "ok"

    live()
