"""Checks the input of a turn, if it is more than plain text."""

from typing import Any

from .errors import ConfigError
from .messages import Block, Input, UserMessage, clean_content


def checked_message(input: Input) -> UserMessage:
    """Return *input* as a message that the log can keep.

    Raises:
        ConfigError: it is empty, or is not text, blocks or a `UserMessage`.
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
    try:
        return UserMessage(clean_content(content))
    except (AttributeError, TypeError) as exc:
        raise ConfigError(f"the input holds a malformed block: {exc}") from None
