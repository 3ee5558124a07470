"""Measure which facts of a long conversation a summarizer is given, by place and by kind, and what that costs.

    python bench/summary_input.py

Three conversations of 127,000 to 202,000 tokens, made of words at random in the shapes that real ones have: a coding
session (searches, files, edits, test logs), a research session (pages of 16 to 60 KB, notes) and a long chat. Each
holds known facts, texts that occur once: what the user wants, decisions, commands, paths and ids, numbers, lines of
errors. A fact counts as given if its text is in what the summarizer reads. One that is not can still be looked up in
the file that the summary names, but only by a model that knows that it misses something.

A row is a way to cut the texts. Dollars are the input of one summary by the model of the catalog below, which asks for
all of it anew: nothing of it is read from a cache.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable

from bounds import bound, verdict
from msgspec import Struct

from minideep import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from minideep.messages import Message
from minideep.middleware.context import tokens
from minideep.middleware.context.summarizer import Summary, summarize
from minideep.middleware.context.transcript_text import excerpts
from minideep.models import ScriptedModel
from minideep.models.catalog import model_info

MODEL, WINDOW = "claude-sonnet-4-6", 200_000
SEED = 20_261_122
USUAL = """
the of and to in is that it was for on are as with his they at be this have from or had by not but what some we can out
other were all there when up use your how said an each she which their time if will way about many then them write would
like so these her long make thing see him two has look more day could go come did number sound no most people my over
"""
WORDS = USUAL.split()


class Fact(Struct, frozen=True):
    text: str
    kind: str
    place: str
    """Where in its text it stands: "begin", "middle" or "end"."""


class Talk:
    """A conversation in the making, with the facts that it holds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.messages: list[Message] = []
        self.facts: list[Fact] = []
        self._calls = 0

    def prose(self, size: int) -> str:
        words: list[str] = []
        length = 0
        while length < size:
            words.append(self.random.choice(WORDS))
            length += len(words[-1]) + 1
            if not len(words) % 14:
                words[-1] += ".\n"
        return " ".join(words)

    def mark(self) -> str:
        """Return eight letters and digits that occur nowhere else."""
        return f"{self.random.getrandbits(40):010x}"

    def planted(self, size: int, *facts: tuple[str, str, str]) -> str:
        """Return text of *size* characters with *facts* in it: form, kind and place of each."""
        at = {"begin": (0.0, 0.1), "middle": (0.2, 0.8), "end": (0.9, 1.0)}
        text = self.prose(size)
        marked = [
            (self.random.uniform(*at[place]), Fact(form.format(self.mark()), kind, place))
            for form, kind, place in facts
        ]
        for share, fact in sorted(marked, key=lambda item: -item[0]):
            cut = text.rfind("\n", 0, int(share * len(text)) + 1) + 1
            text = f"{text[:cut]}{fact.text}\n{text[cut:]}"
            self.facts.append(fact)
        return text.strip()

    def user(self, size: int, *facts: tuple[str, str, str]) -> None:
        self.messages.append(UserMessage(self.planted(size, *facts)))

    def says(self, size: int, *facts: tuple[str, str, str]) -> None:
        self.messages.append(AssistantMessage(self.planted(size, *facts)))

    def calls(self, name: str, args: dict[str, str], remark: str, result: str, *, error: bool = False) -> None:
        self._calls += 1
        call = ToolCall(name, args, f"c{self._calls}")
        self.messages.append(AssistantMessage((Text(remark), call) if remark else (call,)))
        self.messages.append(ToolMessage(result, call.id, name, is_error=error))


def coding(talk: Talk) -> None:
    """Find bugs and fix them: read, search, edit, run the tests, over and over; the user adds wishes."""
    pick = talk.random
    talk.user(900, ("It must still run on Python 3.9, ticket {}", "wish", "middle"))
    for step in range(90):
        if step % 30 == 29:
            talk.user(
                5_000, ("leave the module compat_{} as it is", "wish", "middle"), ("see build {}", "path, id", "end")
            )
        match step % 6:
            case 0:
                size = pick.randrange(1_500, 4_000)
                found = talk.planted(size, ("/src/app/service_{}.py:88: def handle", "path, id", "middle"))
                talk.calls("grep", {"pattern": "handle", "output_mode": "content"}, talk.prose(120), found)
            case 1 | 2:
                size = pick.randrange(3_000, 16_000)
                page = talk.planted(size, ("TIMEOUT_{} = 30", "number", "middle"))
                talk.calls("read_file", {"file_path": f"/src/app/part_{step}.py", "limit": "400"}, "", page)
            case 3:
                remark = talk.planted(700, ("I keep the retry in the client because of {}", "decision", "middle"))
                old, new = talk.prose(pick.randrange(200, 1_200)), talk.prose(pick.randrange(200, 1_600))
                args = {"file_path": f"/src/app/part_{step}.py", "old_string": old, "new_string": new}
                talk.calls("edit_file", args, remark, f"replaced 1 occurrence in '/src/app/part_{step}.py'")
            case 4:
                command = talk.planted(60, ("pytest tests/test_{}.py -x --lf", "command", "begin"))
                facts = (
                    ("E   AssertionError: expected {}", "error", "middle"),
                    ("FAILED tests/test_{}.py", "error", "end"),
                )
                log = talk.planted(pick.randrange(4_000, 30_000), *facts)
                talk.calls("shell", {"command": command}, talk.prose(80), log)
            case _:
                remark = talk.planted(1_500, ("the cause is that lock {} is taken twice", "decision", "middle"))
                talk.calls("shell", {"command": "git diff"}, remark, talk.prose(pick.randrange(1_000, 5_000)))


def research(talk: Talk) -> None:
    """Read pages, note what they say, and weigh it."""
    pick = talk.random
    talk.user(1_500, ("only sources from after 2024, says {}", "wish", "middle"))
    for step in range(12):
        query = {"query": talk.planted(50, ("market share {}", "command", "begin"))}
        hits = talk.planted(pick.randrange(2_000, 5_000), ("https://example.org/{}", "path, id", "middle"))
        talk.calls("web_search", query, talk.prose(150), hits)
        page = talk.planted(
            pick.randrange(16_000, 60_000),
            ("revenue rose to {} million", "number", "begin"),
            ("a sample of n={} firms", "number", "middle"),
            ("the share was {} percent", "number", "middle"),
            ("doi:10.1000/{}", "path, id", "end"),
        )
        talk.calls("fetch", {"url": f"https://example.org/page/{step}"}, "", page)
        note = talk.planted(1_800, ("source {} is not to be trusted, as it sells", "decision", "middle"))
        talk.calls("write_file", {"file_path": f"/notes/{step}.md", "content": note}, "", f"created '/notes/{step}.md'")
        talk.says(1_200, ("I prefer the survey {} to the estimate", "decision", "middle"))
        talk.user(pick.randrange(40, 300), ("also compare with region {}", "wish", "end"))


def chat(talk: Talk) -> None:
    """A person and a model, without tools; the person pastes letters and logs."""
    pick = talk.random
    for turn in range(80):
        facts = [("my customer number is {}", "path, id", "middle")]
        if turn % 4 == 0:
            facts += [("never write to the office in {}", "wish", "middle"), ("Error 0x{}: denied", "error", "middle")]
        talk.user(pick.randrange(9_000, 16_000) if turn % 16 == 8 else pick.randrange(60, 1_500), *facts)
        facts = [("we agree on plan {}", "decision", "middle"), ("it costs {} euros", "number", "middle")]
        talk.says(pick.randrange(1_500, 7_000), *facts)


def read_now(talk: Talk) -> list[str]:
    """Return the questions that the summarizer is really asked."""
    model = ScriptedModel(lambda request: "Goal: to go on.", window=WINDOW)
    asyncio.run(summarize(model, talk.messages, Summary(), 5_000))
    return [request.messages[0].text for request in model.requests]


def cut(share: float) -> Callable[[Talk], list[str]]:
    """Return excerpts in this share of the conversation; 0: each text cut to 8,000, 4,000 and 2,000 characters."""
    return lambda talk: ["\n\n".join(excerpts(talk.messages, share * size_of(talk), 10**6))]


def size_of(talk: Talk) -> float:
    return sum(map(tokens.of_message, talk.messages))


TALKS: dict[str, Callable[[Talk], None]] = {"coding": coding, "research": research, "chat": chat}
WAYS = {
    "8,000, 4,000 and 2,000": cut(0),
    "a quarter of it, at least that": cut(0.25),
    "now: half of it, at least that": read_now,
    "three quarters of it": cut(0.75),
    "all of it": cut(1.1),
}
PLACES = ("begin", "middle", "end")
ASPECTS = ("wish", "decision", "command", "path, id", "number", "error")


def main() -> int:
    price = model_info(MODEL).price
    assert price is not None
    given: dict[tuple[str, str], float] = {}
    for name, make in TALKS.items():
        talk = Talk(SEED)
        make(talk)
        print(f"{name}: {size_of(talk):,.0f} tokens, {len(talk.messages)} messages, {len(talk.facts)} facts")
        print(f"  {'':31}{'tokens':>8}{'$':>6}{'all':>6}", *(f"{key:>8}" for key in (*PLACES, *ASPECTS)), sep=" ")
        for way, make_questions in WAYS.items():
            questions = make_questions(talk)
            size = sum(map(tokens.of_text, questions))
            found = [fact for fact in talk.facts if any(fact.text in question for question in questions)]
            known, seen = counts(talk.facts), counts(found)
            given[name, way] = len(found) / len(talk.facts)
            shares = [f"{seen[key] / known[key]:8.0%}" if known[key] else f"{'':8}" for key in (*PLACES, *ASPECTS)]
            cost = f"{size * price.input / 1e6:6.2f}"
            print(f"  {way:31}{size:8,.0f}{cost}{given[name, way]:6.0%}", *shares, sep=" ")
    now, before = list(WAYS)[2], next(iter(WAYS))
    for name in TALKS:
        bound(f"{name}: facts given now", given[name, now], 0.6, least=True)
        bound(
            f"{name}: facts given now, to those of fixed lengths", given[name, now] / given[name, before], 1, least=True
        )
    return verdict()


def counts(facts: list[Fact]) -> Counter[str]:
    return Counter(word for fact in facts for word in (fact.kind, fact.place))


if __name__ == "__main__":
    sys.exit(main())
