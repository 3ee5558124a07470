"""`FrameSocket`: frames of bytes over a connected socket, on an event loop."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Generator

SIZE = struct.Struct(">I")
"""A frame is its size in bytes, and the bytes."""
END = b"\xff\xff\xff\xff"
"""Stands for the size of a frame after the last one. A connection that ends without it was cut."""
CHUNK = 64 * 1024


class FrameSocket:
    """A connected socket that sends and receives frames on the running loop. Made for one reader and one writer."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._received = bytearray()
        self._waiting = 0
        self._closed = False
        self.cut = False
        """True once `when_closed` has found that the other end is gone."""
        self.unsent: memoryview = memoryview(b"")
        """What `flush` has yet to send; kept when it is cancelled."""

    def __del__(self) -> None:
        self._socket.close()

    def connect(self, address: str) -> bool:
        return connect(self._socket, address)

    def close(self) -> None:
        """Close the connection, also for a task that waits for it and for the copies that C code has forked."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if not self._waiting:  # Else the one that waits closes it: its loop must forget the descriptor first.
            self._socket.close()

    def leave(self) -> None:
        """Let go of the copy that a forked process has."""
        self._closed = True
        self._socket.close()

    async def send(self, data: bytes) -> None:
        self.unsent = memoryview(data)
        await self.flush()

    async def flush(self) -> None:
        while self.unsent:
            try:
                self.unsent = self.unsent[self._socket.send(self.unsent) :]
            except BlockingIOError:
                await self._ready(writing=True)

    def send_some(self) -> None:
        """Send as much as there is room for. If the other end is gone, `receive` says so."""
        with contextlib.suppress(OSError):
            self.unsent = self.unsent[self._socket.send(self.unsent) :]

    async def receive(self, limit: int, seconds: float | None = None) -> bytes | None:
        """Return the next frame, or None at the end. A call that was cancelled can be repeated.

        Raises:
            ConnectionError: the connection was cut, or the frame has more than *limit* bytes.
            TimeoutError: nothing came for *seconds*.
        """
        received = self._received
        while True:
            if received.startswith(END):
                return None
            if len(received) >= SIZE.size:
                stop = SIZE.size + SIZE.unpack_from(received)[0]
                if stop > SIZE.size + limit:
                    raise ConnectionError("a frame is too long")
                if len(received) >= stop:
                    frame = bytes(received[SIZE.size : stop])
                    del received[:stop]
                    return frame
            await self._more(seconds)

    @contextlib.contextmanager
    def when_closed(self, callback: Callable[[], object]) -> Generator[None]:
        """Call *callback* if the other end closes the connection, or sends what nobody asked for."""
        loop, descriptor = asyncio.get_running_loop(), self._socket.fileno()

        def look() -> None:
            loop.remove_reader(descriptor)
            self.cut = True
            callback()

        loop.add_reader(descriptor, look)
        try:
            yield
        finally:
            loop.remove_reader(descriptor)

    async def _more(self, seconds: float | None) -> None:
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            async with asyncio.timeout(seconds):
                await self._ready(writing=False)
            return
        if not data:
            raise ConnectionError("the connection was cut")
        self._received += data
        await asyncio.sleep(0)  # One that never has to wait would keep the loop from everybody else.

    async def _ready(self, *, writing: bool) -> None:
        loop, descriptor = asyncio.get_running_loop(), self._socket.fileno()
        add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
        ready = loop.create_future()
        add(descriptor, _wake, ready)
        self._waiting += 1
        try:
            await ready
        finally:
            remove(descriptor)
            self._waiting -= 1
            if self._closed and not self._waiting:
                self._socket.close()


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def connect(sock: socket.socket, address: str) -> bool:
    """Connect, and return True; False if the listener is alive but has no room for now."""
    try:
        sock.connect(address)
    except BlockingIOError:
        return False
    return True
