"""The two ways to a server: a process with its pipes, and streamable HTTP.

Both note what a server says beside the protocol: on standard error, which never reaches the terminal, or as the status
of an answer.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self, cast

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from ..models import loopback_host
from .session import Noted
from .tools import mended

logging.getLogger("mcp").addHandler(logging.NullHandler())  # Else it writes each line that is no message to stderr.
MAX_EVENT = 32 * 2**20
"""Bytes of one message over HTTP: enough for the media that one result may hold."""


class _Watched:
    """The messages of a server, lists of tools mended; *ended* is called when no more come, which the SDK only says at
    the next request.
    """

    def __init__(self, messages: Any, ended: Callable[[], None]) -> None:
        self._messages = messages
        self._ended = ended

    async def receive(self) -> Any:
        return await self._messages.receive()

    async def aclose(self) -> None:
        await self._messages.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        message = await self._messages.__anext__()
        result = getattr(getattr(message, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(listed := cast(dict[str, Any], result).get("tools"), list):
            # Mended on the way, because the SDK refuses the whole list for one tool.
            listed[:] = [mended(tool) for tool in cast(list[Any], listed)]
        return message

    async def __aenter__(self) -> Self:
        await self._messages.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        self._ended()
        return await self._messages.__aexit__(*exc)


@asynccontextmanager
async def stdio(
    words: list[str], env: Mapping[str, str], cwd: str | None, noted: Noted, ended: Callable[[], None]
) -> AsyncGenerator[Any]:
    """Start the command *words* and yield its streams. When the block ends, the process and its children end too."""
    about = StdioServerParameters(
        command=words[0], args=words[1:], env=dict(env), cwd=cwd, encoding_error_handler="replace"
    )
    reading, writing = os.pipe()
    read_end = os.fdopen(reading, "rb", 0)
    with read_end, os.fdopen(writing, "w") as stderr:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: noted, read_end)
        try:
            async with stdio_client(about, errlog=stderr) as (messages, requests):
                yield _Watched(messages, ended), requests
        finally:
            await asyncio.sleep(0)  # What the server said last is in the pipe.
            transport.close()


@asynccontextmanager
async def http(
    url: str, headers: Mapping[str, str], connect_timeout: float, noted: Noted, ended: Callable[[], None]
) -> AsyncGenerator[Any]:
    """Yield the streams of the server at *url*."""
    noted.is_about_the_last = True

    async def note(response: httpx2.Response) -> None:
        noted.text = f"HTTP {response.status_code} {response.reason_phrase}" if response.status_code >= 400 else ""

    # Calls have limits of their own, and a stream may be silent for as long as a call takes. A proxy cannot reach this
    # machine, and must not see what stays on it.
    client = httpx2.AsyncClient(
        headers=dict(headers),
        timeout=httpx2.Timeout(None, connect=connect_timeout),
        limits=httpx2.Limits(max_connections=None),
        event_hooks=cast(Any, {"response": [note]}),
        trust_env=not loopback_host(url),
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_EVENT) as streams,
    ):
        messages, requests = streams
        yield _Watched(messages, ended), requests
