"""What the parts of a blueprint say to each other, as types; what breaks a contract is a named error."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeVar, cast, get_args

import msgspec
from msgspec import Struct, structs

from ..errors import ArtifactViolation, ContractViolation, FileViolation, PlanViolation, ReflectionViolation
from ..messages import clean
from ..structured import fitting, json_in

MAX_SUBTASKS = 100
MAX_PLAN = 64 * 1024
"""Bytes of a plan, which is remembered and shown again and again."""
MAX_SAID = 32 * 1024
"""Bytes of what a reflection says, before artifacts are filled in, and of what a subagent asks."""
MAX_NAME = 100
"""Bytes of a name; with role and step before it a disk must take it."""
MAX_RAW = 2_000
"""Characters of a refused reply that are shown to a person."""

Status = Literal["active", "done"]
Verdict = Literal["continue", "replan", "end", "escalate"]

T = TypeVar("T")
_NAME = re.compile(r"\w[\w .,()+@=-]{0,99}")
_SPELLINGS = {"subagent_role": "role", "expected_artifact_name": "expected_artifact"}
_WHOLE_FENCE = re.compile(r"```\w*\n(.*)```", re.DOTALL)


class Subtask(Struct, frozen=True, omit_defaults=True):
    """One piece of a plan."""

    role: str
    instruction: str
    expected_artifact: str
    """The name of the file that it delivers."""
    read_files: tuple[str, ...] = ()
    """The files that it is given, by name."""
    after: tuple[int, ...] = ()
    """The subtasks of the plan that it waits for, by their place from 0."""


class Plan(Struct, frozen=True, omit_defaults=True):
    """What a planner says: subtasks in the order in which their results are taken in."""

    subtasks: tuple[Subtask, ...] = ()
    reasoning: str = ""


class Artifact(Struct, frozen=True):
    """What a subagent delivers."""

    artifact_name: str
    content: str
    status: Status = "done"


class Decision(Struct, frozen=True):
    """What a reflection says."""

    decision: Verdict
    reason: str = ""
    """Of a `replan`: what is wrong with the plan."""
    final_answer: str = ""
    """Of an `end`: the answer; `{{name}}` in it stands for that artifact's content."""
    question: str = ""
    """Of an `escalate`: what only a person can say."""


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
    """A plan as a JSON Schema."""
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


def plan_of(said: Any, roles: Collection[str], files: Collection[str]) -> Plan:
    """The plan that a reply, or plain data, holds. *roles* are those that are registered, *files* the names that are
    there. What else it holds, such as contents of files, counts for nothing.

    Raises:
        PlanViolation: it is none, or cannot be carried out.
    """
    plan = _read(said, Plan, PlanViolation, _own_words)
    if not 1 <= len(plan.subtasks) <= MAX_SUBTASKS:
        raise PlanViolation(f"a plan has 1 to {MAX_SUBTASKS} subtasks, not {len(plan.subtasks)}")
    if (size := len(msgspec.json.encode(plan))) > MAX_PLAN:
        raise PlanViolation(f"a plan has at most {MAX_PLAN:,} bytes, not {size:,}; give shorter instructions")
    for place, subtask in enumerate(plan.subtasks):
        _check(f"subtask {place + 1}", subtask, roles)
    waits = [_awaited(place, plan.subtasks, files) for place in range(len(plan.subtasks))]
    if stuck := _in_circles(waits):
        raise PlanViolation(f"subtasks {', '.join(str(place + 1) for place in stuck)} wait for each other's artifacts")
    subtasks = tuple(structs.replace(one, after=after) for one, after in zip(plan.subtasks, waits, strict=True))
    return structs.replace(plan, subtasks=subtasks)


def _own_words(said: Any) -> Any:
    """A plan with each field under its own name; both spellings that planners use are read."""
    if not isinstance(said, dict):
        return said
    plan = cast(dict[str, Any], said)
    listed = plan.get("subtasks")
    if not isinstance(listed, list):
        return plan
    subtasks = [_renamed(subtask) for subtask in cast(list[Any], listed)]
    return {"subtasks": subtasks, "reasoning": str(plan.get("reasoning") or "")[:2_000]}


def _renamed(subtask: Any) -> Any:
    if not isinstance(subtask, dict):
        return subtask
    named = {_SPELLINGS.get(key, key): value for key, value in cast(dict[str, Any], subtask).items()}
    return {key: value for key, value in named.items() if key != "after" and value is not None}


def _check(which: str, subtask: Subtask, roles: Collection[str]) -> None:
    if subtask.role not in roles:
        raise PlanViolation(f"{which}: there is no role {subtask.role!r}; there are {', '.join(roles)}")
    if not subtask.instruction.strip():
        raise PlanViolation(f"{which}: its instruction is empty; say what is to be done")
    try:
        checked_name(subtask.expected_artifact)
    except FileViolation as exc:
        raise PlanViolation(f"{which}: {exc}") from None


def _awaited(place: int, subtasks: Sequence[Subtask], files: Collection[str]) -> tuple[int, ...]:
    """The subtasks whose artifacts the one at *place* reads: earlier ones; else a file that is there; else later ones.

    Raises:
        PlanViolation: nobody delivers what it reads.
    """
    awaited: set[int] = set()
    for name in subtasks[place].read_files:
        makers = [other for other, one in enumerate(subtasks) if one.expected_artifact == name and other != place]
        earlier = [other for other in makers if other < place]
        if not earlier and name not in files and not makers:
            there = ", ".join(map(repr, files)) or "none"
            found = f"subtask {place + 1}: read_files names {name!r}"
            raise PlanViolation(f"{found}, which is no file and no other subtask delivers; files: {there}")
        awaited.update(earlier if earlier or name in files else makers)
    return tuple(sorted(awaited))


def _in_circles(waits: Sequence[Collection[int]]) -> list[int]:
    """The subtasks that can never begin."""
    left = set(range(len(waits)))
    while ready := {place for place in left if not left.intersection(waits[place])}:
        left -= ready
    return sorted(left)


# ---- a subagent


def artifact_of(said: str, name: str) -> Artifact:
    """The artifact that a reply is: its content under the planned *name*; or, of a reply that is the JSON object
    `{artifact_name, content, status}`, what that says.

    Raises:
        ArtifactViolation: it is empty, or an object that says something else.
        FileViolation: its name is none that an artifact can have.
    """
    said = clean(said)
    if not said.strip():
        raise ArtifactViolation("the reply is empty; it must be the artifact")
    whole = _WHOLE_FENCE.fullmatch(said.strip())
    data = _object((whole[1] if whole else said).strip())
    if not {"artifact_name", "content", "status"} <= data.keys():
        return Artifact(name, said)
    artifact = _read(data, Artifact, ArtifactViolation)
    if not artifact.content.strip():
        raise ArtifactViolation("its content is empty")
    return structs.replace(artifact, artifact_name=checked_name(artifact.artifact_name))


def _object(text: str) -> dict[str, Any]:
    if not (text.startswith("{") and text.endswith("}")):
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def checked_name(name: str) -> str:
    """*name*, if an artifact may have it.

    Raises:
        FileViolation: it has a folder, `..`, what no file name should have, or more than 100 bytes.
    """
    if not _NAME.fullmatch(name) or ".." in name or len(name.encode()) > MAX_NAME:
        wanted = (
            f"a file name of 1 to {MAX_NAME} bytes: letters, digits, '_', '-', '.' or spaces, no folders and no '..'"
        )
        raise FileViolation(f"an artifact has {wanted}, not {name[:120]!r}")
    return name


# ---- the reflection


def decision_of(said: str) -> Decision:
    """The decision that a reply holds.

    Raises:
        ReflectionViolation: it holds none, or one without what belongs to it.
    """
    decision = _read(said, Decision, ReflectionViolation, _plain)
    needed = {"replan": "reason", "end": "final_answer", "escalate": "question"}.get(decision.decision)
    if needed and not getattr(decision, needed).strip():
        raise ReflectionViolation(f"a decision to {decision.decision} needs a {needed} that is not empty")
    if (size := len(said.encode())) > MAX_SAID:
        raise ReflectionViolation(f"a decision has at most {MAX_SAID:,} bytes, not {size:,}; name artifacts instead")
    return decision


def _plain(said: Any) -> Any:
    """A decision under its one name, without the fields that are null."""
    if not isinstance(said, dict):
        return said
    given = {key: value for key, value in cast(dict[str, Any], said).items() if value is not None}
    if given.get("decision") == "escalate_to_human":
        given["decision"] = "escalate"
    return given


def _read(
    said: Any, kind: type[T], violation: type[ContractViolation], own_words: Callable[[Any], Any] | None = None
) -> T:
    try:
        data = json_in(clean(said)) if isinstance(said, str) else said
        return fitting(own_words(data) if own_words else data, kind)
    except ValueError as exc:
        raise violation(str(exc)) from None
