"""A stand-in for a model that needs no network and no weights: rules over the tool results that it receives.

It plans todos, lists the files, reads the most telling ones, searches for the words of the goal, delegates the rest of
the reading to a subagent, and writes an extract of what it found. Asked for a plan or a decision as JSON, it returns
one that rules can make. It says what it is. Everything is a function of the request, so a killed turn resumes where it
was.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from ..events import TextDelta
from ..messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from ..plain_json import to_json
from ..ports import Emit, Reply, Request
from .scripted import as_reply

WHAT_I_AM = "I am minideep's offline stand-in, not a language model: I quote, I do not understand."
TELLING = ("readme", "overview", "design", "index", "main", "core", "app", "pyproject", "package", "makefile")
PROSE = {".md", ".txt", ".rst", ""}
BINARY = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".zip", ".gz", ".so", ".pyc", ".db", ".ico", ".lock"}
STOP_WORDS = frozenset(
    """about after also and are from have into its make must not read should that the their them then there this those
    through tour use what when where which will with write you your file files folder project""".split()  # noqa: SIM905
)
OWN_READS, DELEGATED, PAGE = 4, 12, 150


class Turn(Struct):
    """A turn, as far as a request shows it."""

    goal: str
    earlier: list[str]
    """The goals of earlier turns of the thread."""
    answers: list[tuple[ToolCall, ToolMessage]]
    """The calls of the turn with their results."""
    written: set[str]
    """The files that earlier turns of the thread have written."""

    def of(self, *names: str) -> list[tuple[ToolCall, ToolMessage]]:
        return [(call, result) for call, result in self.answers if call.name in names]


class OfflineModel:
    """Answers by rules instead of a language model; `offline:` as a model string."""

    name = "offline"
    states_cost = True  # Each reply costs nothing.

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request* at once, without any I/O."""
        reply = as_reply(policy(request))
        if emit and reply.message.text:
            for line in reply.message.text.splitlines(keepends=True):
                emit(TextDelta(line))
        return reply


def policy(request: Request) -> str | list[str | ToolCall]:
    """Return the next step.

    With a schema it is that of a planner or a judge, with a subagent to delegate to that of a leader, else that of an
    assistant.
    """
    if request.schema is not None:
        return structured(request.schema["properties"], request.messages[-1].text)
    turn, tools = read_turn(request.messages), {tool.name for tool in request.tools}
    if not {"glob", "read_file"} <= tools:
        return f"{WHAT_I_AM} I have no files to read here. You said: {turn.goal}"
    return lead(turn) if {"task", "write_todos", "write_file", "grep"} <= tools else assist(turn)


def read_turn(messages: Sequence[Message]) -> Turn:
    goals = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    calls: dict[str, ToolCall] = {}
    answers: list[tuple[ToolCall, ToolMessage]] = []
    for message in messages[goals[-1] :]:
        if isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.calls}
        elif isinstance(message, ToolMessage):
            answers.append((calls[message.call_id], message))
    earlier = (
        call for message in messages[: goals[-1]] if isinstance(message, AssistantMessage) for call in message.calls
    )
    written = {str(call.args.get("file_path")) for call in earlier if call.name == "write_file"}
    goal = messages[goals[-1]].text.rpartition("## Task\n")[2]
    return Turn(goal, [messages[index].text for index in goals[:-1]], answers, written)


def structured(fields: dict[str, Any], asked: str) -> str:
    """Return a plan, or a decision about one, as JSON. For any other schema it can only say what it is."""
    said = plan(fields, asked) if "subtasks" in fields else decision(asked) if "decision" in fields else WHAT_I_AM
    return said if isinstance(said, str) else to_json(said).decode()


def plan(fields: dict[str, Any], asked: str) -> dict[str, Any]:
    """Return a plan that gives the whole goal to the research role, since rules cannot split it."""
    roles: list[str] = fields["subtasks"]["items"]["properties"]["role"]["enum"]
    goal = section("Goal", asked)
    subtask: dict[str, Any] = {
        "role": next((role for role in roles if "research" in role), roles[0]),
        "instruction": "\n".join(filter(None, (goal, section("The user said since", asked)))),
        "expected_artifact": "findings.md",
        "read_files": [],
    }
    return {"subtasks": [subtask], "reasoning": WHAT_I_AM}


def decision(asked: str) -> dict[str, str]:
    """Return `end` if all planned artifacts exist, else `escalate` with a question."""
    wrong = section("What went wrong", asked)
    if wrong != "nothing":
        return {"decision": "escalate", "question": f"Not all that was planned came about: {wrong}. What shall I do?"}
    found = re.findall(r'^\{"name":"([^"]+)".*"status":"done"', section("Artifacts", asked), re.MULTILINE)
    named = "\n\n".join(f"{{{{{name}}}}}" for name in dict.fromkeys(found))
    return {"decision": "end", "final_answer": f"{named}\n\n{WHAT_I_AM}"}


def section(title: str, asked: str) -> str:
    """Return the text below the heading *title*."""
    found = re.search(rf"^# {title}\n(.*?)(?=\n\n# |\Z)", asked, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def lead(turn: Turn) -> str | list[str | ToolCall]:
    """Plan, list files, read and delegate, write, and report."""
    if not (listing := turn.of("glob")):
        begun = ToolCall("write_todos", {"todos": []}) if turn.earlier else todos("the report", 0)
        return [begun, ToolCall("glob", {"pattern": "*"})]
    found, wanted = paths_in(listing[0][1]), wanted_by(turn.goal)
    paths = [path for path in found if path != wanted]
    if found and not turn.of("read_file", "task"):
        return [todos(wanted, 1), *look(turn.goal, paths, wanted if wanted in found else None)]
    target = target_of(turn, found)
    if not (written := turn.of("write_file")):
        return [todos(target, 2), ToolCall("write_file", {"file_path": target, "content": report(turn, paths)})]
    if not all(call.args["todos"][-1]["status"] == "completed" for call, _ in turn.of("write_todos")[-1:]):
        return [todos(target, 3)]
    return summary(turn, target, paths, written[-1][1])


def summary(turn: Turn, target: str, paths: list[str], result: ToolMessage) -> str:
    """Return the final answer for the user."""
    if result.is_error:
        return f"I could not write {target}: {result.text}\n\n{WHAT_I_AM}"
    read = len([call for call, answer in turn.of("read_file") if not answer.is_error])
    return (
        f"{target} is written: an extract of {len(paths)} files found, {read} of them read by me and "
        f"{len(delegated(turn.goal, paths))} by a subagent.\n\n{WHAT_I_AM}"
    )


def assist(turn: Turn) -> str | list[str | ToolCall]:
    """Read the files that the task names, and answer with the gist of each."""
    wanted = re.findall(r"^- (/.+)$", turn.goal, re.MULTILINE)
    if not wanted and not turn.of("glob"):
        return [ToolCall("glob", {"pattern": "*"})]
    if not wanted:
        wanted = ranked(turn.goal, paths_in(turn.of("glob")[0][1]))[:DELEGATED]
    if wanted and not turn.of("read_file"):
        return [ToolCall("read_file", {"file_path": path, "limit": PAGE}) for path in wanted]
    notes = [f"- {call.args['file_path']}: {gist(call, result)}" for call, result in turn.of("read_file")]
    return "\n".join(notes) or "There was nothing to read."


def look(goal: str, paths: list[str], present: str | None) -> Iterable[ToolCall]:
    """Read a few files, and the target if it exists, search for words of the goal, and delegate the other files."""
    for path in [*ranked(goal, paths)[:OWN_READS], *filter(None, [present])]:
        yield ToolCall("read_file", {"file_path": path, "limit": PAGE})
    for word in words_of(goal)[:2]:
        yield ToolCall("grep", {"pattern": word, "output_mode": "count", "max_count": 200})
    if rest := delegated(goal, paths):
        listed = "\n".join(f"- {path}" for path in rest)
        task = f"For the goal {one_line(goal, 200)!r} say in one line each what these files are about:\n{listed}"
        yield ToolCall("task", {"description": task, "subagent_type": "general-purpose"})


def delegated(goal: str, paths: list[str]) -> list[str]:
    return ranked(goal, paths)[OWN_READS : OWN_READS + DELEGATED]


def ranked(goal: str, paths: list[str]) -> list[str]:
    """Sort files: those that the goal names, then those that usually explain a folder, then the rest."""
    words = words_of(goal)

    def rank(path: str) -> tuple[int, int, int, str]:
        stem = PurePosixPath(path).stem.lower()
        named = sum(word in path.lower() for word in words)
        telling = next((place for place, name in enumerate(TELLING) if stem.startswith(name)), len(TELLING))
        return (-named, telling, path.count("/"), path)

    return sorted((path for path in paths if PurePosixPath(path).suffix.lower() not in BINARY), key=rank)


def report(turn: Turn, paths: list[str]) -> str:
    """Return the findings as Markdown; each line comes from a tool's result."""
    words = words_of(turn.goal)
    parts = [f"# {one_line(turn.goal, 120)}", f"> {WHAT_I_AM}", "## What is here", inventory(paths)]
    for call, result in turn.of("read_file"):
        if WHAT_I_AM in result.text:
            continue  # A report of an earlier thread must not be quoted as a source.
        parts += [f"## {call.args['file_path']}", *excerpt(call, result, words)]
    if found := [(call, result) for call, result in turn.of("grep") if not result.is_error]:
        parts += ["## Where the words of the goal occur"]
        parts += [f"**{call.args['pattern']}**\n\n{as_list(result.text.splitlines()[:8])}" for call, result in found]
    for _, result in turn.of("task"):
        parts += ["## What the subagent read", result.text]
    if turn.earlier:
        parts += ["## Earlier in this thread", as_list(one_line(goal, 200) for goal in turn.earlier)]
    return "\n\n".join(parts) + "\n"


def inventory(paths: list[str]) -> str:
    folders = Counter(f"{PurePosixPath(path).parent}".rstrip("/") + "/" for path in paths)
    kinds = Counter(PurePosixPath(path).suffix or PurePosixPath(path).name for path in paths)
    lines = [f"`{folder}`: {count} files" for folder, count in sorted(folders.items())[:15]]
    common = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(6))
    return f"{len(paths)} files: {common or 'none'}\n\n{as_list(lines)}"


def excerpt(call: ToolCall, result: ToolMessage, words: list[str]) -> list[str]:
    """Return the gist of a file, its outline, and the sentences that share most words with the goal."""
    text, about = body(result), gist(call, result)
    outline = re.findall(r"^(?:#{1,3} .+|(?:async )?def [a-z]\w*|class \w+)", text, re.MULTILINE)[:10]
    scored = sorted(sentences(call, result), key=lambda sentence: -shared(sentence, words))
    telling = [one_line(line, 240) for line in scored[:4] if shared(line, words) and one_line(line, 240) != about]
    return [part for part in (about, as_list(f"`{line}`" for line in outline), as_list(telling)) if part]


def shared(sentence: str, words: list[str]) -> int:
    return sum(word in sentence.lower() for word in words)


def gist(call: ToolCall, result: ToolMessage) -> str:
    """Return one line on what a file is about: its first sentence of prose."""
    if result.is_error:
        return f"not read: {one_line(result.text, 160)}"
    spoken = sentences(call, result)
    return one_line(spoken[0], 240) if spoken else f"says nothing of itself in {len(body(result).splitlines())} lines"


def sentences(call: ToolCall, result: ToolMessage) -> list[str]:
    """Return the sentences of a text, or of the docstrings and comments of code."""
    suffix, text = PurePosixPath(str(call.args["file_path"])).suffix, body(result)
    if suffix == ".py":
        text = "\n\n".join(
            re.findall(r'"""(.+?)"""', text, re.DOTALL) or re.findall(r"^\s*#+ (.+)", text, re.MULTILINE)
        )
    elif suffix not in PROSE:
        text = "\n\n".join(re.findall(r"^\s*(?:#+|//+|--|\*|;+|description\W+) *(\w.+)", text, re.MULTILINE))
    plain = re.sub(r"^[\s#>*|-]+|```\w*", "", text, flags=re.MULTILINE)
    found = (" ".join(part.split()) for part in re.split(r"(?<=[.!?])\s+|\n\s*\n|\n(?=[-*#])", plain))
    return [part for part in found if len(part.split()) >= 4]


def body(result: ToolMessage) -> str:
    """Return the text of a file without the header that `read_file` adds."""
    first, _, rest = result.text.partition("\n")
    return rest if first.startswith("@@ ") else result.text


def paths_in(result: ToolMessage) -> list[str]:
    return [] if result.is_error else [line for line in result.text.splitlines() if line.startswith("/")]


def wanted_by(goal: str) -> str:
    """Return the file that the goal asks for, or `/REPORT.md`."""
    asked = re.findall(r"\b(?:to|into|in|as|called|named|write|create) [`'\"]?(/?[\w./-]*\w\.(?:md|txt))\b", goal)
    return str(PurePosixPath("/", asked[-1] if asked and ".." not in asked[-1] else "REPORT.md"))


def target_of(turn: Turn, found: list[str]) -> str:
    """Return the file to write: the wanted one, or a new name beside it if that would overwrite somebody's work."""
    mine = turn.written | {str(call.args["file_path"]) for call, text in turn.of("read_file") if WHAT_I_AM in text.text}
    wanted, taken = PurePosixPath(wanted_by(turn.goal)), set(found) - mine
    names = (wanted, *(wanted.with_stem(f"{wanted.stem}-{count}") for count in range(2, 1000)))
    return next(str(name) for name in names if str(name) not in taken)


def words_of(goal: str) -> list[str]:
    """Return the telling words of a goal, in order, each once."""
    spoken = re.sub(r"\S+\.(?:md|txt|rst)\b", " ", goal.lower())
    return list(dict.fromkeys(word for word in re.findall(r"\w{4,}", spoken) if word not in STOP_WORDS))


def todos(target: str, done: int) -> ToolCall:
    """Return the call that shows the first *done* steps as completed and the next one as in progress."""
    steps = ("Find out what files there are", "Read the telling ones and delegate the rest", f"Write {target}")
    status = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
    return ToolCall(
        "write_todos",
        {"todos": [{"content": step, "status": now} for step, now in zip(steps, status, strict=False)]},
    )


def as_list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def one_line(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
