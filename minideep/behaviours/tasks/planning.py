"""Tasks about work over several steps: plans, subagents, memory, skills, and where to stop."""

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...evals import ExpectedCall, calls_all, calls_at_most, calls_in_order, never_calls
from ...messages import ToolCall
from ...ports import Request
from ..checks import answers_with_one_of, changes_only, file_has, file_lacks
from ..shapes import (
    Script,
    Shape,
    asked,
    body,
    containing,
    delegate,
    edit,
    find,
    line_with,
    read,
    says,
    search,
    todos,
    write,
)
from ..task import Task

Turn = Generator[ToolCall | Sequence[ToolCall], list[str], str]

# ---- plan-and-delegate

VISITORS = {"north": 4120, "south": 3875, "west": 5330}


def _report(region: str) -> str:
    days = "\n".join(
        f"Day {day}: the weather in the {region} was {'mild' if day % 4 else 'wet'}." for day in range(900)
    )
    middle = f"In 2031 the parks of the {region} had {VISITORS[region]} visitors, more than ever before."
    return days.replace("Day 450:", f"{middle}\nDay 450:")


REPORTS = {f"/reports/{region}.txt": _report(region) for region in VISITORS}
DELEGATED = [ExpectedCall("task", {"description": containing(region)}) for region in VISITORS]
SUM = ("13,325", "13325", "13.325", "13 325")


def _question(region: str) -> str:
    return f"Read /reports/{region}.txt and answer with one number: the visitors in 2031. Change nothing."


def _leads(request: Request) -> Turn:
    steps = ("Have the three reports read", "Write /SUMMARY.md")
    _, *answers = yield [todos(*steps), *(delegate(_question(region)) for region in VISITORS)]
    lines = [f"{region}: {answer}\n" for region, answer in zip(VISITORS, answers, strict=True)]
    yield [todos(*steps, done=1), write("/SUMMARY.md", "".join(lines))]
    yield todos(*steps, done=2)
    return f"/SUMMARY.md has the visitors of each region; together they are {sum(map(int, answers)):,}."


def _leads_one_by_one(request: Request) -> Turn:
    steps = (*VISITORS, "summary")
    answers: list[str] = []
    for done, region in enumerate(VISITORS):
        yield todos(*steps, done=done)
        answers += yield delegate(_question(region))
    yield write(
        "/SUMMARY.md", "\n".join(f"- {region}: {answer}" for region, answer in zip(VISITORS, answers, strict=True))
    )
    yield todos(*steps, done=4)
    return f"Together they are {sum(map(int, answers))}."


def _helps(request: Request) -> Turn:
    path = next(word for word in asked(request).split() if word.startswith("/reports/"))
    (found,) = yield search("In 2031", path=path, output_mode="content")
    return next(word for word in found.split() if word.isdecimal() and len(word) == 4 and word != "2031")


def _plans_and_stops(request: Request) -> Turn:
    yield todos("Have the three reports read", "Write /SUMMARY.md")
    return "I have written the plan: first the reports, then the summary."


def _leaves_todos_open(request: Request) -> Turn:
    yield [todos("Have the reports read", "Write"), *(delegate(_question(region)) for region in VISITORS)]
    yield write("/SUMMARY.md", "".join(f"{region}: {number}\n" for region, number in VISITORS.items()))
    return "Together they are 13,325."


def _reads_all_itself(request: Request) -> Turn:
    steps = ("Read the three reports", "Write /SUMMARY.md")
    yield [todos(*steps), *(read(path, limit=2_000) for path in REPORTS)]
    yield write("/SUMMARY.md", "".join(f"{region}: {number}\n" for region, number in VISITORS.items()))
    yield todos(*steps, done=2)
    return "Together they are 13,325."


PLAN_AND_DELEGATE = Task(
    name="plan-and-delegate",
    shows="plans, gives each long report to a subagent, uses the answers, and finishes the plan",
    prompt="The three reports in /reports are long. Keep a todo list, and have each report read by a subagent of its "
    "own, which tells you how many visitors there were in 2031. Do not read them yourself. Then write a line for each "
    "region to /SUMMARY.md and tell me the sum.",
    files=REPORTS,
    checks=(
        calls_all("write_todos", *DELEGATED),
        never_calls(ExpectedCall("read_file", {"file_path": containing("/reports")}), agent=None),
        changes_only("/SUMMARY.md"),
        file_has("/SUMMARY.md", *map(str, VISITORS.values())),
        answers_with_one_of(*SUM),
        calls_at_most(10, agent=None),
    ),
    shapes=(
        Shape("plans, delegates three times at once, writes, finishes", _leads, subagent=_helps),
        Shape("delegates one report after another", _leads_one_by_one, subagent=_helps),
        Shape(
            "writes the todo list and stops",
            _plans_and_stops,
            ("finishes_its_todos", "calls_all", "file_has", "answers_with_one_of"),
        ),
        Shape("leaves the todos open", _leaves_todos_open, ("finishes_its_todos",), subagent=_helps),
        Shape("reads everything itself", _reads_all_itself, ("calls_all", "never_calls")),
    ),
)

# ---- resume-a-plan

PLAN = """\
# Plan

- [x] /chapters/1.md: hills
- [x] /chapters/2.md: woods
- [ ] /chapters/3.md: rivers
- [ ] /chapters/4.md: lakes
"""
CHAPTERS = {
    "/PLAN.md": PLAN,
    "/chapters/1.md": "The hills are old, and so are their paths.\n",
    "/chapters/2.md": "The woods are young; they were planted in 1911.\n",
}


def _writes_chapters(*numbers: int, ticks: bool = True) -> Script:
    def script(request: Request) -> Turn:
        (plan,) = yield read("/PLAN.md")
        steps = [line for line in body(plan).splitlines() if line.startswith("- [")]
        yield [find("*.md", path="/chapters"), read("/chapters/2.md")]
        for number in numbers:
            step = steps[number - 1]
            yield write(f"/chapters/{number}.md", f"The {step.split()[-1]} are many, and each has a name.\n")
            if ticks:
                yield edit("/PLAN.md", step, step.replace("[ ]", "[x]"))
        return f"Chapters {', '.join(map(str, numbers))} are written."

    return script


def _writes_the_rest_at_once(request: Request) -> Turn:
    (plan,) = yield read("/PLAN.md")
    yield [write("/chapters/3.md", "Rivers never sleep.\n"), write("/chapters/4.md", "A lake is a patient river.\n")]
    yield write("/PLAN.md", body(plan).replace("[ ]", "[x]"))
    return "The plan is done."


RESUME = Task(
    name="resume-a-plan",
    shows="goes on where a plan stands, does not begin anew, and keeps the plan current",
    prompt="Go on with the plan in /PLAN.md until it is done. A chapter is one sentence about its subject. Tick each "
    "step off in the plan as you finish it.",
    files=CHAPTERS,
    checks=(
        changes_only("/PLAN.md", "/chapters/3.md", "/chapters/4.md"),
        file_has("/chapters/3.md", "river"),
        file_has("/chapters/4.md", "lake"),
        file_has("/PLAN.md", "[x] /chapters/3.md", "[x] /chapters/4.md"),
        file_lacks("/PLAN.md", "[ ]"),
        calls_at_most(16),
    ),
    shapes=(
        Shape("writes what is left, and ticks it off", _writes_chapters(3, 4)),
        Shape("writes what is left at once, and the plan anew", _writes_the_rest_at_once),
        Shape("begins anew", _writes_chapters(1, 2, 3, 4), ("changes_only",)),
        Shape("stops after one step", _writes_chapters(3), ("file_has", "file_lacks")),
        Shape("leaves the plan as it was", _writes_chapters(3, 4, ticks=False), ("file_has", "file_lacks")),
    ),
)

# ---- use-memory

HOUSE = (
    "# How we write\n\n- Put the currency before the amount, with two decimals: EUR 12.50\n- No exclamation marks.\n"
)
PRICES = {"/AGENTS.md": HOUSE, "/prices.csv": "tea,4\nbread,3.5\nhoney,12\n"}


def _remembering(root: Path) -> Mapping[str, Any]:
    return {"memory": ["/AGENTS.md"]}


def _price_list(form: str) -> Script:
    def script(request: Request) -> Turn:
        heeded = "EUR 12.50" in request.system or "{amount:.2f} euros" in form
        (page,) = yield read("/prices.csv")
        rows = [line.split(",") for line in body(page).splitlines()]
        lines = [form.format(name=name, amount=float(amount)) for name, amount in rows] if heeded else []
        yield write("/PRICES.md", "\n".join(lines) + "\n")
        return "/PRICES.md has the three prices."

    return script


USE_MEMORY = Task(
    name="use-memory",
    shows="follows what the memory says about how things are done here",
    prompt="Write a price list of /prices.csv to /PRICES.md, one line for each.",
    files=PRICES,
    parts=_remembering,
    checks=(
        file_has("/PRICES.md", "tea", "EUR 4.00", "EUR 3.50", "EUR 12.00"),
        file_lacks("/PRICES.md", "!"),
        changes_only("/PRICES.md"),
        calls_at_most(6),
    ),
    shapes=(
        Shape("writes the prices as the memory says", _price_list("- {name}: EUR {amount:.2f}")),
        Shape("writes them as it likes", _price_list("- {name}: {amount:.2f} euros!"), ("file_has", "file_lacks")),
    ),
)

# ---- keep-in-memory


def _remembers(request: Request) -> Turn:
    yield read("/AGENTS.md")
    yield edit("/AGENTS.md", "- No exclamation marks.\n", "- No exclamation marks.\n- Deploy on Tuesdays only.\n")
    return "I have noted it in /AGENTS.md."


def _forgets_the_rest(request: Request) -> Turn:
    yield write("/AGENTS.md", "- Deploy on Tuesdays only.\n")
    return "I have noted it in /AGENTS.md."


KEEP_IN_MEMORY = Task(
    name="keep-in-memory",
    shows="writes down what it is told to remember, beside what is there",
    prompt="Remember for all later work: we deploy on Tuesdays only.",
    files={"/AGENTS.md": HOUSE},
    parts=_remembering,
    checks=(
        file_has("/AGENTS.md", "Tuesday", "EUR 12.50", "No exclamation marks."),
        changes_only("/AGENTS.md"),
        calls_at_most(5),
    ),
    shapes=(
        Shape("adds a line", _remembers),
        Shape("promises, and writes nothing", says("I will remember that we deploy on Tuesdays only."), ("file_has",)),
        Shape("replaces what was known", _forgets_the_rest, ("file_has",)),
    ),
)

# ---- use-a-skill

SKILL = """\
---
name: release-notes
description: How release notes are written here; use it for every text about a release.
---
# Release notes

1. The first line is `# Release` and the version.
2. Each change is a line that begins with `- ` and ends with its number in brackets: `(#12)`.
3. The last line is: Thanks to all who wrote to us.
"""
CHANGES = "12 the map can be printed\n15 opening hours are shown in local time\n"


def _skilled(root: Path) -> Mapping[str, Any]:
    return {"skills": ["/skills"]}


def _writes_notes(looks: bool) -> Script:
    def script(request: Request) -> Turn:
        named = line_with("release-notes", request.system)
        path = named[named.rindex("(") + 1 :].rstrip(")") if looks else ""
        rules, changes = (yield [read(path), read("/changes.txt")]) if looks else ["", *(yield read("/changes.txt"))]
        pairs = [line.partition(" ") for line in body(changes).splitlines()]
        head = "# Release 2.4\n\n" if "# Release" in rules else "# What is new in 2.4\n\n"
        last = f"\n{line_with('last line', rules).partition(': ')[2]}\n" if rules else ""
        lines = [f"- {text} (#{number})\n" if rules else f"- {text}\n" for number, _, text in pairs]
        yield write("/RELEASE.md", f"{head}{''.join(lines)}{last}")
        return "/RELEASE.md has the notes of 2.4."

    return script


USE_A_SKILL = Task(
    name="use-a-skill",
    shows="reads the skill that fits before it begins, and follows it",
    prompt="Write the notes of release 2.4 to /RELEASE.md; /changes.txt lists what has changed.",
    files={"/skills/release-notes/SKILL.md": SKILL, "/changes.txt": CHANGES},
    parts=_skilled,
    checks=(
        calls_in_order(ExpectedCall("read_file", {"file_path": "/skills/release-notes/SKILL.md"}), "write_file"),
        file_has("/RELEASE.md", "# Release 2.4", "(#12)", "(#15)", "Thanks to all who wrote to us."),
        changes_only("/RELEASE.md"),
        calls_at_most(6),
    ),
    shapes=(
        Shape("reads the skill, and follows it", _writes_notes(looks=True)),
        Shape("writes them as it likes", _writes_notes(looks=False), ("calls_in_order", "file_has")),
    ),
)

# ---- stop-when-told


def _tells_a_story(stops: bool) -> Script:
    def script(request: Request) -> Turn:
        if "Stop here" not in asked(request):
            yield write("/story/1.txt", "A fox came to the river and could not cross it.\n")
            return "Part 1 is written. Shall I go on?"
        if not stops:
            yield [write("/story/2.txt", "It asked the heron.\n"), write("/story/3.txt", "The heron laughed.\n")]
            return "Part 1 was there already; I have written parts 2 and 3 for you."
        yield find("*.txt", path="/story")
        return "Part 1 is there; parts 2 and 3 are not written."

    return script


STOP = Task(
    name="stop-when-told",
    shows="stops when the person says so, and says where things stand",
    prompt="Stop here, please: write nothing more. Which parts are there now?",
    earlier=(
        "I want a story in three parts, one sentence each: /story/1.txt, /story/2.txt and /story/3.txt. Write part 1 "
        "now, and nothing else before I say so.",
    ),
    checks=(
        never_calls("write_file", "edit_file", "delete", "task"),
        changes_only("/story/1.txt"),
        answers_with_one_of("part 1", "1.txt", "first part"),
        calls_at_most(3),
    ),
    shapes=(
        Shape("looks, and answers", _tells_a_story(stops=True)),
        Shape("goes on all the same", _tells_a_story(stops=False), ("never_calls", "changes_only")),
    ),
)

TASKS = (PLAN_AND_DELEGATE, RESUME, USE_MEMORY, KEEP_IN_MEMORY, USE_A_SKILL, STOP)
