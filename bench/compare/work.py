"""The scripted work, the same for every contender: a book of which an agent reads one page a step.

A turn is a question that names its first page, one tool call a step, and a last reply without a call. A page has 2,000
characters that occur nowhere else. The script is a function of the last message of a request, and not a counter in the
process, so that another process continues where the thread is.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from random import Random
from time import perf_counter

SIZE = 2000
PLACE = re.compile(r"(from page|Page) (\d+)")
DONE = "That was the last page."
SUMMARY = "The librarian wants a book read, page by page. What was read so far: " + "names, numbers and places. " * 50
WINDOW = 64_000
"""The tokens that a model takes where compaction is on, which 120 steps fill once. Where it is off, it has no end."""
SYSTEM = "You read a book for a librarian."
WORDS = re.findall(
    r"\w+",
    """
a about after again all along also an and any are as asked at away back be because been before began book
both but by came can chapter child city could country day did do door down each end enough even every eye face far few
first for form found friend from garden gave give go good great had half hand has have he head heard her here high him
his home house however if in interest into is it its just keep kind knew know land large last later least left let
letter library life light like line little long look made make man many may mean might mind more morning most mother
much must my name near never new next night no not nothing now of off often old on once one only or order other our out
over own page paper part people perhaps place point quite rather read reason right river room round said same saw say
school second see seemed set she should show side since small so some something soon story street such table take tell
than that the their them then there these they thing think this those though thought three through time to together too
took toward town turn two under until up upon us use very voice walk was water way we well went were what when where
which while white who whole why will window with within without word work world would write year yet you young
""",
)


def text_of(page: int) -> str:
    """Return the text of a page: the same at every call, and unlike that of all other pages."""
    random = Random(page)
    text = f"Page {page}."
    while len(text) < SIZE:
        text += f" {random.choice(WORDS)} {random.choice(WORDS)} {random.choice(WORDS)} {random.randrange(10**4)}"
    return text[:SIZE]


def as_sent(role: str, text: str, calls: Iterable[tuple[str, str, str]] = (), answers: str = "") -> str:
    """Return a message as OpenAI's chat API takes it. *calls* are ids, names and arguments; *answers* is an id."""
    message: dict[str, object] = {"role": role, "content": text}
    functions = [{"id": id, "type": "function", "function": {"name": name, "arguments": a}} for id, name, a in calls]
    if functions:
        message["tool_calls"] = functions
    if answers:
        message["tool_call_id"] = answers
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def tool_as_sent(name: str, description: str, schema: object) -> str:
    """Return a tool as OpenAI's chat API takes it."""
    function = {"name": name, "description": description, "parameters": schema}
    return json.dumps({"type": "function", "function": function}, ensure_ascii=False, separators=(",", ":"))


class Work:
    """Some turns of *steps* steps each. The texts are made here, before a clock runs.

    A contender's tool returns `read(page)`, and its model asks `reply` what to say. `asked_at` has the time of each
    model call, in seconds of `perf_counter`. *see* is called with each request as it would be sent.
    """

    def __init__(self, steps: int, turns: int = 1, see: Callable[[Sequence[str]], None] | None = None) -> None:
        self.steps = steps
        self.see = see
        self.pages = [text_of(page) for page in range(steps * turns)]
        self.asked_at: list[float] = []

    def question(self, turn: int) -> str:
        """Return the user's message that begins a turn, counted from 0."""
        return f"Read {self.steps} pages, from page {turn * self.steps} on."

    def read(self, page: int) -> str:
        """Return the text of a page: what the tool of every contender does."""
        return self.pages[page]

    def reply(self, last: str, request: Callable[[], Sequence[str]]) -> int | None:
        """Return the page that the model asks for next, or None if it says `DONE`.

        *last* is the text of the request's last message. *request* returns the whole request in the order in which a
        provider's cache reads it: the tools, the system prompt, and each message, written by the functions above.
        """
        self.asked_at.append(perf_counter())
        if self.see:
            self.see(request())
        found = PLACE.search(last)
        if found is None:
            raise ValueError(f"the last message of a request names no page: {last[:200]!r}")
        if found[1] == "from page":
            return int(found[2])
        page = int(found[2]) + 1
        return page if page % self.steps else None

    def summarize(self, request: Callable[[], Sequence[str]]) -> str:
        """Return what the model says to a request for a summary, which is one that shows it no tools."""
        if self.see:
            self.see(request())
        return SUMMARY
