"""Looks for a model on this machine: Ollama and LM Studio, at their loopback ports, within a few milliseconds.

Whatever answers at these ports is not trusted: an answer has a limit in bytes and in time, and a name that is more than
a word is passed over.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from ..errors import ConfigError
from ..models import SERVERS, loopback_host, server_address

BUDGET = 0.045
"""Seconds for both servers together. With the event loop, which takes some as well, it stays below 50 ms."""
MAX_ANSWER = 1_000_000
"""Bytes of one answer."""
MAX_ASKED = 8
"""The most models of Ollama that are asked what they can do."""
_NAME = re.compile(r"[\w][\w.:/@+-]{0,199}", re.ASCII)

Fetch = Callable[[str, Any], Awaitable[Any]]
"""Returns the JSON at a path, to which a body is posted unless it is None; None if there is none."""


class Found(msgspec.Struct, frozen=True):
    """A model that was found, as a model string, and where."""

    model: str
    where: str


def find(addresses: Mapping[str, str], budget: float = BUDGET) -> Found | None:
    """Return a model that calls tools, of the first of the servers at *addresses* that has one; None if there is none.

    *addresses* are base URLs by the name of the server; only those on loopback are asked. All are asked at once, and
    what has not answered after *budget* seconds counts as not there.
    """
    places = {name: place for name, url in addresses.items() if (place := loopback(url))}
    if not places:
        return None
    names = asyncio.run(_within(budget, {name: _MODELS[name](_fetcher(*place)) for name, place in places.items()}))
    for name, (host, port) in places.items():
        if model := names.get(name):
            return Found(f"{name}:{model}", f"{SERVERS[name].title} at {host}:{port}")
    return None


def here() -> dict[str, str]:
    """Return the addresses at which the servers of this machine are looked for."""
    found: dict[str, str] = {}
    for name in _MODELS:
        with suppress(ConfigError):  # A variable that holds no address: whoever names the server is told.
            found[name] = server_address(name)
    return found


def loopback(url: str) -> tuple[str, int] | None:
    """Return host and port of *url*, or None if it may lead to another machine."""
    parts, host = urlsplit(url), loopback_host(url)
    return (host, parts.port or 80) if host and parts.scheme == "http" else None


async def _within(budget: float, searches: Mapping[str, Awaitable[str | None]]) -> dict[str, str | None]:
    """Return what each search found until now, when all have ended or *budget* seconds have passed."""
    tasks = {name: asyncio.ensure_future(search) for name, search in searches.items()}
    await asyncio.wait(tasks.values(), timeout=budget)
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    return {name: _result(task) for name, task in tasks.items()}


def _result(task: "asyncio.Future[str | None]") -> str | None:
    return None if task.cancelled() or task.exception() else task.result()


def _fetcher(host: str, port: int) -> Fetch:
    async def fetch(path: str, body: Any = None) -> Any:
        content = b"" if body is None else msgspec.json.encode(body)
        # HTTP 1.0: the answer comes in one piece and ends with the connection.
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.0\r\nHost: {host}:{port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(head.encode() + content)
            return _json(await _all_of(reader))
        finally:
            writer.transport.abort()  # Closing would wait for a server that does not read.

    return fetch


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    """Return everything up to the end of the connection, or nothing if that is too much."""
    parts = bytearray()
    while part := await reader.read(65536):
        parts += part
        if len(parts) > MAX_ANSWER:
            return b""
    return bytes(parts)


def _json(answer: bytes) -> Any:
    """Return the JSON in an answer of status 200; None for any other answer."""
    head, _, content = answer.partition(b"\r\n\r\n")
    if not re.match(rb"HTTP/1\.[01] 200\b", head):
        return None
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None


async def _of_ollama(fetch: Fetch) -> str | None:
    """Return the model that was changed last among those that call tools.

    Newer versions list what a model can do, older ones are asked for each. A model that Ollama passes on to its cloud
    is left out: it runs on another machine. https://docs.ollama.com/api/tags
    """
    listed = [entry for entry in _entries(await fetch("/api/tags", None), "models") if not _is_remote(entry)]
    asked = [entry["name"] for entry in listed if "capabilities" not in entry][:MAX_ASKED]
    answers = await asyncio.gather(*(fetch("/api/show", {"model": name}) for name in asked))
    shown = dict(zip(asked, answers, strict=True))
    for entry in listed:
        about = shown.get(entry["name"], entry)
        if isinstance(about, dict) and "tools" in _words(cast(dict[str, Any], about).get("capabilities")):
            return entry["name"]
    return None


def _is_remote(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("remote_host") or entry.get("remote_model")) or entry["name"].endswith(("-cloud", ":cloud"))


async def _of_lmstudio(fetch: Fetch) -> str | None:
    """Return a model that was trained to call tools, one that is loaded before others.

    https://lmstudio.ai/docs/api/rest-api; versions before 0.4 have only the second path.
    """
    if listed := await fetch("/api/v1/models", None):
        able = [
            (bool(entry.get("loaded_instances")), entry["name"])
            for entry in _entries(listed, "models", key="key")
            if _is_chat(entry) and _trained(entry.get("capabilities"))
        ]
    else:
        able = [
            (entry.get("state") == "loaded", entry["name"])
            for entry in _entries(await fetch("/api/v0/models", None), "data", key="id")
            if _is_chat(entry) and "tool_use" in _words(entry.get("capabilities"))
        ]
    return next((name for _, name in sorted(able, key=lambda model: not model[0])), None)


def _is_chat(entry: Mapping[str, Any]) -> bool:
    return entry.get("type") in ("llm", "vlm")


def _trained(capabilities: Any) -> bool:
    return isinstance(capabilities, dict) and cast(dict[str, Any], capabilities).get("trained_for_tool_use") is True


_MODELS: dict[str, Callable[[Fetch], Awaitable[str | None]]] = {"ollama": _of_ollama, "lmstudio": _of_lmstudio}
"""How each server is asked for a model, in the order in which they are taken."""


def _entries(answer: Any, field: str, key: str = "name") -> Iterator[dict[str, Any]]:
    """Yield the entries of a list of models whose name is one word, which is then under `name`."""
    listed = cast(dict[str, Any], answer).get(field) if isinstance(answer, dict) else None
    for entry in cast(list[Any], listed) if isinstance(listed, list) else ():
        name = cast(dict[str, Any], entry).get(key) if isinstance(entry, dict) else None
        if isinstance(name, str) and _NAME.fullmatch(name):
            yield {**entry, "name": name}


def _words(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []
