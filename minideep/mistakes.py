"""Words about a mistake: what was probably meant, and what to write instead. Loaded when something is wrong."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from inspect import Parameter, isfunction, signature
from typing import Any, cast

from msgspec import Struct, structs

from .kinds import ANYTHING, Kind, shown

_RUN = "write `await agent.run(text)`, `agent.run_sync(text)` or `agent.stream(text)`"
_AWAIT = "await it first: `turn = await handle`"
WORDS: dict[str, dict[str, str]] = {
    "Agent": {
        **dict.fromkeys(("invoke", "ainvoke", "astream", "kickoff", "run_stream", "run_streamed", "chat"), _RUN),
        **{part: f"read `agent.spec.{part}`" for part in ("model", "tools", "limits", "name")},
    },
    "Turn": {
        **dict.fromkeys(("content", "result"), "the answer is `turn.text`"),
        **dict.fromkeys(("final_output", "parsed", "structured_response"), "the typed answer is `turn.output`"),
    },
    "Handle": dict.fromkeys(("text", "status", "messages", "error", "interrupts", "costs"), _AWAIT),
}
"""Attributes that people look for, by the name of the class, and what to do instead."""
PACKAGES = {
    "access": "Access",
    "backends": (
        "BubblewrapBackend CompositeBackend DockerSandbox FilesystemBackend LocalShellBackend SandboxBackend "
        "StateBackend StoreBackend"
    ),
    "blueprint": "Blueprint Role STOCK_ROLES",
    "evals": "Golden evaluate judge load",
    "events": "ModelReplied Noted TextDelta ToolEnded ToolReturned ToolStarted",
    "mcp": "MCPClient",
    "middleware": (
        "AsyncSubAgentMiddleware ClearToolResults EnvironmentMiddleware FilesystemMiddleware HumanInTheLoopMiddleware "
        "MemoryMiddleware OffloadMiddleware PatchToolCallsMiddleware PermissionsMiddleware PlanApprovalMiddleware "
        "PromptCachingMiddleware Rubric ShellMiddleware SkillsMiddleware SubAgentMiddleware SummarizationMiddleware "
        "TodoListMiddleware ToolCallLimits ToolResultCache ToolRetry ToolSelector"
    ),
    "models": (
        "Anthropic BatchModel CodeExecution FallbackModel FileSearch ModelInfo OfflineModel OpenAI OpenAIChat Price "
        "Profile RateLimiter RedactPII RetryModel ScriptedModel Timeouts WebSearch"
    ),
    "permissions": "Allow Ask Deny ask_before_writes read_only workspace",
}
"""Names that people look for in `minideep` itself, by the package that has them."""
SYNONYMS = {
    "AgentMiddleware": "Middleware",
    "AsyncSubAgent": "Subagent",
    "CompiledSubAgent": "Subagent",
    "ContextEditingMiddleware": "ClearToolResults",
    "DeepAgent": "create_deep_agent",
    "EncryptedSerializer": "EncryptedCheckpointer",
    "InMemorySaver": "MemoryCheckpointer",
    "InterruptOnConfig": "Approval",
    "LLMToolSelectorMiddleware": "ToolSelector",
    "MemorySaver": "MemoryCheckpointer",
    "ModelFallbackMiddleware": "FallbackModel",
    "ModelRetryMiddleware": "RetryModel",
    "PIIMiddleware": "RedactPII",
    "RubricMiddleware": "Rubric",
    "SqliteSaver": "DiskCheckpointer",
    "SubAgent": "Subagent",
    "ToolCallLimitMiddleware": "ToolCallLimits",
    "ToolRetryMiddleware": "ToolRetry",
}
"""What other libraries call it, and what it is called here."""
CONSTRUCTORS = {"ToolCall": "ToolCall('name', {...})", "Edit": "Edit({...})"}
"""How Structs are written whose constructor does not take their fields."""
RETURNS = {
    "before_model": "return request",
    "wrap_model": "return await ask(request)",
    "before_tool": "return call",
    "wrap_tool": "return await run(call)",
    "after_tool": "return result",
    "before_finish": "return None",
    "add_files": "return None",
}
"""What each hook returns if it changes nothing."""


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a message: the one of *known* that *name* was probably meant to be, or else *otherwise*."""
    by_form = {one.casefold(): one for one in known}
    alike = get_close_matches(name.casefold(), by_form, 1, 0.7) if isinstance(name, str) else []
    return f"; did you mean {by_form[alike[0]]!r}?" if alike else otherwise


def other_word(kind: type, name: str) -> str:
    """Return what to do instead of reading the attribute *name* of an instance of *kind*, or an empty string."""
    return next((WORDS[base.__name__].get(name, "") for base in kind.__mro__ if base.__name__ in WORDS), "")


def where(name: str) -> str:
    """Return how to import what people look for in `minideep` itself under *name*, or an empty string."""
    here = SYNONYMS.get(name, name)
    home = next((f".{package}" for package, names in PACKAGES.items() if here in names.split()), "")
    return f"from minideep{home} import {here}" if home or here != name else ""


# ---- calls


def unexpected(owner: str, name: str, called: Callable[..., Any]) -> str:
    """Return the message for a keyword argument that a function, or the constructor of a Struct, does not take."""
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    parameters = signature(called).parameters.values()
    known = [one.name for one in parameters if one.kind in by_name and one.name != "self"]
    takes = f"; it takes {', '.join(known) or 'none'}"
    return f"{owner}() got an unexpected keyword argument {name!r}{did_you_mean(name, known, takes)}"


def misfit(kind: type[Struct], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return what is wrong with the arguments of a constructor, or an empty string."""
    names, usage = kind.__struct_fields__, f"write {written(kind)}"
    for name in kwargs:
        if name not in names:
            return unexpected(kind.__name__, name, kind)
    parameters = signature(kind).parameters.values()
    positional = [parameter.name for parameter in parameters if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if len(args) > len(positional):
        by_name = "its arguments by name" if names else "no arguments"
        return f"{kind.__name__}() takes {by_name}; {usage}"
    given = {*positional[: len(args)], *kwargs}
    missing = [field.name for field in structs.fields(kind) if field.required and field.name not in given]
    return f"{kind.__name__}() needs {' and '.join(map(repr, missing))}; {usage}" if missing else ""


def written(kind: type, given: object = None) -> str:
    """Return how an instance is made: of a Struct with its required fields, or with those in the mapping *given*."""
    if not issubclass(kind, Struct):
        return f"{kind.__name__}()"
    if kind.__name__ in CONSTRUCTORS:
        return CONSTRUCTORS[kind.__name__]
    fields: dict[str, Any] = dict(cast(Mapping[str, Any], given)) if isinstance(given, Mapping) else {}
    if fields and all(name in kind.__struct_fields__ for name in fields):
        return f"{kind.__name__}({', '.join(f'{name}={shown(item)}' for name, item in fields.items())})"
    required = [field.name for field in structs.fields(kind) if field.required]
    return f"{kind.__name__}({', '.join(f'{name}=...' for name in required or kind.__struct_fields__[:1])})"


def untyped(parameter: str) -> str:
    """Return what to do about a parameter of a tool that has no type hint."""
    if parameter == "self":
        return "make the tool of an object's method: `tool(shop.pay)`"
    return "write `ctx: ToolContext` or, for what the model gives, `text: str`"


def hook_signature(hook: str, kind: type, parameters: Iterable[str], problem: object) -> str:
    """Return the message for a hook that cannot be called with its parameters."""
    wanted = ", ".join(parameters)
    return f"{kind.__name__}.{hook} cannot be called with ({wanted}): {problem}; write `async def {hook}({wanted})`"


# ---- values of another kind


def best(remedies: Sequence[str], given: Any) -> str:
    """Return one remedy out of those for all types that are allowed: that which says what was given, or every way to
    write one. Which of them is meant must not be guessed: a text in place of a decision is no approval.
    """
    *first, last = remedies
    if not first or not all(remedy.startswith("write ") for remedy in remedies):
        return min(remedies, key=lambda remedy: not remedy.startswith("pass an instance"))
    ways = [remedy.removeprefix("write ") for remedy in remedies]
    named = [way for way in ways if isinstance(given, str) and way.lower().startswith(f"{given.lower()}(")]
    *first, last = named or ways
    return f"write {', '.join(first)}{' or ' * bool(first)}{last}"


def number(kind: type, given: Any) -> Any:
    """Return the number that "60" or 5.0 was meant to be, or None."""
    with suppress(ValueError, OverflowError):
        if type(given) in (str, float) and (meant := kind(given)) == float(given):
            return meant
    return None


def item_of_mapping(key: Kind, value: Kind, given: Any) -> str:
    """Return the remedy for a key or a value, or a list of keys, in place of a mapping, or an empty string."""
    if value is not ANYTHING and value.accepts(given):
        return f"write {{...: {shown(given)}}}"
    names = cast(list[Any], given) if isinstance(given, list | tuple) else [given]
    return f"write {{{shown(names[0])}: ...}}" if names and key is not ANYTHING and key.accepts(names[0]) else ""


def item_of_list(item: Kind, given: Any) -> str:
    """Return the remedy for an item, or a mapping of names to items, in place of a list, or an empty string."""
    if item is ANYTHING:
        return ""
    if isinstance(given, Mapping) and given and all(map(item.accepts, cast(Mapping[Any, Any], given).values())):
        return "write a list of its values"
    if given != "" and item.accepts(given):
        return f"write [{shown(given)}]"
    return f"call it: {cast(Any, given).__name__}()" if isfunction(cast(Any, given)) else ""
