"""The parts of a blueprint as one scripted model, which tells them apart by their system prompts."""

import json
from collections.abc import Callable, Iterable
from hashlib import sha256
from inspect import signature
from random import Random
from typing import Any

from msgspec import structs

from minideep import Limits, Turn, Usage
from minideep.blueprint import Blueprint
from minideep.blueprint.prompts import PLANNER, REFLECTION
from minideep.models import ScriptedModel, as_reply
from minideep.ports import Request

SOON = Limits(seconds=1.0)
"""Ends a turn that would otherwise run for ever. A correct one takes milliseconds."""
CODE = "```python\nprint(1)\n```"
DEFECTS = '[{"line": 1, "issue": "a typo", "severity": "low"}]'


def plan(*subtasks: tuple[Any, ...], **more: Any) -> str:
    """A planner's reply: each subtask is (role, instruction, artifact) or (role, instruction, artifact, read_files)."""
    named = ("role", "instruction", "expected_artifact", "read_files")
    listed = [{"read_files": [], **dict(zip(named, subtask, strict=False))} for subtask in subtasks]
    return json.dumps({"subtasks": listed, "reasoning": "so", **more})


def research(artifact: str = "facts.md", *reads: str, task: str = "find out") -> tuple[Any, ...]:
    return ("research-specialist", task, artifact, list(reads))


def end(answer: str = "done") -> str:
    return json.dumps({"decision": "end", "final_answer": answer})


def replan(reason: str = "more is needed") -> str:
    return json.dumps({"decision": "replan", "reason": reason})


GO_ON = '{"decision": "continue"}'


def ask(question: str = "which one?") -> str:
    return json.dumps({"decision": "escalate", "question": question})


def said_by_role(request: Request) -> str:
    """A reply that suits each stock role."""
    return CODE if "code writer" in request.system else DEFECTS if "critic" in request.system else "Paris. [1]"


class Parts(ScriptedModel):
    """Replies for planner and reflection in order, or a function of the request; and a function for roles."""

    def __init__(
        self,
        plans: Iterable[Any] | Callable[..., Any],
        reflections: Iterable[Any] | Callable[..., Any] = ('{"decision": "end", "final_answer": "done"}',),
        role: Any = said_by_role,
    ) -> None:
        self._plans, self._reflections, self._role = _asked(plans), _asked(reflections), _asked(role)
        super().__init__(self._answer)

    def _answer(self, request: Request) -> Any:
        return self._part(request)(request)

    def _part(self, request: Request) -> Callable[[Request], Any]:
        if is_planner(request):
            return self._plans
        return self._reflections if is_reflection(request) else self._role

    @property
    def planned(self) -> list[Request]:
        """The requests of the planner."""
        return [request for request in self.requests if is_planner(request)]

    @property
    def reflected(self) -> list[Request]:
        return [request for request in self.requests if is_reflection(request)]

    @property
    def delegated(self) -> list[Request]:
        return [request for request in self.requests if not is_planner(request) and not is_reflection(request)]


def is_planner(request: Request) -> bool:
    return request.system.startswith(PLANNER.partition("\n")[0])


def is_reflection(request: Request) -> bool:
    return request.system == REFLECTION


def _asked(replies: Any) -> Callable[[Request], Any]:
    if callable(replies):
        return replies if signature(replies).parameters else lambda _: replies()
    script = iter(replies)

    def following(_: Request) -> Any:
        said = next(script, None)
        assert said is not None, "the script is at its end"
        return said

    return following


def asked(request: Request) -> str:
    """The text of all messages of a request."""
    return "\n".join(message.text for message in request.messages)


def whole_task(task: str, *files: tuple[str, str]) -> str:
    """A role's message as its model sees it: files as pairs of name and content, then the task."""
    parts = list[str]()
    for name, content in files:
        mark = f"file {sha256(content.encode()).hexdigest()[:16]}"
        parts.append(f"# {name}\n<{mark}>\n{content}\n</{mark}>")
    return "\n\n".join([*parts, f"## Task\n{task}"])


def refusal(request: Request) -> tuple[str, str]:
    """The reply that was refused last, and what its author is told of it."""
    reply, told = request.messages[-2:]
    return reply.text, told.text.removeprefix("Your reply was refused: ").removesuffix("\n\nReply again, in full.")


def blueprint(*args: Any, **named: Any) -> Blueprint:
    """A blueprint of the stock roles on `Parts(...)`; keywords that `Parts` knows go there."""
    parts = {name: named.pop(name) for name in ("plans", "reflections", "role") if name in named}
    return Blueprint(Parts(*args, **parts), **named)


def one_turn(parts: Parts, **named: Any) -> tuple[Blueprint, Turn]:
    """Run one turn of a blueprint on *parts*, on the thread `t`."""
    agent = Blueprint(parts, **named)
    return agent, agent.run_sync("the goal", "t")


def entries(agent: Blueprint, node: str = "subagent") -> list[dict[str, Any]]:
    """The ledger entries of one part on the thread `t`."""
    return [entry for entry in agent.board("t").ledger if entry["node"] == node]


def outcomes(agent: Blueprint) -> list[tuple[str, str, str]]:
    """Artifact, status and error of each subtask."""
    return [(entry["artifact"], entry["status"], entry.get("error", "")) for entry in entries(agent)]


def sections(request: Request) -> dict[str, str]:
    """The text of a request under each of its headings."""
    parts = f"\n\n{asked(request)}".split("\n\n# ")[1:]
    return dict(part.split("\n", 1) for part in parts)


def bounded(agent: Blueprint, steps: int = 40) -> Blueprint:
    """The same agent with a limit of steps, so that an endless turn stops."""
    agent.spec = structs.replace(agent.spec, limits=structs.replace(agent.spec.limits, steps=steps))
    return agent


def numbered() -> Callable[[], str]:
    """A planner whose every plan has one subtask, with a new name each time."""
    numbers = iter(range(1, 1000))
    return lambda: plan(research(f"f{next(numbers)}.md"))


def nodes(agent: Blueprint, thread: str = "t") -> list[str]:
    """The parts that ran, in order."""
    return [json.loads(line)["node"] for line in agent.trace(thread)]


class Tens(Parts):
    """Parts whose every reply takes ten tokens and costs a quarter of a dollar."""

    def _answer(self, request: Request) -> Any:
        return structs.replace(as_reply(super()._answer(request)), usage=Usage(7, 3), cost=0.25)


def rounds(number: int, size: int, store: Any = None, **more: Any) -> tuple[Parts, Blueprint]:
    """A model and a blueprint whose turn has *number* rounds that each write *size* bytes."""
    random = Random(1)
    model = Parts(
        numbered(),
        lambda: end("so") if len(model.reflected) == number else replan("more"),
        lambda: random.randbytes(size // 2).hex(),
    )
    return model, Blueprint(model, checkpointer=store, max_reflection_depth=number + 1, **more)


def reader(store: Any) -> Blueprint:
    """A blueprint that reads the thread as another process would."""
    return Blueprint(Parts([]), checkpointer=store)
