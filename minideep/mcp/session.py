"""The connection to one MCP server, on one event loop: opened, and opened anew after it broke."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ..errors import ConfigError, ToolError
from ..messages import ToolResult
from .results import result_of

if TYPE_CHECKING:
    from mcp import Client

Listed = Sequence[Any]
Transport = Callable[["Noted", Callable[[], None]], Any]
"""Opens the way to a server, which notes what it says, and calls the function when no more messages come."""
VERSION: str = import_module(__name__.partition(".")[0]).__version__
MAX_NOTED = 2_000
"""Characters of what a server says that are kept: the last ones."""
MAX_PAGES = 100
"""Pages of a list of tools that are read: a server may have no last one."""
LEAVE_SECONDS = 8.0
"""How long leaving a server may take: two seconds to end by itself, two after SIGTERM, and then it is killed."""


class Noted(asyncio.Protocol):
    """The end of what a server says beside the protocol, which is often the only reason why it failed."""

    is_about_the_last = False
    """True if it belongs to the last answer of the server, and not just to its life."""

    def __init__(self) -> None:
        self.text: str = ""

    def data_received(self, data: bytes) -> None:
        self.text = (self.text + data.decode(errors="replace"))[-MAX_NOTED:]


class Connection:
    """One connection, from entering the SDK's client to leaving it, both in the task of `run`."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[Client | None] = asyncio.get_running_loop().create_future()
        """None: it could not be made."""
        self.over: asyncio.Event = asyncio.Event()
        """Set when no more answers can come."""
        self.calls = 0
        """Calls that are under way."""
        self.cause: BaseException | None = None
        """Why it could not be made, or ended; None if it was closed, or if the server just left."""
        self.noted: Noted = Noted()
        self.task: asyncio.Task[None] | None = None

    @property
    def client(self) -> "Client":
        client = self.opened.result()
        assert client is not None
        return client

    async def run(
        self,
        transport: Transport,
        modes: Sequence[str],
        connect_timeout: float,
        show: Callable[["Client", Listed], None],
    ) -> None:
        """Connect, tell *show* which tools there are, and stay until the connection is over."""
        changed = asyncio.Event()
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(connect_timeout):
                    client = await self._entered(stack, transport, modes, changed)
                    show(client, await _listed(client))
                await stack.enter_async_context(_beside(_follow(client, changed, show)))
                self.opened.set_result(client)
                await self.over.wait()
        except BaseException as exc:  # noqa: BLE001  Whatever the SDK raises; those who wait are told.
            self.cause = exc
        finally:
            self.over.set()
            if not self.opened.done():
                self.opened.set_result(None)

    async def _entered(
        self, stack: AsyncExitStack, transport: Transport, modes: Sequence[str], changed: asyncio.Event
    ) -> "Client":
        """Return the SDK's client, entered in the first of the *modes* that the server does not refuse."""
        from mcp import Client, MCPError
        from mcp.types import CONNECTION_CLOSED, Implementation

        about = Implementation(name="minideep", version=VERSION)
        for mode in modes:
            way = transport(self.noted, self.over.set)
            client = Client(way, mode=mode, client_info=about, message_handler=_noticing(changed), cache=None)
            try:
                return await stack.enter_async_context(client)
            except (MCPError, ExceptionGroup) as exc:
                codes = [getattr(leaf, "code", CONNECTION_CLOSED) for leaf in _leaves(exc)]
                if mode == modes[-1] or CONNECTION_CLOSED in codes:
                    raise
                self.over.clear()  # Only this attempt is.
        raise AssertionError  # The last one returns or raises.

    async def leave(self) -> None:
        """End the connection, and wait until it has ended."""
        self.over.set()
        if self.task is not None:
            if not self.opened.done():
                self.task.cancel()
            await asyncio.wait([self.task], timeout=LEAVE_SECONDS)


class Session:
    """Calls the tools of a server, to which *transport* leads, in the first of the SDK's *modes* that it speaks.

    *show* is given its tools when it was reached, and when it says that they have changed. No error shows a value of
    *secrets*.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        modes: Sequence[str],
        secrets: Mapping[str, str],
        connect_timeout: float,
        show: Callable[[Listed], None],
    ) -> None:
        self.name: str = name
        """The server as errors name it: as it calls itself, once it has said so."""
        self.instructions: str = ""
        self._transport, self._modes = transport, modes
        words = [word for value in secrets.values() for word in (value, *value.split())]
        self._secrets = [word for word in words if len(word) > 7]  # A shorter one may be any word of an error.
        self._connect_timeout = connect_timeout
        self._show_tools = show
        self._connection: Connection | None = None

    async def open(self) -> Connection:
        """Return the connection. It is made now if there is none, or if the last one is over.

        Raises:
            ConfigError: the server cannot be reached.
        """
        connection = self._connection
        if connection is None or connection.over.is_set():
            connection = self._connection = Connection()
            life = connection.run(self._transport, self._modes, self._connect_timeout, self._show)
            connection.task = asyncio.create_task(life)
        # Shielded: another call may wait for the same connection.
        if await asyncio.shield(connection.opened) is None:
            raise ConfigError(f"{self.name} cannot be reached: {self._words(connection)}")
        return connection

    async def close(self) -> None:
        """Leave the server. Calls that are under way get an error."""
        if self._connection is not None:
            await self._connection.leave()
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=1)

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolResult:
        """Call *tool* of the server, which is reached anew if the connection is over.

        A call that surely never arrived is made once more. Cancelling this cancels the request.

        Raises:
            ToolError: the server cannot be reached, refused the call, or broke while it worked on it.
        """
        for is_last in (False, True):
            try:
                connection = await self.open()
            except ConfigError as exc:
                raise ToolError(f"{exc}; the next call tries again") from None
            connection.calls += 1
            try:
                return result_of(await connection.client.call_tool(tool, arguments))
            except Exception as exc:  # noqa: BLE001  Whatever the SDK raises is the error of this call.
                if not is_last and await _never_arrived(connection, exc):
                    connection.over.set()
                    continue
                raise ToolError(self._failed(tool, connection, exc)) from None
            finally:
                connection.calls -= 1
        raise AssertionError  # The last attempt returns or raises.

    def _show(self, client: "Client", listed: Listed) -> None:
        if client.server_info is not None:
            self.name = f"the MCP server {client.server_info.name!r}"
        self.instructions = client.instructions or ""
        self._show_tools(listed)

    def _failed(self, tool: str, connection: Connection, exc: Exception) -> str:
        if connection.over.is_set():
            ended = f"{self.name} ended while it worked on {tool!r}, which may have taken effect"
            return f"{ended}: {self._words(connection, exc)}; the next call reaches it anew"
        return f"{self.name} could not call {tool!r}: {self._words(connection, exc)}"

    def _words(self, connection: Connection, exc: BaseException | None = None) -> str:
        """Return what went wrong, and what the server has said about it."""
        leaves = [leaf for one in (exc, connection.cause) if one is not None for leaf in _leaves(one)]
        parts = [_reason(leaf, self._connect_timeout) for leaf in leaves]
        if connection.noted.is_about_the_last or connection.over.is_set():
            parts.append(f"it said: {connection.noted.text.strip()}" if connection.noted.text.strip() else "")
        text = "; ".join(dict.fromkeys(filter(None, parts))) or "it ended"
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _reason(exc: BaseException, connect_timeout: float) -> str:
    match exc:
        case TimeoutError():
            return f"it did not answer within {connect_timeout:g} s; `connect_timeout` gives it longer"
        case FileNotFoundError():
            return f"there is no {exc.filename!r}"
        case asyncio.CancelledError():
            return "it was left"
        case _:
            data = getattr(exc, "data", None)  # Such as the page on which a person has to allow it.
            return f"{exc or type(exc).__name__}{'' if data is None else f' {data!r:.2000}'}"


def _leaves(exc: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a group of errors is made of."""
    if isinstance(exc, BaseExceptionGroup):
        for part in cast("BaseExceptionGroup[BaseException]", exc).exceptions:
            yield from _leaves(part)
    else:
        yield exc


async def _never_arrived(connection: Connection, exc: Exception) -> bool:
    """Return whether the server surely never got the call that ended with *exc*, and so may get it again."""
    if str(exc) == "Session terminated":  # The answer to every request, once a server was started anew.
        return True
    if connection.over.is_set() and connection.task is not None:
        await asyncio.wait([connection.task], timeout=LEAVE_SECONDS)
    # The error of one request ends a connection over HTTP, and another one may be under way at the server.
    kinds = {type(leaf).__name__ for leaf in _leaves(connection.cause or exc)}
    return connection.calls == 1 and bool(kinds) and kinds <= {"ConnectError", "ConnectTimeout"}


async def _listed(client: "Client") -> Listed:
    tools: list[Any] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def _noticing(changed: asyncio.Event) -> Any:
    """Return a handler of messages that nobody asked for, of which one kind matters. All others are dropped."""

    async def notice(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            changed.set()

    return notice


async def _follow(client: "Client", changed: asyncio.Event, show: Callable[["Client", Listed], None]) -> None:
    """Read the list of tools again whenever the server says that it has changed."""
    from mcp import MCPError

    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        return
    try:
        async with client.listen(tools_list_changed=True) as changes:
            async for _ in changes:
                show(client, await _listed(client))
    except (MCPError, RuntimeError):  # An older protocol, in which such messages come unasked.
        pass
    while await changed.wait():
        changed.clear()
        show(client, await _listed(client))


@asynccontextmanager
async def _beside(work: Any) -> AsyncGenerator[None]:
    """Run *work* beside the block, and end it with the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # A list that could not be read: the next call says what is wrong with the server.
