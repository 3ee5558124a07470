"""A model is asked over its real SDK, and what its server and its listeners saw is kept."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from harness.providers import Answer, Provider
from minideep import ModelError, UserMessage, tool
from minideep.ports import Reply, Request

HELLO = Request("", (UserMessage("hello"),))


@tool
def ls(path: str) -> str:
    """List a folder."""
    return path


class Heard(NamedTuple):
    reply: Reply
    bodies: list[Any]
    events: list[Any]


def asking(connected: Callable[..., Any], model: Callable[..., Any]) -> Callable[..., Heard]:
    """A function that asks a *model* whose client is *connected* to a server with scripted answers."""

    def ask(
        *answers: Answer,
        request: Request = HELLO,
        requests: tuple[Request, ...] = (),
        listen: bool = True,
        retries: int = 0,
        part: bool = False,
        **settings: Any,
    ) -> Heard:
        """Ask *requests*, or one *request*; the last reply is returned. An error has the events as `told`.

        The messages of the requests may be *part* of a conversation, which a real API would refuse.
        """
        told: list[Any] = []

        async def go() -> Heard:
            with Provider(*answers, part=part) as provider:
                async with connected(provider.url, retries=retries) as client:
                    asked = model(client, **settings)
                    replies = [
                        await asked.complete(one, told.append if listen else None) for one in requests or [request]
                    ]
            return Heard(replies[-1], provider.bodies, told)

        try:
            return asyncio.run(go())
        except ModelError as error:
            error.told = told  # type: ignore[attr-defined]
            raise

    return ask
