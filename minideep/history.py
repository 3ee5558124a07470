"""Inputs that are lists of messages: a conversation that was held elsewhere, and the message that goes on with it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, cast

from msgspec import structs

from .content import checked_message, checked_reply
from .core import NOT_COMPLETED
from .costs import Costs
from .errors import ConfigError
from .events import AnyEvent, ModelReplied, ToolReturned, TurnCancelled, TurnEnded, UserSaid
from .kinds import shown
from .messages import AssistantMessage, Input, MediaLink, Message, Text, ToolCall, ToolMessage, UserMessage
from .plain_json import is_json, parse_arguments

MESSAGES = (UserMessage, AssistantMessage, ToolMessage)
TEXTS = ("text", "input_text", "output_text")
"""The types of parts that are texts, in the words of several APIs."""
CALLS = ("tool_calls", "function_call")
UNANSWERED = "the history has no answer to it"
"""The reason of a turn that a history leaves without an answer."""


def read_input(input: Input, model: object) -> tuple[tuple[Message, ...], UserMessage]:
    """Return the earlier messages of a history, and the input that goes on with it; of another input, no messages.

    Raises:
        ConfigError: the input cannot be accepted; names the message.
    """
    earlier, last = _read(input)
    fetched: tuple[str, ...] | None = getattr(model, "url_types", None)  # None: it does not say.
    for message in (*earlier, last) if fetched is not None else ():
        _check_links(message, cast(Any, model).name, cast(Any, fetched))
    return earlier, last


def _read(input: Input) -> tuple[tuple[Message, ...], UserMessage]:
    given: Any = input
    if isinstance(given, str | UserMessage | Mapping) or not isinstance(given, Iterable):
        return (), checked_message(cast(Input, given))
    items: list[Any] = list(cast(Iterable[Any], given))
    if not any(isinstance(item, (*MESSAGES, Mapping)) for item in items):
        return (), checked_message(items)
    *earlier, last = [_message(item, f"input[{place}]") for place, item in enumerate(items)]
    if not isinstance(last, UserMessage):
        problem = f"a history must end with the message to answer, of the user; it ends with one of the {last.role}"
        raise ConfigError(f"{problem}; add a UserMessage")
    if earlier and not isinstance(earlier[0], UserMessage):
        problem = f"a history must begin with a message of the user, not of the {earlier[0].role}"
        raise ConfigError(f"{problem}; leave that one out, or say it in system_prompt=")
    return _with_call_ids(earlier), last


def events_of(earlier: Sequence[Message], agent: str, at: float) -> Iterator[AnyEvent]:
    """Yield the events that record *earlier* messages as turns of *agent* that were over at the time *at*.

    Replies carry no tokens and cost nothing: this thread has not paid for them. A turn without an answer is cancelled,
    which leaves its calls unanswered.
    """
    left: dict[str, None] = {}
    for place, message in enumerate(earlier):
        following = earlier[place + 1] if place + 1 < len(earlier) else None
        match message:
            case UserMessage():
                yield UserSaid(message, at, agent=agent)
            case AssistantMessage():
                yield from (ToolReturned(call_id, NOT_COMPLETED.content, is_error=True) for call_id in left)
                left = dict.fromkeys(call.id for call in message.calls)
                # Two replies in a row: the provider wanted to be asked again.
                goes_on = isinstance(following, AssistantMessage) and not left
                yield ModelReplied(message, "continue" if goes_on else "done", cost=0.0)
            case ToolMessage():
                left.pop(message.call_id)
                yield ToolReturned(message.call_id, message.content, message.is_error)
        if following is None or isinstance(following, UserMessage):
            is_answer = isinstance(message, AssistantMessage) and not left
            yield TurnEnded(at, costs=Costs()) if is_answer else TurnCancelled(at, UNANSWERED, Costs())
            left = {}


def _check_links(message: Message, model: str, fetched: tuple[str, ...]) -> None:
    for block in () if isinstance(message.content, str) else message.content:
        if isinstance(block, MediaLink) and not block.media_type.startswith(fetched):
            problem = f"the input links to {block.media_type} at {block.url[:200]!r}, which {model!r} does not fetch"
            raise ConfigError(f"{problem}; fetch it and give its bytes, or save it and use load_media(path)")


# ---- one message


def _message(item: Any, place: str) -> Message:
    """Return one item of a history as a message that the log can keep."""
    message = _from_mapping(cast(Mapping[str, Any], item), place) if isinstance(item, Mapping) else item
    try:
        match message:
            case UserMessage():
                return checked_message(message)
            case AssistantMessage():
                return checked_reply(message)
            case ToolMessage():
                return checked_reply(message)
            case _:
                pass
    except ConfigError as exc:
        raise ConfigError(f"{place}: {exc}") from None
    raise ConfigError(f"{place} must be a message like the others, not {shown(item)}; put blocks into a UserMessage")


def _from_mapping(item: Mapping[str, Any], place: str) -> UserMessage | AssistantMessage:
    """Return a message of the form `{"role": "user" | "assistant", "content": text or parts of text}`."""
    role = item.get("role")
    if role in ("system", "developer"):
        raise ConfigError(f"{place} is of the system; give its text as system_prompt= of the agent")
    if role == "tool" or any(item.get(name) for name in CALLS):
        remedy = "write AssistantMessage((ToolCall(...),)) and ToolMessage(...)"
        raise ConfigError(f"{place} holds a tool call or a result; {remedy}")
    if role not in ("user", "assistant"):
        raise ConfigError(f'{place}["role"] must be "user" or "assistant", not {shown(role)}')
    content = item.get("content")
    if not isinstance(content, str):
        content = _texts(content, f'{place}["content"]')
    return UserMessage(content) if role == "user" else AssistantMessage(content)


def _texts(content: Any, place: str) -> tuple[Text, ...]:
    if not isinstance(content, list | tuple):
        raise ConfigError(f"{place} must be text or a list of parts, not {shown(content)}")
    texts: list[Text] = []
    for number, part in enumerate(cast(Sequence[Any], content)):
        given = cast(Mapping[str, Any], part if isinstance(part, Mapping) else {})
        if given.get("type") not in TEXTS or not isinstance(given.get("text"), str):
            problem = f'{place}[{number}] must be {{"type": "text", "text": ...}}, not {shown(part)}'
            remedy = "write UserMessage((Text(...), Image(data))), AssistantMessage((ToolCall(...),)), ToolMessage(...)"
            raise ConfigError(f"{problem}; {remedy}")
        texts.append(Text(given["text"]))
    return tuple(texts)


# ---- calls and their results


def _with_call_ids(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return *messages* in which each call has an id of its own, and each result the id of its call.

    Raises:
        ConfigError: a result answers no call of the reply before it.
    """
    taken: set[str] = set()
    unanswered: list[tuple[str, str]] = []  # Calls of the last reply: the id that was given, and the one they have now.
    kept: list[Message] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            found = next((pair for pair in unanswered if pair[0] == message.call_id), None)
            if found is None:
                problem = f"input[{place}] is the result of call {message.call_id!r}"
                raise ConfigError(f"{problem}, which the reply before it did not make; leave it out, or add that reply")
            unanswered.remove(found)
            message = structs.replace(message, call_id=found[1])
        else:
            unanswered = []
            if isinstance(message, AssistantMessage) and message.calls:
                given = [call.id for call in message.calls]
                message = _with_own_ids(message, taken)
                unanswered = list(zip(given, (call.id for call in message.calls), strict=True))
        kept.append(message)
    return tuple(kept)


def _with_own_ids(message: AssistantMessage, taken: set[str]) -> AssistantMessage:
    blocks = list(message.blocks)
    for place, block in enumerate(blocks):
        if isinstance(block, ToolCall):
            raw = block.raw if is_json(block.raw) else parse_arguments(block.raw.decode(errors="replace"))
            # A slash separates the key of a child from its call.
            new = not block.id or block.id in taken or "/" in block.id
            own = next(name for n in count(len(taken)) if (name := f"earlier_{n}") not in taken) if new else block.id
            blocks[place] = call = ToolCall(block.name, raw, own)
            taken.add(call.id)
    return AssistantMessage(tuple(blocks))
