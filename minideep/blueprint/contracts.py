"""The messages between the parts of a blueprint, as types, and the parsers for a model's reply.

A reply that breaks a contract is a `ContractViolation`. Its text is sent back to the author of the reply.
"""

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, Generic, Literal, TypeVar, cast, get_args

import msgspec
from msgspec import structs

from ..datatypes import DataType
from ..documented import Struct
from ..errors import ArtifactViolation, ContractViolation, FileViolation, PlanViolation, ReflectionViolation
from ..messages import clean
from ..structured import value_in

MAX_SUBTASKS = 100
MAX_PLAN = 64 * 1024
"""Bytes of a plan. The state holds it, and every request to planner or reflection repeats it."""
MAX_DECISION = MAX_QUESTION = 32 * 1024
"""Bytes of a decision before artifacts are filled in, and characters of a question to the user."""
MAX_REASONING = 2_000
"""Characters of a plan's reasoning that are kept."""
MAX_NAME = 100
"""Bytes of an artifact's name. With role and step in front it must still fit the 255 bytes that a disk allows."""

Status = Literal["active", "done"]
Verdict = Literal["continue", "replan", "end", "escalate"]

T = TypeVar("T")
_NAME = re.compile(r"\w[\w .,()+@=-]{0,99}")
_SPELLINGS = {"subagent_role": "role", "expected_artifact_name": "expected_artifact"}
_WHOLE_FENCE = re.compile(r"```\w*\n(.*)```", re.DOTALL)
_PLACEHOLDER = re.compile(r"\\\{\{|\{\{\s*([^{}\n]{1,120}?)\s*\}\}")
"""Braces that stand for themselves, or a placeholder with a name."""
_BARE_BRACE = re.compile(r"(?<!\\)((?:\\\\)*)\\\{")
"""A backslash before a brace that JSON needs twice, and that models write once."""
_SUFFIX = re.compile(r"\.\w{1,10}\Z")
MAX_SLUG = 60
"""Letters of a name that is made of another one."""


class Subtask(Struct, frozen=True, omit_defaults=True):
    """One piece of a plan."""

    role: str
    instruction: str
    expected_artifact: str
    """The name of the file that it delivers."""
    read_files: tuple[str, ...] = ()
    """The names of the files that it reads."""
    after: tuple[int, ...] = ()
    """The subtasks that it waits for, by their index in the plan. Derived from *read_files*."""


class Plan(Struct, frozen=True, omit_defaults=True):
    """A planner's reply: subtasks in the order in which their results are recorded."""

    subtasks: tuple[Subtask, ...] = ()
    reasoning: str = ""


class Artifact(Struct, frozen=True):
    """A subagent's reply."""

    artifact_name: str
    content: str
    status: Status = "done"


class Decision(Struct, frozen=True):
    """A reflection's reply."""

    decision: Verdict
    reason: str = ""
    """For `replan`: what is wrong with the plan."""
    final_answer: str = ""
    """For `end`: the answer. `{{name}}` in it stands for the content of that artifact."""
    question: str = ""
    """For `escalate`: what only the user can say."""


# Every property is required, and null where it is missing: providers refuse optional ones (see `Request.schema`).
DECISION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": list(get_args(Verdict))},
        "reason": {"type": ["string", "null"]},
        "final_answer": {"type": ["string", "null"]},
        "question": {"type": ["string", "null"]},
    },
    "required": ["decision", "reason", "final_answer", "question"],
    "additionalProperties": False,
}


def plan_schema(roles: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of a plan for these *roles*."""
    text: dict[str, Any] = {"type": "string"}
    properties: dict[str, Any] = {
        "role": {"type": "string", "enum": [*roles]},
        "instruction": text,
        "expected_artifact": text,
        "read_files": {"type": "array", "items": text},
    }
    subtask = {"properties": properties, "required": [*properties], "additionalProperties": False, "type": "object"}
    return {
        "type": "object",
        "properties": {"subtasks": {"type": "array", "items": subtask}, "reasoning": text},
        "required": ["subtasks", "reasoning"],
        "additionalProperties": False,
    }


# ---- the planner


def parse_plan(reply: Any, roles: Collection[str], files: Collection[str]) -> Plan:
    """Parse a plan from a reply, or from plain data.

    *roles* are the registered ones, *files* the names of existing files. Fields that a plan does not have, such as
    contents of files, are ignored.

    Raises:
        PlanViolation: the reply is not a plan, or the plan cannot be carried out.
    """
    plan = _parse(reply, Plan, PlanViolation, _normalized_plan)
    if not 1 <= len(plan.subtasks) <= MAX_SUBTASKS:
        raise PlanViolation(f"a plan has 1 to {MAX_SUBTASKS} subtasks, not {len(plan.subtasks)}")
    if (size := len(msgspec.json.encode(plan))) > MAX_PLAN:
        raise PlanViolation(f"a plan has at most {MAX_PLAN:,} bytes, not {size:,}; give shorter instructions")
    for place, subtask in enumerate(plan.subtasks):
        _check_subtask(f"subtask {place + 1}", subtask, roles)
    waits = [_dependencies(place, plan.subtasks, files) for place in range(len(plan.subtasks))]
    if stuck := _in_cycles(waits):
        raise PlanViolation(f"subtasks {', '.join(str(place + 1) for place in stuck)} wait for each other's artifacts")
    subtasks = tuple(structs.replace(one, after=after) for one, after in zip(plan.subtasks, waits, strict=True))
    return structs.replace(plan, subtasks=subtasks)


def _normalized_plan(data: Any) -> Any:
    """Return a plan with every field under its own name: planners use two spellings."""
    if not isinstance(data, dict):
        return data
    plan = cast(dict[str, Any], data)
    if not isinstance(plan.get("subtasks"), list):
        return plan
    subtasks = _with_file_names([_normalized_subtask(subtask) for subtask in plan["subtasks"]])
    return {"subtasks": subtasks, "reasoning": str(plan.get("reasoning") or "")[:MAX_REASONING]}


def _normalized_subtask(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    named = {_SPELLINGS.get(key, key): value for key, value in cast(dict[str, Any], data).items()}
    # `after` is derived, never taken from a reply: an index of a model's own could point anywhere.
    return {key: value for key, value in named.items() if key != "after" and value is not None}


def _with_file_names(subtasks: list[Any]) -> list[Any]:
    """Return *subtasks* with names that files can have, such as `src-app.py` for `src/app.py`."""
    fields = [cast(dict[str, Any], one) for one in subtasks if isinstance(one, dict)]
    planned = [one.get("expected_artifact") for one in fields]
    names: dict[Any, str] = {name: file_name(name) or name for name in planned if isinstance(name, str)}
    for one, name in zip(fields, planned, strict=True):
        if isinstance(name, str):
            one["expected_artifact"] = names[name]
        if isinstance(read := one.get("read_files"), list):
            one["read_files"] = [
                names.get(name, name) if isinstance(name, str) else name for name in cast(list[Any], read)
            ]
    return subtasks


def _check_subtask(which: str, subtask: Subtask, roles: Collection[str]) -> None:
    if subtask.role not in roles:
        raise PlanViolation(f"{which}: unknown role {subtask.role!r}; roles: {', '.join(roles)}")
    if not subtask.instruction.strip():
        raise PlanViolation(f"{which}: its instruction is empty; say what to do")
    try:
        check_name(subtask.expected_artifact)
    except FileViolation as exc:
        raise PlanViolation(f"{which}: {exc}") from None


def _dependencies(place: int, subtasks: Sequence[Subtask], files: Collection[str]) -> tuple[int, ...]:
    """Return the subtasks whose artifacts the subtask at *place* reads, by index.

    A name means an earlier subtask's artifact first, then an existing file, then a later subtask's artifact.

    Raises:
        PlanViolation: a name is neither a file nor another subtask's artifact.
    """
    awaited: set[int] = set()
    for name in subtasks[place].read_files:
        makers = [other for other, one in enumerate(subtasks) if one.expected_artifact == name and other != place]
        earlier = [other for other in makers if other < place]
        if not makers and name not in files:
            there = ", ".join(map(repr, files)) or "none"
            found = f"subtask {place + 1}: read_files names {name!r}"
            raise PlanViolation(f"{found}, which is neither a file nor another subtask's artifact; files: {there}")
        awaited.update(earlier if earlier or name in files else makers)
    return tuple(sorted(awaited))


def _in_cycles(waits: Sequence[Collection[int]]) -> list[int]:
    """Return the subtasks that can never begin, by index."""
    left = set(range(len(waits)))
    while ready := {place for place in left if not left.intersection(waits[place])}:
        left -= ready
    return sorted(left)


# ---- a subagent


def parse_artifact(reply: str, name: str) -> Artifact:
    """Parse an artifact from a reply.

    A JSON object `{artifact_name, content, status}` is taken at its word, if its name is more than another spelling of
    the planned *name*. Any other reply is itself the content, under that name.

    Raises:
        ArtifactViolation: the reply is empty, or such an object with a wrong value.
    """
    reply = clean(reply)
    if not reply.strip():
        raise ArtifactViolation("the reply is empty; it must be the artifact")
    fenced = _WHOLE_FENCE.fullmatch(reply.strip())
    data = _json_object((fenced[1] if fenced else reply).strip())
    if not {"artifact_name", "content", "status"} <= data.keys():
        return Artifact(name, reply)
    artifact = _parse(data, Artifact, ArtifactViolation)
    if not artifact.content.strip():
        raise ArtifactViolation("its content is empty")
    return structs.replace(artifact, artifact_name=_name_of(artifact.artifact_name, name))


def _name_of(given: str, planned: str) -> str:
    """Return the name of an artifact that its author calls *given*."""
    # Planner and reflection read it, so what a role can tell them by it is short.
    slug = _slug(given) or planned
    same = _SUFFIX.sub("", _slug(given)).casefold() == _SUFFIX.sub("", _slug(planned)).casefold()
    return planned if same else slug


def file_name(name: str) -> str:
    """Return *name* if an artifact can have it, else a slug of it; empty if nothing of it is left."""
    try:
        check_name(name)
    except FileViolation:
        return _slug(name)
    return name


def _slug(name: str) -> str:
    plain = re.sub(r"\.{2,}", ".", re.sub(r"[^\w.-]+", "-", clean(name))).strip("-._")
    suffix = found[0] if (found := _SUFFIX.search(plain)) else ""
    stem = plain.removesuffix(suffix)[:MAX_SLUG].encode()[: MAX_NAME - len(suffix.encode())]
    return stem.decode(errors="ignore").rstrip("-._") + suffix if stem else ""


def _json_object(text: str) -> dict[str, Any]:
    if not (text.startswith("{") and text.endswith("}")):
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def check_name(name: str) -> None:
    """Check that an artifact can have this *name*.

    Raises:
        FileViolation: it has a folder, `..`, a character that file names should not have, or more than 100 bytes.
    """
    if not _NAME.fullmatch(name) or ".." in name or len(name.encode()) > MAX_NAME:
        wanted = (
            f"a file name of 1 to {MAX_NAME} bytes: letters, digits, '_', '-', '.' or spaces, no folders and no '..'"
        )
        raise FileViolation(f"an artifact has {wanted}, not {name[:120]!r}")


# ---- the reflection


def parse_decision(reply: str) -> Decision:
    """Parse a decision from a reply.

    Raises:
        ReflectionViolation: the reply is not a decision, is too long, or lacks the field that its decision needs.
    """
    decision = _parse(_BARE_BRACE.sub(r"\1\\\\{", reply), Decision, ReflectionViolation, _normalized_decision)
    needed = {"replan": "reason", "end": "final_answer", "escalate": "question"}.get(decision.decision)
    if needed and not getattr(decision, needed).strip():
        raise ReflectionViolation(f"a decision to {decision.decision} needs a {needed} that is not empty")
    if (size := len(reply.encode())) > MAX_DECISION:
        raise ReflectionViolation(
            f"a decision has at most {MAX_DECISION:,} bytes, not {size:,}; name artifacts instead"
        )
    return decision


def _normalized_decision(data: Any) -> Any:
    """Return a decision without the fields that are null, and with the one spelling of `escalate`."""
    if not isinstance(data, dict):
        return data
    given = {key: value for key, value in cast(dict[str, Any], data).items() if value is not None}
    if given.get("decision") == "escalate_to_human":
        given["decision"] = "escalate"
    return given


def named_artifacts(answer: str) -> list[str]:
    r"""Return the artifacts that *answer* names as `{{name}}`, as often as it names them. `\{{` names none."""
    return list(filter(None, _PLACEHOLDER.findall(answer)))


def fill_in(answer: str, content: Callable[[str], str], limit: int) -> str:
    r"""Replace each `{{name}}` in *answer* by `content(name)`, up to *limit* bytes of content, and `\{{` by `{{`.

    An artifact that does not fit is replaced by a note with its name and size.
    """
    left = limit

    def fill(placeholder: "re.Match[str]") -> str:
        nonlocal left
        if placeholder[1] is None:
            return "{{"
        text = content(placeholder[1])
        if (size := len(text.encode())) > left:
            return f"[{placeholder[1]}: {size:,} bytes, too long for an answer; it is in the turn's artifacts]"
        left -= size
        return text

    return _PLACEHOLDER.sub(fill, answer)


class _Contract(Struct, Generic[T]):
    """A type of replies, with what must be done to plain data before it is read."""

    kind: type[T]
    normalize: Callable[[Any], Any]

    @property
    def wanted(self) -> str:
        return _data_type(self.kind).wanted

    def read(self, value: Any, /) -> T:
        return _data_type(self.kind).read(self.normalize(value))


@cache
def _data_type(kind: type[T]) -> DataType[T]:
    return DataType(kind)


def _parse(
    reply: Any, kind: type[T], violation: type[ContractViolation], normalize: Callable[[Any], Any] = lambda data: data
) -> T:
    contract = _Contract(kind, normalize)
    try:
        return value_in(clean(reply), contract) if isinstance(reply, str) else contract.read(reply)
    except ValueError as exc:
        raise violation(str(exc)) from None
