"""`MCPClient`: one MCP server, whose tools agents of any event loop can use.

The connection lives on an event loop of its own, on a thread of its own. So plain code can open it, turns on several
event loops share it, and the SDK's cancel scopes are entered and left in one task, as they have to be.
"""

import asyncio
import atexit
import os
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack
from importlib import import_module
from pathlib import PurePath
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from ..checks import checked
from ..errors import ConfigError, ToolError
from ..kinds import Check, Pathname, Seconds
from ..messages import ToolResult
from ..mistakes import did_you_mean
from ..tools import Tool, logger
from ..workers import in_thread
from .session import Session
from .tools import MCPTool, fitting_names

CLOSE_SECONDS = 10.0
"""How long `close` waits: a server has two seconds to end by itself, two after SIGTERM, and is killed then."""
MAX_COMMAND = 100_000
"""Characters of a command: splitting a text into words is slow, and no system takes a much longer one."""
_SERVER = Check(
    lambda server: 0 < len(server) <= MAX_COMMAND,
    "the address of a server, such as 'https://example.com/mcp', or the command that starts one",
)
OVER_HTTP = ("auto",)
OVER_PIPES = ("legacy", "auto")
"""The SDK's ways to begin. A command is not asked for the newer protocol first: many that do not know it end then, or
say nothing for ten seconds: https://github.com/modelcontextprotocol/go-sdk/issues/1177
"""


class MCPClient:
    """The tools of one MCP server: `with MCPClient("uvx mcp-server-git") as git: Agent(model, git.tools)`.

    * *server* is an address that begins with `http://` or `https://`, which is reached over streamable HTTP, or a
      command, which is started and spoken to over its standard input and output: a text as a shell splits it, though no
      shell runs, or its words.
    * *only* names the tools of the server that agents get; by default all.
    * *prefix* stands before the name of each tool, to tell servers apart: `prefix="github_"`.
    * *headers* are sent with each HTTP request, such as `{"Authorization": f"Bearer {token}"}`. Keys belong there, not
      into the address, which the HTTP client logs.
    * *env* and *cwd* are the variables and the folder of a command. It gets nothing else of this environment but HOME,
      LOGNAME, PATH, SHELL, TERM and USER: a server must not see the keys of providers.
    * *connect_timeout* is in seconds; *timeout* is the limit of one call, and that of a single tool may be set:
      `git.tools[0].timeout = 300`.

    The server is reached when the block begins, `with` or `async with`, or by `connect`, and stopped when it ends, or
    by `close`. If it ends or breaks in between, the next call reaches it anew, once; a call that was under way gets an
    error result, as it may have taken effect.
    """

    @checked
    def __init__(
        self,
        server: Annotated[str | Sequence[str], _SERVER],
        *,
        only: Iterable[str] = (),
        prefix: str = "",
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Pathname | None = None,
        connect_timeout: Seconds = 30.0,
        timeout: Seconds | None = 60.0,
    ) -> None:
        self._is_url = isinstance(server, str) and server.startswith(("http://", "https://"))
        foreign = {"env": env, "cwd": cwd} if self._is_url else {"headers": headers}
        if given := [name for name, value in foreign.items() if value]:
            kind = "the address of a server" if self._is_url else "a command"
            raise ConfigError(f"MCPClient: {kind} takes no {' and no '.join(given)}; leave it out")
        self._only, self._prefix, self._timeout = tuple(only), prefix, timeout
        self._words = [str(server)] if self._is_url else _words(server)
        secrets = {**(headers or env or {})}
        place = os.fspath(cwd) if cwd is not None else None

        def transport(noted: Any, ended: Callable[[], None]) -> Any:
            from . import transports

            if self._is_url:
                return transports.http(self._words[0], secrets, connect_timeout, noted, ended)
            return transports.stdio(self._words, secrets, place, noted, ended)

        modes = OVER_HTTP if self._is_url else OVER_PIPES
        name = f"the MCP server {self._place!r}"
        self._session = Session(name, transport, modes, secrets, connect_timeout, self._show)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tools: dict[str, MCPTool] = {}
        self._names: list[str] = []
        """The names of the tools, as the server says them."""

    def __repr__(self) -> str:
        return f"MCPClient({self._place!r})"

    @property
    def _place(self) -> str:
        """The address without what may be secret in it, or the name of the command."""
        if not self._is_url:
            return PurePath(self._words[0]).name
        parts = urlsplit(self._words[0])
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def tools(self) -> list[Tool]:
        """The tools that the server has now. An agent keeps those that it was built with.

        Raises:
            ConfigError: the client was never connected.
        """
        if self._thread is None:
            raise ConfigError(f"{self!r} is not connected; use its tools inside `with MCPClient(...) as server:`")
        return list(self._tools.values())

    @property
    def instructions(self) -> str:
        """What the server says about its use, for an agent's `system_prompt`; may be empty."""
        return self._session.instructions

    # ---- its life

    def connect(self) -> Self:
        """Start the server, or reach it, and read the list of its tools. In a coroutine use `async with`: this blocks.

        Raises:
            ConfigError: it cannot be reached, does not answer in time, or lacks a tool that `only` names; or the client
                is connected already.
        """
        _load_sdk()
        opening = self._begin()
        with ExitStack() as failed:
            failed.callback(self.close)
            opening.result()
            self._check_only()
            failed.pop_all()
        return self

    def close(self) -> None:
        """Stop the server, or leave it. Calls that are under way get an error result. Closing twice does no harm."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        atexit.unregister(self.close)
        try:
            asyncio.run_coroutine_threadsafe(self._session.close(), loop).result(CLOSE_SECONDS)
        except TimeoutError:
            logger.warning("%r did not end within %s s and was left behind", self, CLOSE_SECONDS)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(CLOSE_SECONDS)
            if not self._thread.is_alive():
                loop.close()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await in_thread(_load_sdk)
        opening = self._begin()
        async with AsyncExitStack() as failed:
            failed.push_async_callback(in_thread, self.close)
            await asyncio.wrap_future(opening)
            self._check_only()
            failed.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await in_thread(self.close)

    def _begin(self) -> "Future[Any]":
        """Begin to open the connection, on a loop of its own; the future is that of another thread."""
        with self._lock:
            if self._loop is not None:
                raise ConfigError(f"{self!r} is connected already; make another client for another connection")
            self._loop = asyncio.new_event_loop()
            # A daemon: a server that hangs must not keep the program from ending.
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="minideep-mcp")
            self._thread.start()
            atexit.register(self.close)
            return asyncio.run_coroutine_threadsafe(self._session.open(), self._loop)

    # ---- its tools

    def _show(self, listed: Sequence[Any]) -> None:
        """Make tools of those that the server lists: when it was reached, and when it says that they have changed."""
        by_name = {tool.name: tool for tool in listed}
        self._names = list(by_name)
        chosen = [tool for name, tool in by_name.items() if not self._only or name in self._only]
        names = fitting_names([f"{self._prefix}{tool.name}" for tool in chosen])
        before, now = self._tools, dict[str, MCPTool]()
        for name, tool in zip(names, chosen, strict=True):
            now[name] = MCPTool(name, tool, self._session.name, self._timeout, self._call)
            if name in before and before[name].listed == tool:
                now[name] = before[name]  # It may have been given a timeout of its own.
        self._tools = now
        if before and before.keys() != now.keys():
            changes = f"new: {sorted(now.keys() - before.keys())}, gone: {sorted(before.keys() - now.keys())}"
            logger.warning("%r has changed its tools (%s); agents keep those that they were built with", self, changes)

    def _check_only(self) -> None:
        for name in self._only:
            if name not in self._names:
                known = did_you_mean(name, self._names, f"; it has {', '.join(self._names) or 'none'}")
                raise ConfigError(f"{self!r} has no tool {name!r}, which `only` names{known}")

    async def _call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool of the server from any event loop. Cancelling this cancels the request."""
        with self._lock:  # No call may begin on a loop that is about to stop.
            loop = self._loop
            # A forked process has the client, but not its thread.
            if loop is None or self._thread is None or not self._thread.is_alive():
                closed = f"the connection to {self._session.name} is closed"
                raise ToolError(f"{closed}: its block has ended, or is another process's")
            outcome = asyncio.run_coroutine_threadsafe(self._session.call(name, arguments), loop)
        return await asyncio.wrap_future(outcome)


def _load_sdk() -> None:
    """Import the SDK, which takes a second."""
    try:
        import_module(".transports", __package__)
    except ModuleNotFoundError as exc:
        raise ConfigError(f"MCPClient needs the package {exc.name!r}: pip install 'minideep[mcp]'") from None


def _words(server: str | Sequence[str]) -> list[str]:
    try:
        words = shlex.split(server) if isinstance(server, str) else list(server)
    except ValueError as exc:  # It may hold a key.
        raise ConfigError(f"MCPClient: the command cannot be split: {exc}; give it as a list") from None
    if not words or not words[0].strip():
        raise ConfigError(f"MCPClient: server must be {_SERVER.wanted}, not {server!r}")
    return words
