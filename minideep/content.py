"""Checks content that is more than a short text, before it is recorded: inputs, messages of hooks, results of tools.

What no provider takes must not get into a log: every later request of the thread would repeat it and be refused.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec import structs

from .errors import ConfigError, MiddlewareError
from .media import MAX_MEDIA, Media, labelled, refusal, resolved
from .messages import AssistantMessage, Block, Input, MediaLink, ToolMessage, ToolResult, UserMessage, clean_content
from .tools import MAX_RESULT

R = TypeVar("R", AssistantMessage, ToolMessage)


def checked_message(input: Input) -> UserMessage:
    """Return *input* as a message that the log can keep, its media labelled as their bytes are.

    Raises:
        ConfigError: it is empty, is not text, blocks or a `UserMessage`, or holds an image that no provider takes.
    """
    content: Any = input.content if isinstance(input, UserMessage) else input
    if not isinstance(content, str):
        try:
            content = tuple(content)
        except TypeError:
            raise ConfigError(f"the input must be text, blocks or a `UserMessage`, not {content!r}") from None
    for block in () if isinstance(content, str) else content:
        if not isinstance(block, Block):
            raise ConfigError(f"the input must be text, blocks or a `UserMessage`; it holds {block!r}")
    if not content or (isinstance(content, str) and not content.strip()):
        raise ConfigError("the input is empty; say what the agent is to do")
    return UserMessage(_recorded(content))


def checked_reply(message: R) -> R:
    """Return a reply or a result of a history as the log can keep it, its media labelled as their bytes are.

    Raises:
        ConfigError: it holds an image that no provider takes, or something that is not a block.
    """
    return structs.replace(message, content=_recorded(message.content))


def _recorded(content: Any) -> Any:
    try:
        content = clean_content(content)
        return content if isinstance(content, str) else _labelled(content)
    except (AttributeError, TypeError) as exc:
        raise ConfigError(f"the input holds a malformed block: {exc}") from None
    except ValueError as exc:
        raise ConfigError(f"the input holds {exc}") from None


def message_of_hook(hook: str, message: UserMessage) -> UserMessage:
    """Return the message of a hook, its media labelled as their bytes are.

    Raises:
        MiddlewareError: it holds an image that no provider takes.
    """
    try:
        return UserMessage(_labelled(message.blocks))
    except ValueError as exc:
        raise MiddlewareError(f"{hook} returned {exc}") from None


def recordable(result: ToolResult) -> ToolResult:
    """Return *result*, its media labelled as their bytes are; or, if it is too large for a model or for the log, or
    holds an image that no provider takes, an error result that shows the beginning of its text.
    """
    content, text = result.content, result.text
    blocks = () if isinstance(content, str) else content
    media = sum(len(block.data) for block in blocks if isinstance(block, Media))
    if len(text) > MAX_RESULT:
        problem = f"the tool answered {len(text):,} characters, more than the {MAX_RESULT:,} that fit; ask it for less"
    elif media > MAX_MEDIA:
        problem = f"the tool answered {media:,} bytes of media, more than the {MAX_MEDIA:,} that fit; ask it for less"
    else:
        try:
            return structs.replace(result, content=_labelled(blocks)) if blocks else result
        except ValueError as exc:
            problem = f"the tool answered with {exc}"
    return ToolResult(f"{problem}. It begins: {text[:1000]}" if text else problem, is_error=True)


def _labelled(blocks: Iterable[Any]) -> tuple[Any, ...]:
    """Return *blocks* with media labelled as their bytes are. What is malformed is left to the log's encoder.

    Raises:
        ValueError: one is an image or a link that no provider takes; the text says what it is and what to do.
    """
    kept: list[Any] = []
    for block in blocks:
        one = resolved(block) if isinstance(block, MediaLink) and type(block.url) is str else block
        if isinstance(one, Media) and type(one.data) is bytes:
            if problem := refusal(one):
                raise ValueError(problem)
            one = labelled(one)
        kept.append(one)
    return tuple(kept)
