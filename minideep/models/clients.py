"""Clients of the providers' SDKs: one for each event loop, with a key, for the provider or for another server."""

import asyncio
import gc
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from ..workers import in_thread
from .addresses import loopback_host, without_login
from .background import IMPORTING

T = TypeVar("T")
NO_KEY = "none"
"""Sent to a server that needs no key, since the SDKs want one, and must not take the provider's."""
DIRECT: Mapping[str, None] = dict.fromkeys(("all://", "http://", "https://"))
"""No proxies, in the words of httpx. Anthropic's client looks for those of the environment by itself."""


def new_client(
    sdk_name: str, client_class: str, home: str, told: Iterable[str], api_key: str | None, base_url: str | None
) -> Any:
    """Make an SDK's client, importing the SDK.

    Without a *base_url*, and at addresses of the provider's own domain *home*, it follows the SDK's rules. Any other
    server gets nothing that the environment holds for the provider, such as the headers *told* by it, and a placeholder
    in place of an *api_key*.
    """
    sdk = import_module(sdk_name)
    make = getattr(sdk, client_class)
    if base_url is None or f".{urlsplit(base_url).hostname}".endswith(f".{home}"):
        return make(api_key=api_key and api_key.strip(), base_url=base_url)
    url, login = without_login(base_url)
    key = (api_key or NO_KEY).strip()
    lines = os.environ.get(f"{sdk_name.upper()}_CUSTOM_HEADERS", "").split("\n")
    names = [*told, *(name for line in lines if (name := line.partition(":")[0].strip()))]
    headers: dict[str, Any] = {name: sdk.Omit() for name in names if name.lower() != "authorization"}
    # Sent as a header, since a name and a password in an address would stand in the log of each request.
    allowed = f"Basic {b64encode(login.encode()).decode()}" if login else f"Bearer {key}"
    return make(
        base_url=url,
        api_key=key,
        default_headers={**headers, "Authorization": allowed},
        # A proxy cannot reach this machine, and must not see what stays on it.
        http_client=sdk.DefaultAsyncHttpxClient(trust_env=False, mounts=DIRECT) if loopback_host(url) else None,
    )


class PerLoop(Generic[T]):
    """One value for each event loop. Those of closed loops are dropped when the next one is put."""

    def __init__(self) -> None:
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T | None:
        """Return the value of the running loop."""
        return self._values.get(asyncio.get_running_loop())

    def put(self, value: T) -> T:
        """Keep *value* for the running loop, unless it has one; return the one it has."""
        self.drop_closed()
        return self._values.setdefault(asyncio.get_running_loop(), value)

    def drop_closed(self) -> bool:
        """Drop the values of closed loops; return whether there were any."""
        closed = [loop for loop in list(self._values) if loop.is_closed()]
        for loop in closed:
            self._values.pop(loop, None)
        return bool(closed)


class Client(Generic[T]):
    """An SDK's client: the one *given*, or the one that *connect* makes, off the event loop, at first use.

    *connect* imports the SDK. Its connections belong to an event loop, so that a program which calls `asyncio.run`
    twice gets two clients.
    """

    def __init__(self, given: T | None, connect: Callable[[], T]) -> None:
        self._given = given
        self._connect = connect
        self._clients = PerLoop[T]()

    async def get(self) -> T:
        """Return the client of the running event loop."""
        client = self._given if self._given is not None else self._clients.get()
        return self._clients.put(await in_thread(self._make)) if client is None else client

    def _make(self) -> T:
        # Collected here, on a thread: on a running loop, a client of the SDKs would try to close its connections there,
        # though they belong to a loop that is closed.
        if self._clients.drop_closed():
            gc.collect()
        with IMPORTING:
            return self._connect()
