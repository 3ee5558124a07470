"""A blueprint's parts as one scripted model: each is told apart by its system prompt."""

import json
from collections.abc import Callable, Iterable
from inspect import signature
from random import Random
from typing import Any

from msgspec import structs

from minideep import Usage
from minideep.blueprint import Blueprint
from minideep.blueprint.prompts import PLANNER, REFLECTION
from minideep.models import ScriptedModel, as_reply
from minideep.ports import Request

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
    """What a stock role says that does its job."""
    return CODE if "code writer" in request.system else DEFECTS if "critic" in request.system else "Paris. [1]"


class Parts(ScriptedModel):
    """Replies for the planner and the reflection, in order (or a function of the request), and a function for roles."""

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
        """What the planner was asked."""
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
    """All that a request's messages say."""
    return "\n".join(message.text for message in request.messages)


def blueprint(*args: Any, **named: Any) -> Blueprint:
    """A blueprint of the stock roles on `Parts(...)`; keywords that `Parts` knows go there."""
    parts = {name: named.pop(name) for name in ("plans", "reflections", "role") if name in named}
    return Blueprint(Parts(*args, **parts), **named)


def sections(request: Request) -> dict[str, str]:
    """What a request says under each of its headings."""
    parts = f"\n\n{asked(request)}".split("\n\n# ")[1:]
    return dict(part.split("\n", 1) for part in parts)


def bounded(agent: Blueprint, steps: int = 40) -> Blueprint:
    """The same agent, which stops by itself where it would go on for ever."""
    agent.spec = structs.replace(agent.spec, limits=structs.replace(agent.spec.limits, steps=steps))
    return agent


def numbered() -> Callable[[], str]:
    """A planner that always has one thing to do, under another name each time."""
    numbers = iter(range(1, 1000))
    return lambda: plan(research(f"f{next(numbers)}.md"))


def nodes(agent: Blueprint, thread: str = "t") -> list[str]:
    """The parts that did something, in order."""
    return [json.loads(line)["node"] for line in agent.trace(thread)]


class Tens(Parts):
    """Parts of which each reply is ten tokens for a quarter of a dollar."""

    def _answer(self, request: Request) -> Any:
        return structs.replace(as_reply(super()._answer(request)), usage=Usage(7, 3), cost=0.25)


def rounds(number: int, size: int, store: Any = None, **more: Any) -> tuple[Parts, Blueprint]:
    """A blueprint whose turn has so many rounds that each write so many bytes; and its model."""
    random = Random(1)
    model = Parts(
        numbered(),
        lambda: end("so") if len(model.reflected) == number else replan("more"),
        lambda: random.randbytes(size // 2).hex(),
    )
    return model, Blueprint(model, checkpointer=store, max_reflection_depth=number + 1, **more)


def reader(store: Any) -> Blueprint:
    """The thread as another process would read it."""
    return Blueprint(Parts([]), checkpointer=store)
