"""The table of odd answers: each adapter reads an answer or refuses it by name, and the thread goes on after it."""

import asyncio
import json

import pytest
from harness.oddities import TABLE
from harness.oddities.mutants import EVENTS, RICH, mutants
from harness.providers import Provider
from harness.wires import FORMATS, WIRES, ls

from minideep import Agent, Request, Text, Thinking, UserMessage
from minideep.events import Restarted, TextDelta
from minideep.models import Price
from minideep.models.answers import received
from minideep.models.failures import BadReply, StreamBroke

ROWS = [(kind, form, row) for kind, rows in TABLE.items() for row in rows for form, _ in row.answers()]


def each(*rows):
    return pytest.mark.parametrize(
        ("kind", "form", "row"), rows, ids=[f"{kind}, {form}: {row.name}" for kind, form, row in rows]
    )


def ask(kind, form, row):
    """Ask once more than the server has answers, so that nothing is asked again unnoticed."""
    answers = [getattr(row, form)] * (2 if row.error else 1)
    return WIRES[kind].ask(*answers, listen=form == "stream", price=Price(input=1.0, output=1.0))


def heard(events):
    """The text that listeners have at the end."""
    last = max((at for at, event in enumerate(events) if isinstance(event, Restarted)), default=-1)
    return "".join(event.text for event in events[last + 1 :] if isinstance(event, TextDelta))


def cited(message):
    return [one for block in message.blocks if isinstance(block, Text) for one in block.citations]


class Server(Provider):
    """Gives one odd answer, and then plain ones."""

    def __init__(self, kind, odd):
        super().__init__(odd)
        self.wire = WIRES[kind]

    def answer_to(self, body):
        whole = self.wire.said("all is well")
        return self.take() if self.answers else self.wire.answer(whole, body.get("stream", False))


@each(*ROWS)
def test_an_odd_answer_is_read_or_refused_by_name(kind, form, row):
    if row.error:
        with pytest.raises(row.error) as caught:
            ask(kind, form, row)
        assert type(caught.value) is row.error
        assert not [word for word in row.words if word not in str(caught.value)], str(caught.value)
        return
    reply, _, events = ask(kind, form, row)
    message = reply.message
    assert (message.text, [(call.name, call.args) for call in message.calls]) == (row.text, list(row.calls))
    assert "".join(block.text for block in message.blocks if isinstance(block, Thinking)) == row.thinking
    assert [one.url for one in cited(message)] == list(row.cited)
    assert (reply.usage, reply.stop) == (row.usage, row.stop)
    assert (reply.cost is None) == bool(row.usage.unknown)
    assert not row.malformed or message.calls[-1].malformed == row.malformed
    assert heard(events) in ("", row.text)
    assert not row.is_plain or message.content == (Text(row.text),)


@each(*(case for case in ROWS if not (case[2].error or case[2].is_plain)))
def test_a_thread_goes_on_after_an_odd_answer(kind, form, row):
    async def go():
        with Server(kind, getattr(row, form)) as server:
            async with server.wire.connected(server.url) as client:
                agent = Agent(server.wire.model(client), [ls])
                turns = [await turn(agent, form) for _ in range(2)]
        return turns, server.bodies

    async def turn(agent, form):
        if form == "document":
            return await agent.run("go on", "thread")
        async with agent.stream("go on", "thread") as stream:
            async for _ in stream:
                pass
        return stream.turn

    turns, bodies = asyncio.run(go())
    assert turns[-1].text == "all is well"
    assert len(bodies) == 2 + bool(row.calls)
    sent = json.dumps(bodies[1])
    assert not [words for words in row.back if words not in sent and words not in json.dumps(bodies[1], indent=1)]


async def chunks(*events):
    for event in events:
        yield b"data: %b\n\n" % json.dumps(event).encode()


async def read(model, client, answer):
    """What is wrong with how *answer* is read, and with what is sent of it then; nothing if the server is to blame."""
    try:
        reply = model._read(await received(answer, model._stream(lambda event: None)))
        calls = [(call.name, call.id, call.args) for call in reply.message.calls]
        assert all(isinstance(name, str) and isinstance(id, str) for name, id, _ in calls)
        model._body(client, Request("", (UserMessage("hello"), reply.message)))
        return ""
    except (BadReply, StreamBroke):
        return ""
    except Exception as exc:
        return repr(exc)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("form", ["document", "stream"])
async def test_whatever_a_field_holds_an_answer_is_read_or_refused_and_what_was_read_can_be_sent(kind, form):
    wire, wrong = WIRES[kind], []
    answers = [RICH[kind]] if form == "document" else EVENTS[kind]
    async with wire.connected("http://127.0.0.1:1") as client:
        model = wire.model(client)
        for at, whole in enumerate(answers):
            for done, mutant in mutants(whole):
                if form == "document":
                    answer = chunks_of(json.dumps(mutant).encode())
                else:
                    answer = chunks(*answers[:at], mutant, *answers[at + 1 :])
                if problem := await read(model, client, answer):
                    wrong.append((at, done, problem))
    assert wrong == []


async def chunks_of(raw):
    yield raw
