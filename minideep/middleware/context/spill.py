"""What the harness itself puts into a file, so that the model can look it up."""

import logging
import re
import time
from hashlib import sha256

from ...backends.names import shown
from ...backends.paths import MAX_FILE, RESULTS, Missing, below
from ...context import ToolContext
from ...errors import ToolError
from ...events import FileWritten
from ...messages import clean
from ...ports import Backend
from ...workers import in_thread

logger = logging.getLogger("minideep")
LONGEST_NAME = 100


def file_name(*given: str) -> str:
    """*given* as the name of a file: letters, digits, `-` and `_`, joined by dots; a hash of it, if it is too long."""
    name = ".".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in given)
    return name if len(name) <= LONGEST_NAME else digest("/".join(given))


def digest(content: str | bytes) -> str:
    """What tells contents apart in names: 16 hex digits."""
    return sha256(_bytes(content)).hexdigest()[:16]


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else clean(content).encode()


def place(backend: Backend, folder: str, name: str) -> str:
    """The path of *name* in a folder of the harness, which stands below the backend's home."""
    return below(below(backend.home, folder), name)


def result_place(ctx: ToolContext, backend: Backend, call_id: str) -> str:
    """The path of the result of a call."""
    # Two threads may write at once where writing waits for a disk, and servers exist that say `call_0` to both.
    thread = [digest(ctx.thread_id)] if backend.blocking else []
    return place(backend, RESULTS, file_name(*thread, *ctx.path, call_id))


async def keep(ctx: ToolContext, backend: Backend, path: str, content: str | bytes) -> str:
    """Write *content* to a new file at *path*, or beside it if something else is there, and record it as any file is.

    Returns where it is; nothing if it could not be written, which is logged.
    """
    data = _bytes(content)
    try:
        if len(data) > MAX_FILE:
            raise ToolError(f"{len(data):,} bytes are more than the {MAX_FILE:,} that can be read back")
        work = (_write, ctx, backend, path, data)
        at, kept = await in_thread(*work) if backend.blocking else work[0](*work[1:])
        inside = (content if isinstance(content, bytes) else data.decode()) if kept else None
        ctx.record(FileWritten(at, inside, len(data), sha256(data).hexdigest(), time.time(), ctx.path, kept))
    except Exception as exc:  # noqa: BLE001  The door to a backend: what was to be kept is still in context.
        logger.warning("%s was not written: %s", shown(path), exc)
        return ""
    return at


def _write(ctx: ToolContext, backend: Backend, path: str, data: bytes) -> tuple[str, bool]:
    """Where *data* was written, and whether the state keeps it: an id may come again, of another run or thread."""
    try:
        taken = backend.read(ctx, path) != data
    except Missing:
        taken = False
    except ToolError:  # Too large to be this, or no file at all.
        taken = True
    at = f"{path}-{digest(data)}" if taken else path
    return at, backend.write(ctx, at, data)
