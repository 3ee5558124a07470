"""Tasks about finding out: search instead of reading all, few steps, and a small context."""

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...evals import calls_at_most, calls_in_order, never_calls, stays_within
from ...messages import ToolCall
from ...ports import Request
from ...tools import tool
from ..checks import answers_with, changes_nothing, shows_at_most
from ..shapes import Shape, call, delegate, find, line_with, paths, read, says, search, todos
from ..task import Task

Turn = Generator[ToolCall | Sequence[ToolCall], list[str], str]

# ---- find-a-fact

CUSTOMERS = ("Green Door Books", "Lantern Hall", "Old Mill Press", "Red Barn Tools", "Salt House")


def _invoice(number: int) -> str:
    customer = "Blue Heron Press" if number == 147 else CUSTOMERS[number % 5]
    amount = 318 if number == 147 else 40 + number * 7 % 500
    return f"Invoice {number:04}\nCustomer: {customer}\nAmount: {amount} euros\nPaid: {'yes' if number % 3 else 'no'}\n"


INVOICES = {f"/invoices/{number:04}.txt": _invoice(number) for number in range(1, 201)}


def _searches(request: Request) -> Turn:
    (found,) = yield search("Blue Heron Press", path="/invoices")
    (page,) = yield read(paths(found)[0])
    number = line_with("Invoice", page).removeprefix("Invoice ")
    return f"Invoice {number}: {line_with('Amount', page)}."


def _opens_one_after_another(request: Request) -> Turn:
    (listing,) = yield find("*.txt", path="/invoices")
    for path in paths(listing)[:20]:
        (page,) = yield read(path)
        if "Blue Heron Press" in page:
            return f"It is {path}."
    return "I have looked at 20 of 200 invoices and have not found it: 0147, 318 euros is a guess."


def _delegates_a_search(request: Request) -> Turn:
    (answer,) = yield delegate("Find the invoice for Blue Heron Press in /invoices: its number and its amount.")
    return answer


def _searches_again_and_again(request: Request) -> Turn:
    found = ""
    for _ in range(6):
        (found,) = yield search("Blue Heron Press", path="/invoices", output_mode="content")
    return f"{found} Amount: 318 euros"


FIND_A_FACT = Task(
    name="find-a-fact",
    shows="searches 200 files instead of opening them, and does not delegate a search",
    prompt="One of the invoices in /invoices is for Blue Heron Press. What is its number, and how many euros is it?",
    files=INVOICES,
    checks=(
        answers_with("147", "318"),
        changes_nothing,
        calls_in_order("grep"),
        calls_at_most(5),
        never_calls("task"),
    ),
    shapes=(
        Shape("searches, and reads what it has found", _searches),
        Shape("opens one file after another", _opens_one_after_another, ("calls_in_order", "calls_at_most")),
        Shape(
            "answers without looking", says("It is invoice 0112, over 240 euros."), ("answers_with", "calls_in_order")
        ),
        Shape(
            "delegates a single search",
            _delegates_a_search,
            ("calls_in_order", "never_calls"),
            subagent=_searches,
        ),
        Shape("makes the same search again and again", _searches_again_and_again, ("calls_at_most", "does_not_loop")),
    ),
)

# ---- together

OFFERS = {
    f"/offers/{name}.txt": f"Offer by {name}\n\nbolt M6: {bolt} cents\nnut M6: {nut} cents\n"
    for name, bolt, nut in (("adler", 31, 9), ("brand", 28, 12), ("cohn", 33, 8), ("diehl", 27, 14), ("ernst", 30, 11))
}


def _reads_together(request: Request) -> Turn:
    pages = yield [read(path) for path in OFFERS]
    prices = {line_with("Offer by", page)[9:]: int(line_with("bolt", page).split()[2]) for page in pages}
    best = min(prices, key=lambda name: prices[name])
    return f"{best.title()} has the cheapest bolt: {prices[best]} cents."


def _reads_one_a_reply(request: Request) -> Turn:
    pages: list[str] = []
    for path in OFFERS:
        pages += yield read(path)
    return f"Diehl has the cheapest bolt: {line_with('bolt', pages[3])}."


def _plans_first(request: Request) -> Turn:
    steps = [f"Read {path}" for path in OFFERS]
    yield todos(*steps)
    pages = yield [read(path) for path in OFFERS]
    yield todos(*steps, done=5)
    yield todos()
    return f"Diehl has the cheapest bolt: {line_with('bolt', pages[3])}."


TOGETHER = Task(
    name="read-together",
    shows="puts reads that do not depend on each other into one reply",
    prompt="Who has the cheapest bolt, and at how many cents: /offers/adler.txt, /offers/brand.txt, /offers/cohn.txt, "
    "/offers/diehl.txt or /offers/ernst.txt?",
    files=OFFERS,
    checks=(answers_with("Diehl", "27"), changes_nothing, stays_within(steps=4), calls_at_most(7)),
    shapes=(
        Shape("reads all five in one reply", _reads_together),
        Shape("reads one file a reply", _reads_one_a_reply, ("stays_within",)),
        Shape("writes a plan of five reads first", _plans_first, ("stays_within", "calls_at_most")),
    ),
)

# ---- a large result


def _log(lines: int) -> str:
    """Return a log whose only line with E77 is the one of 03:17:20."""
    times = (f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}" for second in range(0, lines * 10, 10))
    return "\n".join(
        f"{time} node-{place % 7} {'ERROR E77 disk is full' if time == '03:17:20' else 'INFO request was served'}"
        for place, time in enumerate(times)
    )


def _exporting(root: Path) -> Mapping[str, Any]:
    @tool
    async def export_log() -> str:
        """Return the whole log of last night."""
        return _log(6_000)

    return {"tools": [export_log]}


def _searches_the_file(request: Request) -> Turn:
    (stub,) = yield call("export_log")
    path = next(word.strip("`'\",.;:()") for word in stub.split() if "/large_tool_results/" in word)
    (found,) = yield search("E77", path=path, output_mode="content")
    return f"The first and only E77: {line_with('E77', found)}"


def _exports_again(request: Request) -> Turn:
    for _ in range(4):
        yield call("export_log")
    return "The log is too large to be shown, so I cannot say."


def _pages_through(request: Request) -> Turn:
    (stub,) = yield call("export_log")
    path = next(word.strip("`'\",.;:()") for word in stub.split() if "/large_tool_results/" in word)
    for offset in range(0, 6_000, 1_500):
        (page,) = yield read(path, offset=offset, limit=1_500)
        if found := line_with("E77", page):
            return f"The first E77 was here: {found}"
    return "There is no E77."


def _guesses(request: Request) -> Turn:
    yield call("export_log")
    return "There was no error E77 in the lines that I saw, so there was none."


LARGE_RESULT = Task(
    name="search-a-large-result",
    shows="searches a result that was put into a file, and keeps it out of the context",
    prompt="At what time did error E77 first occur last night? Use export_log, and answer with hours, minutes and "
    "seconds.",
    parts=_exporting,
    checks=(answers_with("03:17:20"), calls_at_most(1, "export_log"), calls_at_most(5), shows_at_most(12_000)),
    shapes=(
        Shape("searches the file", _searches_the_file),
        Shape("asks for it again and again", _exports_again, ("answers_with", "calls_at_most", "does_not_loop")),
        Shape("reads the whole file page by page", _pages_through, ("shows_at_most",)),
        Shape("answers from the lines that it was shown", _guesses, ("answers_with",)),
    ),
)

# ---- a question that needs no tool


def _looks_first(request: Request) -> Turn:
    yield [find("*"), search("404")]
    return "404 means that the server has not found what was asked for."


def _plans_an_answer(request: Request) -> Turn:
    yield todos("Recall what 404 means", "Answer")
    return "404: not found."


PLAIN_QUESTION = Task(
    name="answer-a-plain-question",
    shows="answers what it knows without a tool, a plan or a subagent",
    prompt="What does the HTTP status 404 mean? Answer in one sentence; it has nothing to do with the files here.",
    files={"/notes.txt": "Buy bread.\n"},
    checks=(answers_with("found"), calls_at_most(0)),
    shapes=(
        Shape("answers", says("The server has not found what was asked for.")),
        Shape("searches the files first", _looks_first, ("calls_at_most",)),
        Shape("writes a todo list for one sentence", _plans_an_answer, ("calls_at_most", "finishes_its_todos")),
    ),
)

TASKS = (FIND_A_FACT, TOGETHER, LARGE_RESULT, PLAIN_QUESTION)
