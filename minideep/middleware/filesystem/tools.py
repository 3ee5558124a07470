"""The file tools: list, read, write, edit, delete, find and search, on any backend."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, json

from ... import backends
from ...access import Access
from ...backends import Missing, PermittedBackend, decode, encodable, encode, escaped, is_within, quoted, unescaped
from ...checks import checked
from ...context import ToolContext
from ...errors import ToolError
from ...events import FileDeleted, FileEdited, FileWritten, Noted
from ...messages import AnyBlock, ToolCall
from ...parameters import Alias
from ...ports import Backend, Middleware
from ...state import Edit, OpenCall
from ...tools import Tool
from ...workers import in_thread
from .edits import Replacement, edited, steps
from .pages import OutputMode, explain_no_hits, render_file, render_found, render_hits, render_list

OWNER = "files"
"""The owner of the notes: each path, with the beginning of the SHA-256 that this run read or wrote last."""

_NOTED = 16  # Hex digits. 64 bits tell the versions of a file apart, and the notes stay small.
_CHANGES = frozenset({"write_file", "edit_file", "delete"})
_UNREAD = "you have not read it; read it, then decide whether to make this change"
_UNREADABLE = "it is binary, and you have not made it; leave it, or delete it first if it is to go"
_PROMPT = """\
Files: paths are absolute, and the working folder is {home}. {about}Find with `glob` and `grep`, read what you need, \
then change it. Read a file before you edit or replace it, and prefer editing one to creating another: make only the \
files that the task needs. Put independent reads, listings and searches into one reply; they run together. Keep large \
material (sources, data, drafts) in files and refer to it by path instead of repeating it."""

# Other names, which models know from other tools of this kind.
_File = Annotated[str, Alias("path", "file", "filename", "absolute_path", "target_file")]
_Folder = Annotated[str, Alias("directory", "dir", "folder", "dir_path", "directory_path", "target_directory")]
_Content = Annotated[str, Alias("contents", "text", "file_content", "file_text")]
_Old = Annotated[str, Alias("old", "old_str", "old_text")]
_New = Annotated[str, Alias("new", "new_str", "new_text", "replacement")]
_Lines = Annotated[int, Meta(ge=1), Alias("max_lines")]
_Matches = Annotated[int, Meta(ge=1), Alias("limit", "head_limit", "max_results")]
_T = TypeVar("_T")


class _Target(Struct):
    """The only argument that is decoded of another call; its content may be long."""

    file_path: str


_TARGET = json.Decoder(_Target)


class FilesystemMiddleware(Middleware):
    """Gives the agent seven tools over *backend*. Their docstrings are the descriptions that the model reads.

    The version of each file that a run read or wrote last is noted. So a run cannot overwrite a change that somebody
    else has made since. The second change of one path in one reply is refused.
    """

    @checked
    def __init__(self, backend: Backend) -> None:
        self._backend = PermittedBackend(backend)
        self._home: str = backend.home
        self.prompt: str = _prompt(self._home, getattr(backend, "about", ""))  # Not every backend has it.
        functions = self.ls, self.read_file, self.write_file, self.edit_file, self.delete, self.glob, self.grep
        self.tools: Sequence[Tool] = tuple(map(Tool, functions))
        in_state, reads, writes = getattr(backend, "in_state", False), self._reads, self._writes
        for tool in self.tools:  # As arguments of `Tool` they would be checked for each agent that is built.
            tool.thread_only, tool.access = in_state, writes if tool.name in _CHANGES else reads

    async def add_files(self, ctx: ToolContext, files: Mapping[str, str | bytes]) -> None:
        def record(path: str, data: bytes, kept: bool) -> None:
            event = _written(ctx, path, data, kept)
            # Between two turns nobody tells the model: it has to read the file before it changes it.
            self._record(ctx, event) if ctx.state.status == "running" else ctx.record(event)

        await backends.write_given(ctx, self._backend, files, record)

    async def ls(self, ctx: ToolContext, path: _Folder = ".") -> str:
        """List one folder: full paths, folders with a final `/`, at most 1,000. To look deeper use `glob`.

        Error if `path` is missing (list the folder above) or a file.
        """
        path = self._path(path)
        found = await self._hop(ctx, self._backend.ls, ctx, path)
        lines = [f"{escaped(info.path)}/" if info.is_dir else escaped(info.path) for info in found]
        return render_list(lines) or f"no files in {quoted(path)}"

    async def read_file(
        self, ctx: ToolContext, file_path: _File, offset: Annotated[int, Meta(ge=0)] = 0, limit: _Lines = 100
    ) -> str | tuple[AnyBlock, ...]:
        """Read a text file or notebook, or look at an image or PDF. To search use `grep`.

        `offset`: lines to skip; `limit`: lines to read, more if you need it whole; 80,000 characters at most. A header
        comes first, `@@ lines 1-100 of 250 | next offset 100 @@`; below it stands the exact text. The header is not
        part of the file: go on from its next offset. Error if missing (try `glob`), binary or over 10 MB.
        """
        path = self._path(file_path)
        digest, page = await self._hop(ctx, self._read, ctx, path, offset, limit)
        self._note(ctx, path, digest)
        return page

    async def write_file(self, ctx: ToolContext, file_path: _File, content: _Content) -> str:
        """Create a file and its folders, or replace all of one that you have read; for a part use `edit_file`.

        `content` becomes the whole file, so write it out: never "the rest as before". Error if it changed since you
        read it (read it again), or an earlier call of this reply changes it (wait for its result).
        """
        path = self._target(ctx, file_path)
        event, said = await self._hop(ctx, self._write, ctx, path, content, self._is_known(ctx, path))
        self._record(ctx, event)
        return said

    async def edit_file(
        self,
        ctx: ToolContext,
        file_path: _File,
        old_string: _Old,
        new_string: _New,
        replace_all: bool = False,
        edits: Sequence[Sequence[str]] = (),
    ) -> str:
        """Replace text in a file that you have read; for all of it use `write_file`.

        `old_string`: copied exactly from what `read_file` showed, with spaces and line breaks, without the `@@` header.
        It must be there exactly once: add lines round it, or set `replace_all` for every place. `new_string` stands
        there instead; empty deletes it. `edits`: more `[old, new]` pairs, all made or none. Error, and nothing changed,
        if it is not there (read again), there more often, or as for `write_file`.
        """
        path = self._target(ctx, file_path)
        pairs = [(old_string, new_string), *edits]
        events, said = await self._hop(ctx, self._edit, ctx, path, pairs, replace_all, self._is_known(ctx, path))
        for event in events[:-1]:
            ctx.record(event)
        self._record(ctx, events[-1])
        return said

    async def delete(self, ctx: ToolContext, file_path: _File) -> str:
        """Delete a file, or a folder with all in it, for good; to empty a file use `write_file`.

        Delete only what the task asks for, or what you made. Error if missing (try `ls`), or an earlier call of this
        reply changes it (wait for its result).
        """
        path = self._target(ctx, file_path)
        gone = await self._hop(ctx, self._backend.delete, ctx, path)
        now, recorded = time.time(), encodable(path)
        for file in _deletions(ctx, recorded, [encodable(file) for file in gone]):
            ctx.record(FileDeleted(file, now, ctx.path))
        for file in [file for file in _notes(ctx) if is_within(file, recorded)]:
            ctx.record(Noted(OWNER, file, rule="delete"))
        return f"deleted {quoted(path)}{'' if gone == [path] else f' with all in it (files: {len(gone):,})'}"

    async def glob(
        self, ctx: ToolContext, pattern: Annotated[str, Alias("glob", "glob_pattern")], path: _Folder = "."
    ) -> str:
        """Find files by name: sorted paths, at most 1,000. For contents use `grep`.

        `pattern`: `*.py` at any depth below `path`; with a `/` relative to it (`src/**/*.{py,md}`), with a leading one
        from the root; also `?`, `[abc]`. Hidden names, node_modules and __pycache__ must be written out. Error if
        `path` is missing. Stops after 10 s, saying so: narrow it.
        """
        path = self._path(path)
        found = await self._hop(ctx, backends.find, ctx, self._backend, unescaped(pattern), path)
        return render_found(found, pattern, path)

    async def grep(
        self,
        ctx: ToolContext,
        pattern: Annotated[str, Alias("query", "search")],
        path: _Folder = ".",
        glob: Annotated[str, Alias("include", "include_pattern", "file_pattern")] = "",
        regex: Annotated[bool, Alias("is_regex", "use_regex", "regexp")] = False,
        ignore_case: Annotated[bool, Alias("-i", "case_insensitive", "insensitive")] = False,
        output_mode: OutputMode = "files_with_matches",
        context: Annotated[int, Meta(ge=0), Alias("-C", "context_lines")] = 0,
        max_count: _Matches = 1000,
    ) -> str:
        """Search files for literal text in a line, or with `regex` a Python regular expression. For names use `glob`.

        `path`: folder or file; `glob`: only such files (`*.py`); `output_mode`: paths, `content` as `path:line: text`,
        or `count`; `context`: lines round each; `max_count`: matches in all. Skips binaries, files over 10 MB, hidden
        folders, node_modules and __pycache__ (name one as `path`). Error if `path` is missing. Stops after 15 s or
        80,000 characters.
        """
        path = self._path(path)
        if not pattern or "\n" in pattern:
            raise ToolError(f"pattern must be text within one line, not {pattern[:200]!r}; give one line of it")
        if context and output_mode == "files_with_matches":
            output_mode = "content"  # Lines round a match are asked for to be seen.
        search = partial(
            backends.grep,
            pattern=pattern,
            path=path,
            glob=unescaped(glob),
            regex=regex,
            ignore_case=ignore_case,
            context=context if output_mode == "content" else 0,
            most=max_count,
            once=output_mode == "files_with_matches",
        )
        found = await self._search(ctx, path, search, slow=regex)
        lines = render_hits(found, output_mode, max_count)
        none = "" if found.hits else explain_no_hits(found, pattern, path, glob=glob, regex=regex)
        return "\n".join(filter(None, (none, lines)))

    # ---- the work, on a thread if the backend blocks

    async def _search(
        self, ctx: ToolContext, path: str, search: Callable[..., backends.Hits], slow: bool
    ) -> backends.Hits:
        if not slow or self._backend.blocking:
            return await self._hop(ctx, search, ctx, self._backend)
        files = await self._hop(ctx, backends.InMemory, ctx, self._backend, path)
        return await in_thread(search, ctx, files)  # It waits for another process, even if the backend does not block.

    async def _hop(self, ctx: ToolContext, work: Callable[..., _T], *args: object, **named: object) -> _T:
        def here() -> _T:
            try:
                return work(*args, **named)
            except Missing as exc:  # Only now: looking for similar names walks through the files.
                raise Missing(exc.path, backends.similar(ctx, self._backend, exc.path, self._home)) from None

        return await in_thread(here) if self._backend.blocking else here()

    def _read(self, ctx: ToolContext, path: str, offset: int, limit: int) -> tuple[str, str | tuple[AnyBlock, ...]]:
        data = self._backend.read(ctx, path)
        return _digest(data), render_file(path, data, offset, limit)

    def _write(self, ctx: ToolContext, path: str, content: str, known: bool) -> tuple[FileWritten, str]:
        data = encode(path, content)
        try:
            before, expect = self._current(ctx, path)
            if before not in (b"", data) and not known:
                raise ToolError(f"{quoted(path)} was not changed: {_UNREAD if decode(before) else _UNREADABLE}")
            said = f"replaced {quoted(path)} ({len(data):,} bytes, {len(before):,} before)"
        except Missing:
            expect, said = None, f"created {quoted(path)} ({len(data):,} bytes)"
        return _written(ctx, path, data, self._backend.write(ctx, path, data, expect)), said

    def _edit(
        self, ctx: ToolContext, path: str, pairs: Sequence[Sequence[str]], replace_all: bool, known: bool
    ) -> tuple[list[FileWritten | FileEdited], str]:
        before, expect = self._current(ctx, path)
        decoded = decode(before)
        if decoded is None:
            raise ToolError(f"{quoted(path)} is binary and cannot be edited as text; leave it, or write a new file")
        done = edited(path, decoded.text, pairs, replace_all)
        count = sum(part.count for part in done.parts)
        if count > len(pairs) and not known:
            raise ToolError(f"{quoted(path)} was not changed: it has {count} such places, and {_UNREAD}")
        data = encode(path, done.text, decoded.encoding)
        kept = self._backend.write(ctx, path, data, expect)
        said = f"replaced {count} occurrence{'s' if count > 1 else ''} in {quoted(path)}"
        entry = ctx.state.files.get(path)
        # An edit is recorded by its two texts, which a replay can only repeat on the text that the state holds.
        texts = steps(decoded.text, done) if kept and entry and isinstance(entry.content, str) else None
        if texts is None:
            return [_written(ctx, path, data, kept)], said
        stages = zip(done.parts, (encode(path, text, decoded.encoding) for text in texts), strict=True)
        return [_step(ctx, path, *stage) for stage in stages], said

    def _current(self, ctx: ToolContext, path: str) -> tuple[bytes, str]:
        """Return the content of a file that is about to change, and its SHA-256.

        Raises:
            ToolError: it is not what this run read or wrote last.
        """
        data = self._backend.read(ctx, path)
        digest = _digest(data)
        if not digest.startswith(_notes(ctx).get(encodable(path), "")):
            raise backends.changed(path)
        return data, digest

    # ---- on the event loop

    def _is_known(self, ctx: ToolContext, path: str) -> bool:
        """Return whether this run has read or written the file, or a person answers for the call. What neither has seen
        must not be replaced.

        A text that is replaced once needs no such proof: to give it, the run must have seen it somewhere.
        """
        return encodable(path) in _notes(ctx) or ctx.decision is not None

    def _path(self, path: str) -> str:
        return backends.parsed(path, self._home)

    def _target(self, ctx: ToolContext, file_path: str) -> str:
        """Return the path to change.

        Raises:
            ToolError: an earlier call of the same reply changes it, something in it, or a folder above it. Calls of a
                reply run at the same time, so the result would depend on which is faster.
        """
        path = self._path(file_path)
        for entry in ctx.state.open.values():
            if entry.call.id == ctx.call_id:  # Only earlier calls count, or two calls would refuse each other.
                break
            other = self._changes(entry)
            if other and (is_within(path, other) or is_within(other, path)):
                problem = f"{quoted(path)} was not changed: this reply already has {entry.call.name} of {quoted(other)}"
                raise ToolError(f"{problem}; see its result, then make this change in your next reply")
        return path

    def target(self, call: ToolCall) -> str:
        """Return the path that a call of these tools changes, as the tool itself reads it; "" if it changes none."""
        if call.name not in _CHANGES:
            return ""
        try:
            return self._path(_target(call))
        except (msgspec.ValidationError, ToolError):  # That call will return an error.
            return ""

    def _reads(self, args: Mapping[str, Any]) -> tuple[Access, ...]:
        return self._reaches("read", args)

    def _writes(self, args: Mapping[str, Any]) -> tuple[Access, ...]:
        return self._reaches("write", args)

    def _reaches(self, operation: str, args: Mapping[str, Any]) -> tuple[Access, ...]:
        """Return what a call with *args* reaches. A path that no file has is left to the tool, which refuses it."""
        whole = "file_path" not in args
        try:
            path = self._path(args.get("path", ".") if whole else args["file_path"])
        except ToolError:
            return ()
        # Whether an edit succeeds tells what is in the file.
        access = Access(operation, path, whole or operation == "write")
        return (Access("read", path), access) if "old_string" in args else (access,)

    def _changes(self, entry: OpenCall) -> str:
        """Return the path that a call changes, with the arguments of a person who edited them; "" if none."""
        call = entry.call
        if isinstance(entry.decision, Edit):
            edited = ToolCall(call.name, entry.decision.raw, call.id)
            call = next((tool.normalized(edited) for tool in self.tools if tool.name == call.name), edited)
        return self.target(call)

    def _record(self, ctx: ToolContext, event: FileWritten | FileEdited) -> None:
        ctx.record(event)
        self._note(ctx, event.file, event.sha256)

    def _note(self, ctx: ToolContext, path: str, digest: str) -> None:
        path = encodable(path)
        if _notes(ctx).get(path) != digest[:_NOTED]:  # Reading a file again must not make the log longer.
            ctx.record(Noted(OWNER, path, digest[:_NOTED]))


@lru_cache(maxsize=64)
def _prompt(home: str, about: str) -> str:
    """Return the same string for the same files: a service builds an agent a request."""
    return _PROMPT.format(home=f"`{escaped(home)}`", about=f"{about} " if about else "")


def _target(call: ToolCall) -> str:
    try:
        return _TARGET.decode(call.raw).file_path
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # Lone surrogates. Only `json` reads them, and so the tool gets them too.
        return msgspec.convert(call.args, _Target).file_path


def _notes(ctx: ToolContext) -> Mapping[str, str]:
    return ctx.state.notes.get(OWNER, {})


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _written(ctx: ToolContext, path: str, data: bytes, kept: bool) -> FileWritten:
    content = backends.as_content(data) if kept else None
    return FileWritten(encodable(path), content, len(data), _digest(data), time.time(), ctx.path)


def _step(ctx: ToolContext, path: str, part: Replacement, data: bytes) -> FileEdited:
    return FileEdited(path, part.old, part.new, part.count > 1, len(data), _digest(data), time.time(), ctx.path)


def _deletions(ctx: ToolContext, path: str, gone: list[str]) -> list[str]:
    """Return the deleted files that the thread knows. *path* stands for the others: a disk may hold very many."""
    known = [file for file in gone if file in ctx.state.files]
    return known if len(known) == len(gone) > 0 else [*known, path]
