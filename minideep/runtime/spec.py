"""The spec of an agent: put together from its parts once, and extended by what it inherits."""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import lru_cache, partial
from inspect import iscoroutinefunction, signature, unwrap
from itertools import chain
from typing import Any

from msgspec import structs

from ..errors import ConfigError
from ..models import check_tools, profile_of
from ..ports import Middleware, Model
from ..spec import AgentSpec, ToolHook
from ..state import Limits
from ..tools import Tool, as_tool

OVERRIDES: ContextVar[tuple[tuple[object, Model], ...]] = ContextVar("overrides", default=())
"""The overrides that hold here, as (`AgentSpec.origin`, model), the innermost last.

In a context, so that tests that run side by side on one event loop do not see each other's models.
"""
EVERYWHERE: list[tuple[object, Model]] = []
"""The overrides that hold in the whole process, as they were made where no event loop runs: in a fixture, for example,
whose test runs in another context.
"""
PACKAGE = __name__.partition(".")[0]
HOOKS = {name: member for name, member in vars(Middleware).items() if iscoroutinefunction(member)}


def build_spec(
    name: str,
    model: Model,
    tools: Iterable[Tool | Callable[..., Any]],
    system_prompt: str,
    middleware: tuple[Middleware, ...],
    limits: Limits,
) -> AgentSpec:
    """Put together everything that the loop needs: prompts joined, tools by name, hooks that are overridden.

    A `profile` of the model rewords prompt and tools.

    Raises:
        ConfigError: two tools have one name, one does not fit the model or is hidden from a guard, a hook is misspelt
            or not `async def`, or the model's `profile` is not a `Profile`.
    """
    _check_middleware(middleware)
    hooks = _overridden(middleware)
    profile, by_name = profile_of(model), _tools_by_name(middleware, tools)
    if profile.descriptions:
        by_name = {name: profile.worded(tool) for name, tool in by_name.items()}
    check_tools(model, by_name.values())
    if hosted := [tool for tool in by_name.values() if tool.is_hosted]:
        from ..models import check_guards

        check_guards(hosted, middleware)
    return AgentSpec(
        name,
        model,
        _joined(system_prompt, *[part.prompt for part in middleware], profile.suffix),
        by_name,
        limits,
        hooks["before_model"],
        hooks["wrap_model"],
        _tool_hooks(middleware),
        hooks["wrap_tool"],
        hooks["before_finish"],
        tuple(by_name.values()),
        inheritable(middleware),
        other_models=tuple([model for part in middleware for model in part.models]),
        output=next((read for part in middleware if (read := getattr(part, "read_turn", None))), None),
        background=next((part.background_agents for part in middleware if hasattr(part, "background_agents")), {}),  # pyright: ignore
        origin=object(),
        add_files=hooks["add_files"],
    )


def _check_middleware(middleware: tuple[Middleware, ...]) -> None:
    seen: set[int] = set()
    for part in middleware:
        if id(part) in seen:  # Each of its hooks would run twice.
            raise ConfigError(f"middleware lists the same {part.name} twice; leave one out, or make a second object")
        seen.add(id(part))
        if not type(part).__module__.startswith(f"{PACKAGE}."):  # Ours are checked by a test.
            check_hooks(type(part), *map(partial(getattr, type(part)), HOOKS))
        # Hooks are looked up in the class, once: one on the object would silently never run.
        for hook in HOOKS.keys() & getattr(part, "__dict__", {}):
            problem = f"{part.name}.{hook} is set on the object, where nobody looks for it"
            raise ConfigError(f"{problem}; define it in the class, as `async def {hook}(self, ...)`")


def _tools_by_name(middleware: tuple[Middleware, ...], tools: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    by_name: dict[str, Tool] = {}
    for tool in map(as_tool, [*chain.from_iterable([part.tools for part in middleware]), *tools]):
        # A model calls a tool by its name, so one of the two would never run.
        if tool.name in by_name:
            owner = next((part.name for part in middleware if tool.name in {own.name for own in part.tools}), "")
            problem = f"two tools are named {tool.name!r}{owner and f', one of them by {owner}'}"
            other = by_name[tool.name]
            raise ConfigError(f"{problem}; {other.rename if tool.rename is Tool.rename else tool.rename}")
        by_name[tool.name] = tool
    return by_name


@lru_cache(maxsize=256)
def check_hooks(kind: type[Middleware], *hooks: Any) -> None:
    """Check that the *hooks* of a middleware can be awaited, and that no other method of it is named like a hook: it
    would never be called.

    Raises:
        ConfigError: names the method, and the hook that was probably meant.
    """
    for name, hook in zip(HOOKS, hooks, strict=True):
        if hook is not HOOKS[name]:
            # A decorator may have wrapped an `async def` in a plain function.
            if not iscoroutinefunction(unwrap(hook)):
                raise ConfigError(f"{kind.__name__}.{name} must be an `async def`, as it is awaited")
            _check_parameters(kind, name)
    for name in sorted({*dir(kind)} - {*dir(Middleware)}):
        if callable(getattr(kind, name)):
            _check_name(kind, name)


def _check_name(kind: type[Middleware], name: str) -> None:
    """Refuse a misspelt hook: a guard that has one would be built without complaint, and guard nothing."""
    from difflib import get_close_matches  # Most agents have no middleware but ours.

    alike = get_close_matches(name, HOOKS, 1, 0.8)
    if alike or name.startswith(("before_", "after_", "wrap_")):
        meant = f"did you mean {alike[0]}? " if alike else ""
        raise ConfigError(f"{kind.__name__}.{name} is not a hook; {meant}the hooks are {', '.join(HOOKS)}")


def _check_parameters(kind: type[Middleware], name: str) -> None:
    """Refuse a hook that cannot be called as the loop calls it: the turn would fail when it first is."""
    wanted = [*signature(getattr(Middleware, name)).parameters]
    try:
        signature(getattr(kind, name)).bind(*wanted)
    except TypeError as exc:
        from ..mistakes import hook_signature

        raise ConfigError(hook_signature(name, kind, wanted, exc)) from None


def inheritable(middleware: Iterable[Middleware]) -> tuple[Middleware, ...]:
    """Return those of *middleware* that also apply, in whole or in part, to the runs below their agent.

    Raises:
        ConfigError: an `inherit` is neither True, False nor None.
    """
    middleware = tuple(middleware)
    for part in middleware:
        # A text such as "no" would count as True.
        if part.inherit not in (None, True, False):
            raise ConfigError(f"{part.name}.inherit must be True, False or None, not {part.inherit!r}")
    # By default the tool hooks: delegating must not lead around a guard.
    return tuple([part for part in middleware if part.inherit or (part.inherit is None and _is_guard(type(part)))])


def below(spec: AgentSpec, parent: AgentSpec) -> AgentSpec:
    """Return *spec* as it runs below *parent*: the hooks that it inherits stand outside its own."""
    # A subagent that was given the same object has it already, and a person would be asked twice.
    parts = tuple(part for part in parent.inherited if not any(part is own for own in spec.inherited))
    return inheriting(spec, parts) if parts else spec


def overridden(spec: AgentSpec, parent: AgentSpec | None = None) -> AgentSpec:
    """Return *spec* as it runs here and now, below *parent* if there is one: with the model of `Agent.override`."""
    if not OVERRIDES.get() and not EVERYWHERE and (parent is None or parent.override is None):
        return spec
    from .replacing import applied  # Only in tests.

    return applied(spec, parent, (*EVERYWHERE, *OVERRIDES.get()))


def inheriting(spec: AgentSpec, parts: tuple[Middleware, ...]) -> AgentSpec:
    """Return *spec* with *parts* outside its own middleware, as far as each says that it is inherited."""
    whole = tuple(part for part in parts if part.inherit)
    hooks, prompts = _overridden(whole), [part.prompt for part in whole if part.prompt]
    # The agent's own tool wins over an inherited one of its name.
    tools = {tool.name: tool for part in whole for tool in map(profile_of(spec.model).worded, part.tools)} | spec.tools
    return structs.replace(
        spec,
        system=_joined(spec.system, *prompts) if prompts else spec.system,
        tools=tools,
        before_model=(*hooks["before_model"], *spec.before_model),
        wrap_model=(*hooks["wrap_model"], *spec.wrap_model),
        # Outermost: no hook of the agent itself can answer a call before a guard above has seen it.
        tool_hooks=(*_tool_hooks(parts), *spec.tool_hooks),
        wrap_tool=(*_overridden(parts)["wrap_tool"], *spec.wrap_tool),
        before_finish=(*hooks["before_finish"], *spec.before_finish),
        tool_list=tuple(tools.values()),
        inherited=(*parts, *spec.inherited),
        other_models=(*spec.other_models, *(model for part in parts for model in part.models)),
    )


def check_prices(spec: AgentSpec, limits: Limits, owner: str) -> None:
    """Check that the cost budget in *limits*, which the agent *owner* has, can bound a run of *spec*.

    Raises:
        ConfigError: a model of *spec* may answer without stating its cost.
    """
    # A summarizer, for example, spends from the same budget.
    for model in (spec.model, *spec.other_models):
        check_price(spec.name, model, limits, owner)


def check_price(agent: str, model: Model, limits: Limits, owner: str) -> None:
    """`check_prices` for one model that *agent* asks."""
    if limits.cost is None or getattr(model, "states_cost", False):
        return
    budget = f"agent {owner!r} has Limits(cost={limits.cost!r})"
    if agent != owner:
        budget += f", which holds for agent {agent!r} below it"
    raise ConfigError(
        f"{budget}, but model {model.name!r} has no price, so it could spend without end; give the model "
        "`price=Price(input, output)`, describe it with `minideep.models.add_model_info`, or set `states_cost = True` "
        "on it if each of its replies says its cost"
    )


def _joined(*prompts: str) -> str:
    return "\n\n".join(filter(None, map(str.strip, prompts)))


def _is_guard(kind: type[Middleware]) -> bool:
    hooks = kind.before_tool, kind.wrap_tool, kind.after_tool
    return hooks != (Middleware.before_tool, Middleware.wrap_tool, Middleware.after_tool)


def _tool_hooks(middleware: Iterable[Middleware]) -> tuple[ToolHook, ...]:
    asked = [
        ToolHook(part, kind.before_tool is not Middleware.before_tool, kind.after_tool is not Middleware.after_tool)
        for part, kind in [(part, type(part)) for part in middleware]
    ]
    return tuple([hook for hook in asked if hook.before or hook.after])


def _overridden(middleware: Iterable[Middleware]) -> dict[str, tuple[Middleware, ...]]:
    """Return, for each hook, the middleware whose class overrides it.

    Asked once, when the spec is built, so that a hook that nobody overrides costs a step nothing.
    """
    kinds = [(part, type(part)) for part in middleware]
    return {
        hook: tuple([part for part, kind in kinds if getattr(kind, hook) is not member])
        for hook, member in HOOKS.items()
    }
