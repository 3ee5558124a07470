"""A provider that says what a function tells it to, in the words of a wire format, and a model in front of it."""

import json
from collections.abc import Callable
from typing import Any

from harness.providers import Answer, Provider
from harness.wires import WIRES, chat, claude, responses
from minideep import AuthenticationFailed, ContextOverflow, ModelError, Overloaded, RateLimited, Reply
from minideep.models.adapter import Adapter
from minideep.models.clients import Client

NEVER = Answer(b"", hold=True)
TOO_LONG = "prompt is too long: 300000 tokens > 200000 maximum"
REFUSALS: dict[str, dict[type[ModelError], tuple[int, str]]] = {
    "anthropic": {
        RateLimited: (429, "rate_limit_error"),
        Overloaded: (529, "overloaded_error"),
        AuthenticationFailed: (401, "authentication_error"),
        ContextOverflow: (400, "invalid_request_error"),
    },
    "openai": {
        RateLimited: (429, "rate_limit_exceeded"),
        Overloaded: (503, "server_is_overloaded"),
        AuthenticationFailed: (401, "invalid_api_key"),
        ContextOverflow: (400, "context_length_exceeded"),
    },
}
REFUSALS["openai-chat"] = REFUSALS["openai"]


class Replying(Provider):
    """Answers each request with what *answer* says for the text of its last message."""

    def __init__(self, kind: str, answer: Callable[[str], Reply | ModelError | None]) -> None:
        super().__init__()
        self._kind, self._answer = kind, answer
        self._clients: list[Any] = []

    def answer_to(self, body: Any) -> Answer:
        match self._answer(last_text(body.get("messages") or body["input"])):
            case None:
                return NEVER
            case ModelError() as error:
                status, code = REFUSALS[self._kind][type(error)]
                said = TOO_LONG if isinstance(error, ContextOverflow) else str(error)
                return WIRES[self._kind].refusal(status, code, said)
            case reply:
                return WIRES[self._kind].answer(WHOLE[self._kind](reply), body.get("stream", False))

    def model(self, **settings: Any) -> Any:
        """Return a model that makes a client of its own for each event loop, as it does without one."""
        model: Adapter[Any] = WIRES[self._kind].model(None, **settings)
        model._client = Client(None, self._connect)
        return model

    def _connect(self) -> Any:
        self._clients.append(client := WIRES[self._kind].connected(self.url))
        return client

    async def close_clients(self) -> None:
        """Close the clients of this event loop, or Python warns of their connections."""
        while self._clients:
            await self._clients.pop().close()


def last_text(said: Any) -> str:
    """The text of the last of some messages, whichever format they are in."""
    match said:
        case [*_, last]:
            return last_text(last)
        case {"content": inner} | {"text": inner} | {"output": inner}:
            return last_text(inner)
        case _:
            return said


def _in_claudes_words(reply: Reply) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.args} for call in reply.message.calls]
    text = [claude.text(reply.message.text)] if reply.message.text else []
    return claude.message(*text, *calls, stop="tool_use" if calls else "end_turn")


def _as_a_response(reply: Reply) -> dict[str, Any]:
    text = [responses.message(reply.message.text)] if reply.message.text else []
    calls = [responses.call(call.id, json.dumps(call.args), name=call.name) for call in reply.message.calls]
    return responses.response(*text, *calls)


def _as_a_completion(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"content": reply.message.text or None}
    for call in reply.message.calls:
        function = {"name": call.name, "arguments": json.dumps(call.args)}
        message.setdefault("tool_calls", []).append(chat.call(call.id, "", function=function))
    return chat.completion(message, "tool_calls" if reply.message.calls else "stop")


WHOLE: dict[str, Callable[[Reply], dict[str, Any]]] = {
    "anthropic": _in_claudes_words,
    "openai": _as_a_response,
    "openai-chat": _as_a_completion,
}
