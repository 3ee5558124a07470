"""Personal data: found, not found, marked, and never in a request, whoever sends it."""

import json
import re

import pytest
from harness.agents import sub, task
from hypothesis import given, strategies as st
from msgspec import structs

from minideep import (
    Agent,
    AssistantMessage,
    ConfigError,
    ContextOverflow,
    Document,
    Image,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.backends import StateBackend
from minideep.messages import Citation, Thinking
from minideep.middleware import Rubric, SummarizationMiddleware
from minideep.models import RedactPII, ScriptedModel
from minideep.ports import Request

MAIL, CARD, ADDRESS, KEY = "ada@example.com", "4111 1111 1111 1111", "192.168.0.17", "sk-ant-api03-" + "x1Y2" * 8
FOUND_HERE = {
    "email": [
        MAIL,
        "a.b+c%d@mail.example.co.uk",
        "X_1@a-b.org",
        "ada@xn--bcher-kva.example",
        "jörg@müller.de",
        "анна@пример.рф",
    ],
    "card": [CARD, "4111111111111111", "4111-1111-1111-1111", "3782 822463 10005", "6011000990139424"],
    "ip": [ADDRESS, "8.8.8.8", "2001:db8::8a2e:370:7334", "fe80::1", "::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"],
    "key": [
        KEY,
        "sk-proj-" + "a" * 40,
        "ghp_" + "a1" * 18,
        "github_pat_" + "a1" * 20,
        "glpat-" + "a" * 20,
        "xoxb-1234567890-abc",
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "a" * 35,
        "sk_live_" + "a" * 24,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig-nature",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n+/=\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-128-CBC,0A\n\nMIIEow\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQVY\n=A1\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
}
NOT_FOUND = [
    "ada at example.com, @ada, a@b",
    "4111 1111 1111 1112, 1234567890123, 3.4111111111111111, 2026-11-22 12:34:56",
    "256.1.1.1, 1.2.3, v1.2.3.4.5, 12:34:56, aa:bb:cc:dd:ee:ff, std::vector, a::b, x :: Int",
    "sk-short, ghp_short, akiaiosfodnn7example, eyJ.a.b, AKIAIOSFODNN7EXAMPLEX1",
]


def request(*messages, system="", **more):
    return Request(system, list(messages), **more)


async def sent(asked, **settings):
    """The request that reaches the model behind."""
    model = ScriptedModel(["ok"])
    await RedactPII(model, **settings).complete(asked, None)
    return model.requests[0]


async def shown(text, **settings):
    return (await sent(request(UserMessage(text)), **settings)).messages[0].text


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in FOUND_HERE.items() for text in texts])
async def test_what_is_found_is_replaced_by_its_kind_wherever_it_stands(kind, text):
    for around in ("{}", "({}), and {}.", "to:{}\n", '"{}"', "字{}字"):
        found = await shown(around.replace("{}", text))
        assert found == around.replace("{}", f"[{kind}]"), around


@pytest.mark.parametrize("text", NOT_FOUND)
async def test_what_only_looks_like_it_stays(text):
    assert await shown(text) == text


async def test_kinds_and_patterns_say_what_is_looked_for():
    text = f"{MAIL} {ADDRESS} E12345"
    assert await shown(text, kinds=["ip"], patterns={"employee": r"\bE\d{5}\b"}) == f"{MAIL} [ip] [employee]"
    assert await shown(text, kinds=[]) == text


async def test_mask_hash_and_drop():
    text = f"{MAIL}, {MAIL}, bob@example.com"
    assert await shown(text) == "[email], [email], [email]"
    assert await shown(text, strategy="drop") == ", , "
    one, again, other = (await shown(text, strategy="hash", secret="s")).split(", ")
    assert one == again != other
    assert re.fullmatch(r"\[email [0-9a-f]{8}\]", one)
    assert one not in await shown(text, strategy="hash", secret="another")


async def test_every_text_of_a_request_is_looked_at():
    call = ToolCall(
        "pay", {"to": MAIL, "card": 4111111111111111, "lines": [{MAIL: True, "x": [1.5, None, ADDRESS]}]}, "c1"
    )
    asked = await sent(
        request(
            UserMessage(f"I am {MAIL}"),
            AssistantMessage(
                (Text(f"To {MAIL}?", (Citation(quote=MAIL),)), call, ToolCall("odd", json.dumps(MAIL).encode(), "c2"))
            ),
            ToolMessage((Text(f"from {ADDRESS}"), Document(f"by {MAIL}".encode(), "text/plain")), "c1", "pay"),
            ToolMessage("ok", "c2", "odd"),
            system=f"Serve {MAIL}.",
        )
    )
    assert not re.search(f"{MAIL}|{ADDRESS}|4111111111111111", repr(asked))
    assert asked.messages[1].calls[0].args == {
        "to": "[email]",
        "card": "[card]",
        "lines": [{"[email]": True, "x": [1.5, None, "[ip]"]}],
    }
    assert asked.messages[1].calls[1].malformed == "[email]"
    assert [call.id for call in asked.messages[1].calls] == ["c1", "c2"]


async def test_what_cannot_be_read_or_must_not_be_changed_goes_as_it_is():
    blocks = (Thinking(MAIL, "anthropic", MAIL.encode()), Image(MAIL.encode()), Document(MAIL.encode()))
    assert (await sent(request(AssistantMessage(blocks)))).messages[0].content == blocks


async def test_a_message_without_any_stays_the_same_object_and_bytes():
    messages = [
        UserMessage("hello"),
        AssistantMessage((ToolCall("ls", b'{"path" :  "/"}', "c1"),)),
        ToolMessage("x", "c1", "ls"),
    ]
    asked = await sent(request(*messages))
    assert all(one is other for one, other in zip(asked.messages, messages, strict=True))


async def test_a_message_is_redacted_once_and_is_the_same_object_in_every_request():
    model = ScriptedModel(["ok", "ok"])
    safe, asked = RedactPII(model), request(UserMessage(f"I am {MAIL}"), ToolMessage(f"{CARD}", "c1", "pay"))
    await safe.complete(asked, None)
    await safe.complete(structs.replace(asked, messages=[*asked.messages, UserMessage("go on")]), None)
    first, second = (list(one.messages) for one in model.requests)
    assert all(one is other for one, other in zip(first, second, strict=False))


async def test_the_part_of_the_prompt_that_never_changes_keeps_its_end():
    asked = await sent(
        request(UserMessage("go"), system=f"For {MAIL}.\n\nMemory: {ADDRESS}", stable=len(f"For {MAIL}."))
    )
    assert (asked.system, asked.stable) == ("For [email].\n\nMemory: [ip]", len("For [email]."))


async def test_the_thread_and_the_tools_keep_the_originals(store):
    got = []

    @tool
    async def look(who: str) -> str:
        """Look somebody up."""
        got.append(who)
        return f"{who} has {CARD}"

    model = ScriptedModel([ToolCall("look", {"who": MAIL}), "ok"])
    agent = Agent(RedactPII(model), [look], checkpointer=store)
    await agent.run(f"Who is {MAIL}?", "t")
    assert got == [MAIL]
    assert MAIL in agent.transcript("t")[0].text
    assert CARD in agent.transcript("t")[2].text
    assert MAIL not in repr(model.requests)
    assert CARD not in repr(model.requests)


async def test_no_request_of_a_subagent_a_summarizer_or_a_grader_has_any():
    """A hook would not see the summarizer, nor the request that is made smaller after an overflow."""

    def say(asked):
        if asked.system.startswith("You grade"):
            return json.dumps({"criteria": [{"number": 1, "reason": "it does", "met": True}]})
        if not asked.tools:
            return "Goal: to write."
        last = asked.messages[-1].text
        if last == "overflow" and not asked.messages[0].text.startswith("[Summary"):
            return ContextOverflow("too long")
        return task("one", description=f"Write to {MAIL}.") if last == "delegate" else f"Sent to {MAIL}."

    model, files = ScriptedModel(say, window=30_000), StateBackend()
    safe = RedactPII(model)
    middleware = [SummarizationMiddleware(safe, files, keep=1), Rubric(["It is short."], safe)]
    agent = create_deep_agent(safe, subagents=[sub("one", None)], backend=files, middleware=middleware)
    for text in ("delegate", f"x {MAIL} " * 200, "overflow"):
        assert (await agent.run(text, "t")).text == f"Sent to {MAIL}."
    systems = [asked.system[:9] for asked in model.requests]
    assert systems.count("You grade") == 3
    assert agent.get_state("t").messages[0].text.startswith("[Summary")
    assert len([asked for asked in model.requests if not asked.tools and not asked.system.startswith("You grade")]) == 1
    assert MAIL in repr(agent.transcript("t"))
    assert all(MAIL not in repr(structs.replace(asked, tools=())) for asked in model.requests)


@given(st.text(st.sampled_from("aA1@.-:+ sk_\n字["), max_size=300))
def test_any_text_is_read_and_what_is_marked_once_stays(text):
    safe = RedactPII(ScriptedModel([]))
    once = safe._redacted(text)
    assert safe._redacted(once) == once


@pytest.mark.parametrize(
    "unit", ["a", "1", "a@", "1.", "a:", ":", "-", "4111 ", "sk-", "eyJ", "-----BEGIN PRIVATE KEY-----"]
)
def test_hostile_text_takes_time_in_proportion(unit):
    """Steps of the engine cannot be counted; a pattern that looked back over all of it would not end here at all."""
    text = unit * (400_000 // len(unit))
    assert len(RedactPII(ScriptedModel([]))._redacted(text)) <= len(text)


def test_it_has_the_attributes_of_the_model_behind():
    model = ScriptedModel([], window=5_000)
    assert RedactPII(model).window == 5_000
    assert RedactPII(model).name == model.name


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"kinds": ["phone"]}, "kinds"),
        ({"patterns": {"x": "("}}, "no regular expression"),
        ({"patterns": {"card": "x"}}, "which is a kind"),
        ({"strategy": "hash"}, "needs a secret"),
        ({"strategy": "block"}, "strategy"),
        ({"model": 5}, "model"),
    ],
)
def test_wrong_arguments_are_refused(wrong, problem):
    with pytest.raises(ConfigError, match=problem):
        RedactPII(**{"model": "offline:", **wrong})
