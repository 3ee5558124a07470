"""`SocketExchange`: a process that runs a turn answers the questions of every process on the same directory.

Each event loop that runs turns listens on one Unix socket in the folder `live` of the store's directory. Each running
turn has a symbolic link there, named by a digest of its thread, whose target is the socket. So a turn needs no
descriptor, and an asker finds its runner with one look-up.

A question and each answer are one frame: their size in four bytes, and their bytes. A question begins with the digest.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, finalize, ref

from ..exchange import Answer, Answers
from .addresses import (
    DIGEST,
    close_socket,
    fits,
    is_private,
    link_name,
    listen,
    open_folder,
    remove_dead,
    remove_link,
    replace_link,
    sweep,
)
from .atfork import AtRest
from .frames import END, SIZE, FrameSocket, connect

FOLDER = "live"
MAX_QUESTION, MAX_ANSWER = 2**20, 32 * 2**20
"""Bytes."""
ACCEPTED, ACCEPT_SECONDS = 64, 0.25
"""Connections accepted in one go, and the pause after a failure: a full table of descriptors would spin the loop."""
FRAMES = 64
"""Answers sent in one go, before the other tasks of the loop get their turn."""
CONNECT_SECONDS = 0.01
"""The pause before another try to connect to a runner whose backlog is full."""
logger: logging.Logger = logging.getLogger("minideep")


class SocketExchange(AtRest):
    """Reaches the runners of the threads in *directory*, a real path. `announce` opens a socket if its loop has none.

    *question_seconds* is the time in which a connection must have asked. An iterator of answers that has heard nothing
    for *silence_seconds* ends if its turn is no longer announced: the event loop that should answer may never run
    again. A socket is closed after up to twice *idle_seconds* without a turn, and when its loop closes.
    """

    def __init__(
        self,
        directory: str,
        *,
        question_seconds: float = 10.0,
        silence_seconds: float = 10.0,
        idle_seconds: float = 60.0,
    ) -> None:
        super().__init__()
        self._directory = directory
        self._folder = str(Path(directory, FOLDER))
        self._question_seconds = question_seconds
        self._silence_seconds = silence_seconds
        self._idle_seconds = idle_seconds
        # Only the selector of its loop keeps a listener alive, so that it goes with the loop.
        self._listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[_Listener]] = WeakKeyDictionary()
        self._turns: WeakValueDictionary[str, _Listener] = WeakValueDictionary()
        self._connections: WeakSet[FrameSocket] = WeakSet()
        self._warned = False

    def announce(self, thread: str, answer: Answer) -> None:
        name = link_name(thread)
        with self.lock:
            self._forget(name)
            try:
                try:
                    self._turns[name] = self._listener().announce(name, answer)
                except FileNotFoundError:  # Somebody removed the folder, and the socket with it.
                    self._turns[name] = self._listener(fresh=True).announce(name, answer)
            except OSError as exc:
                if not self._warned:  # Once: it does not stop the turn, and the next ones will fare no better.
                    logger.warning("running turns cannot be reached from other processes: %s", exc)
                self._warned = True

    def withdraw(self, thread: str) -> None:
        with self.lock:
            self._forget(link_name(thread))

    def ask(self, thread: str, question: bytes) -> Answers | None:
        if len(question) > MAX_QUESTION:
            raise ValueError(f"a question of {len(question):,} bytes is too long; at most {MAX_QUESTION:,} are sent")
        name = link_name(thread)
        link = f"{self._folder}/{name}"
        try:
            target = str(Path(link).readlink())
        except OSError:
            return None
        address = target if target.startswith("/") else f"{self._folder}/{target}"
        if not fits(address) or not all(map(is_private, {self._folder, address.rpartition("/")[0]})):
            return None
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            connected = connect(sock, address)
        except OSError as exc:
            sock.close()
            remove_dead(self._folder, name, target, exc)
            return None
        connection = self._watched(sock)
        connection.unsent = memoryview(SIZE.pack(DIGEST + len(question)) + bytes.fromhex(name) + question)
        if connected:
            connection.send_some()
        return _Answers(connection, link, target, "" if connected else address, self._silence_seconds)

    def close(self) -> None:
        """Close the sockets of event loops that run no turn. May be called on any thread."""
        with self.lock:
            for loop, listener in list(self._listeners.items()):
                if (found := listener()) is not None:
                    with contextlib.suppress(RuntimeError):  # The loop is closed, and its socket with it.
                        loop.call_soon_threadsafe(found.stop_if_idle)

    def reset(self) -> None:
        # Nothing is removed or shut down: files and connections are the parent's, and only the descriptors were copied.
        for listener in self._listeners.values():
            if (found := listener()) is not None:
                found.leave()
        for connection in self._connections:
            connection.leave()
        self._listeners.clear()
        self._turns.clear()
        self._connections.clear()

    def _listener(self, *, fresh: bool = False) -> "_Listener":
        """Return the listener of the running loop, which is opened if there is none."""
        loop = asyncio.get_running_loop()
        known = self._listeners.get(loop)
        listener = known and known()
        if listener is not None and fresh:
            listener.stop()
        if listener is None or listener.closed:
            Path(self._directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            listener = _Listener(self._folder, self._watched, self._question_seconds)
            self._listeners[loop] = ref(listener)
            listener.start(self._idle_seconds)
        return listener

    def _forget(self, name: str) -> None:
        if (listener := self._turns.pop(name, None)) is not None:
            listener.withdraw(name)

    def _watched(self, sock: socket.socket) -> FrameSocket:
        """Return a connection that a forked process lets go of."""
        connection = FrameSocket(sock)
        with self.lock:
            self._connections.add(connection)
        return connection


class _Listener:
    """The socket of one event loop, and the answers of the turns that run there."""

    def __init__(self, folder: str, watched: "Callable[[socket.socket], FrameSocket]", question_seconds: float) -> None:
        self._watched = watched
        self._question_seconds = question_seconds
        self._answers: dict[str, Answer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._used = True
        self._starved = False
        self._folder = open_folder(folder)
        try:
            self._socket, self._target = listen(folder)
        except OSError:
            os.close(self._folder)
            raise
        # Not `__del__`: in a cycle the socket could be finalized first, and warn. It also runs when the program ends.
        self._finalizer = finalize(self, close_socket, self._socket, self._folder, self._target)
        for place in {folder, self._target.rpartition("/")[0] or folder}:
            sweep(place)

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def start(self, idle_seconds: float) -> None:
        """Accept connections on the running loop, until no turn has run for *idle_seconds*."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._socket.fileno(), self._accept)
        loop.call_later(idle_seconds, self._check_idle, idle_seconds)
        # The loop closes its generators after it has cancelled all tasks, when it must begin no more of them.
        self._shutdown = _at_shutdown(ref(self))
        with contextlib.suppress(StopIteration):
            anext(self._shutdown).__await__().send(None)  # Runs to its `yield`, which makes it known to the loop.

    def stop(self) -> None:
        """Close the socket, on its loop. Connections stay open until they are answered."""
        if not self.closed:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._finalizer()

    async def shut_down(self) -> None:
        """Close the socket, and cut the answers that are still under way."""
        self._cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop_if_idle(self) -> None:
        if not self._answers:
            self.stop()

    def leave(self) -> None:
        """Let go of the copy that a forked process has."""
        if self._finalizer.detach():
            self._socket.close()
            os.close(self._folder)

    def announce(self, name: str, answer: Answer) -> "_Listener":
        try:
            os.symlink(self._target, name, dir_fd=self._folder)
        except FileExistsError:  # Its runner was killed: a runner holds the thread, so there is one at most.
            replace_link(name, self._folder, self._target)
        self._answers[name] = answer
        self._used = True
        return self

    def withdraw(self, name: str) -> None:
        self._answers.pop(name, None)
        if not self.closed:
            remove_link(name, self._folder, self._target)

    def _cut(self) -> None:
        self.stop()
        for task in self._tasks:
            task.cancel()

    def _check_idle(self, seconds: float) -> None:
        if self._used:
            self._used = bool(self._answers)
        else:
            self.stop()
        if not self.closed:
            asyncio.get_running_loop().call_later(seconds, self._check_idle, seconds)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED):
            try:
                sock, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as exc:  # No descriptors are left. The askers wait meanwhile.
                if not self._starved:
                    logger.warning("cannot accept a question about a running turn for now: %s", exc)
                self._starved = True
                loop.remove_reader(self._socket.fileno())
                loop.call_later(ACCEPT_SECONDS, self._accept_again)
                return
            self._starved = False
            connection = self._watched(sock)
            task = loop.create_task(self._serve(connection))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, connection))

    def _accept_again(self) -> None:
        if not self.closed:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def _ended(self, connection: FrameSocket, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        connection.close()  # A task that was cancelled before it began has not.
        if task.cancelled():
            # Not by its asker, and not by itself: the loop ends, and would never finish what begins from now on.
            if task.cancelling() and not connection.cut:
                self._cut()
        elif (failed := task.exception()) is not None:
            logger.warning("a question about a running turn was not answered: %r", failed, exc_info=failed)

    async def _serve(self, connection: FrameSocket) -> None:
        """Answer the question of one connection, and close it."""
        with contextlib.closing(connection):
            question = b""
            with contextlib.suppress(OSError):  # A stranger: it says nothing, nonsense, or goes away.
                async with asyncio.timeout(self._question_seconds):
                    question = await connection.receive(DIGEST + MAX_QUESTION) or b""
            if len(question) < DIGEST:
                return
            answer = self._answers.get(question[:DIGEST].hex())
            if answer is None or await _send_answers(connection, answer, question[DIGEST:]):
                with contextlib.suppress(OSError):
                    await connection.send(END)


async def _at_shutdown(known: ref[_Listener]) -> AsyncGenerator[None]:
    """Shut the listener down when its loop closes the generators that it knows."""
    try:
        yield
    finally:
        if (listener := known()) is not None:
            await listener.shut_down()


async def _send_answers(connection: FrameSocket, answer: Answer, question: bytes) -> bool:
    """Send each answer once the asker has room for it. Return whether the asker stayed to the end."""
    answers, sent = answer(question), 0
    task = asyncio.current_task()
    assert task is not None
    try:
        with connection.when_closed(task.cancel):
            async for frame in answers:
                if len(frame) > MAX_ANSWER:
                    raise ValueError(f"an answer of {len(frame):,} bytes is too long; at most {MAX_ANSWER:,} are sent")
                try:
                    await connection.send(SIZE.pack(len(frame)) + frame)
                except OSError:
                    return False
                sent += 1
                if not sent % FRAMES:
                    await asyncio.sleep(0)
    finally:
        if aclose := getattr(answers, "aclose", None):
            await aclose()
    return True


class _Answers:
    """The answers that come over a connection. A `__anext__` that was cancelled can be repeated."""

    def __init__(self, connection: FrameSocket, link: str, target: str, address: str, seconds: float) -> None:
        self._connection = connection
        self._link = link
        self._target = target
        self._address = address
        """Where to connect; empty once that is done."""
        self._seconds = seconds
        self._over = False

    def __aiter__(self) -> "_Answers":
        return self

    async def __anext__(self) -> bytes:
        if self._over:
            raise StopAsyncIteration
        try:
            if self._address:
                await self._connect()
            frame = await self._receive()
        except OSError as exc:
            if self._over:  # Closed by another task.
                raise StopAsyncIteration from None
            await self.aclose()
            raise ConnectionError(f"the process that ran the turn ended, or let go of it: {exc}") from exc
        if frame is None:
            await self.aclose()
            raise StopAsyncIteration
        return frame

    async def aclose(self) -> None:
        self._over = True
        self._connection.close()

    async def _connect(self) -> None:
        until = time.monotonic() + self._seconds
        while not self._connection.connect(self._address):
            if time.monotonic() > until:
                raise TimeoutError("it accepts no connection")
            await asyncio.sleep(CONNECT_SECONDS)
        self._address = ""

    async def _receive(self) -> bytes | None:
        while True:
            try:
                if self._connection.unsent:
                    await self._connection.flush()
                return await self._connection.receive(MAX_ANSWER, self._seconds)
            except TimeoutError:
                if not self._is_announced():
                    raise

    def _is_announced(self) -> bool:
        try:
            return str(Path(self._link).readlink()) == self._target
        except OSError:
            return False
