"""Files that come with an input: written by the agent's own backend, saved with the input, all of them or none."""

import asyncio
import threading

import pytest
from harness.middleware import AskFirst
from harness.processes import python
from harness.stores import FaultyStore, InstrumentedStore, plain

from minideep import (
    Agent,
    AssistantMessage,
    CheckpointError,
    ConfigError,
    MemoryCheckpointer,
    Middleware,
    MiddlewareError,
    ThreadConflict,
    ToolCall,
    ToolError,
    UserMessage,
    create_deep_agent,
)
from minideep.backends import FilesystemBackend, StateBackend
from minideep.backends.given import Writing
from minideep.blueprint import Blueprint
from minideep.checkpoint import open_store, read_page
from minideep.events import FileWritten
from minideep.middleware import FilesystemMiddleware
from minideep.models import ScriptedModel
from minideep.testing import tool_context

FILES = {"/notes.md": "one\ntwo", "data/a.bin": b"\xff\0"}


def agent(backend, *script, **more):
    return create_deep_agent(ScriptedModel(list(script) or ["ok"]), backend=backend, **more)


@pytest.fixture(params=["state", "disk"])
def backend(request, tmp_path):
    return StateBackend() if request.param == "state" else FilesystemBackend(tmp_path)


READ = ToolCall("read_file", {"file_path": "/notes.md"})
EDIT = ToolCall("edit_file", {"file_path": "/notes.md", "old_string": "one", "new_string": "1"})


@pytest.mark.parametrize("verb", ["run", "run_sync", "stream", "start"])
async def test_files_are_there_before_the_first_step(backend, verb):
    own = agent(backend, READ, EDIT, READ, "ok")
    if verb == "run":
        turn = await own.run("go", "t", files=FILES)
    elif verb == "run_sync":
        turn = await asyncio.to_thread(own.run_sync, "go", "t", files=FILES)
    elif verb == "stream":
        stream = own.stream("go", "t", files=FILES)
        seen = [event async for event in stream]
        assert [event.file for event in seen if isinstance(event, FileWritten)][:2] == ["/notes.md", "/data/a.bin"]
        turn = stream.turn
    else:
        turn = await (await own.start("go", "t", files=FILES))
    results = [message.text for message in turn.messages if message.role == "tool"]
    assert "one\ntwo" in results[0]
    assert "1\ntwo" in results[2]
    assert turn.text == "ok"


async def test_files_are_saved_with_the_input_in_one_append(backend):
    store = InstrumentedStore()
    saved = []

    def reply(request):
        saved.append((store.appends, [type(event).__name__ for event in read_page(open_store(store), "t", 0).events]))
        return "ok"

    own = create_deep_agent(ScriptedModel(reply), backend=backend, checkpointer=store)
    await own.run("go", "t", files=FILES)
    assert saved == [(1, ["UserSaid", "FileWritten", "Noted", "FileWritten", "Noted"])]


async def test_files_are_artifacts_of_the_turn_and_files_of_the_thread(backend):
    own = agent(backend)
    turn = await own.run("go", "t", files=FILES)
    sizes = {path: entry.size for path, entry in turn.artifacts.items()}
    assert sizes == {"/notes.md": 7, "/data/a.bin": 2}
    kept = isinstance(backend, StateBackend)
    assert own.read_file("t", "/notes.md") == ("one\ntwo" if kept else None)
    assert own.read_file("t", "/data/a.bin") == (b"\xff\0" if kept else None)
    again = await agent(backend, checkpointer=None).run("go", files={})
    assert again.artifacts == {}


async def test_a_file_that_was_changed_since_is_not_overwritten_by_the_agent(tmp_path):
    class Meddles(Middleware):
        async def before_model(self, ctx, request):
            (tmp_path / "notes.md").write_text("one of another")
            return request

    own = agent(FilesystemBackend(tmp_path), EDIT, "ok", middleware=[Meddles()])
    turn = await own.run("go", files=FILES)
    assert "changed since you read it" in turn.messages[2].text


async def test_files_replace_those_of_their_names_in_any_turn(backend):
    own = agent(backend, "a", READ, "b")
    await own.run("go", "t", files=FILES)
    turn = await own.run("again", "t", files={"/notes.md": "three"})
    assert "three" in turn.messages[2].text
    assert list(turn.artifacts) == ["/notes.md"]


async def test_a_history_and_files_begin_one_thread(backend):
    own = agent(backend, READ, "ok")
    history = [UserMessage("hi"), AssistantMessage("hello"), UserMessage("go on")]
    turn = await own.run(history, "t", files=FILES)
    assert turn.text == "ok"
    assert own.get_state("t", at=1).files == {}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"/a.md": "x", "../b.md": "y"}, r"files: path '../b.md' is refused: '..' is not allowed"),
        ({"/a.md": "x", "~/b": "y"}, "'~' is not expanded"),
        ({"/a.md": "x", "a.md": "y"}, "files: '/a.md' is given twice, the second time as 'a.md'; leave one out"),
        ({"/a.md": "x", "/a.md/b": "y"}, "files: '/a.md"),
        ({"/a.md": "x", "/": "y"}, "files: '/' is not the name of a file"),
        ({"/a.md": "x", "": "y"}, "files: '' is not the name of a file"),
        ({"/a.md": "x", "/b": b"x" * 10_000_001}, "files: '/b' has 10,000,001 bytes, more than the 10,000,000"),
        ({f"/{n}": b"x" * 9_000_000 for n in range(6)}, "files: they have 54,000,000 bytes, more than the 50,000,000"),
        ({"/a.md": "x", "/b": "\ud800"}, "which cannot encode"),
        ({"/a.md": 5}, "files..?/a.md..? must be text or bytes, not 5"),
        ({5: "x"}, "files's key 5 must be text"),
        (["/a.md"], "files must be a mapping, or None, not"),
    ],
    ids=lambda given: "" if isinstance(given, dict | list) else given[:40],
)
async def test_a_file_that_is_refused_leaves_nothing_half_done(backend, tmp_path, files, problem):
    store = MemoryCheckpointer()
    with pytest.raises(ConfigError, match=problem):
        await agent(backend, checkpointer=store).run("go", "t", files=files)
    assert plain(store).keys("", "\x7f") == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


async def test_what_was_written_before_the_refusal_is_put_back(tmp_path):
    (tmp_path / "old.md").write_text("old")
    (tmp_path / "folder").mkdir()
    own = agent(FilesystemBackend(tmp_path))
    await own.run("go", "t")
    with pytest.raises(ConfigError, match="'/folder' is a folder, not a file"):
        await own.run("again", "t", files={"/new.md": "new", "/old.md": "newer", "/folder": "x"})
    assert {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"old.md": "old"}
    assert len(own.transcript("t")) == 2
    assert own.get_state("t").files == {}


async def test_a_caller_who_is_cancelled_while_files_are_written_leaves_none(tmp_path):
    inside, go_on = threading.Event(), threading.Event()

    class Slow(FilesystemBackend):
        def write(self, ctx, path, data, expect=None):
            if path == "/b":
                inside.set()
                go_on.wait(10)
            return super().write(ctx, path, data, expect)

    store = MemoryCheckpointer()
    task = asyncio.ensure_future(agent(Slow(tmp_path), checkpointer=store).run("go", "t", files={"/a": "a", "/b": "b"}))
    await asyncio.to_thread(inside.wait)
    task.cancel()
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [*tmp_path.iterdir()] == []
    assert plain(store).keys("", "\x7f") == []


def test_a_write_that_begins_after_its_caller_has_left_writes_nothing(tmp_path):
    writing = Writing(tool_context(), FilesystemBackend(tmp_path))
    writing.write("/a", b"a")
    writing.undo()
    assert not writing.write("/b", b"b")
    assert [*tmp_path.iterdir()] == []


async def test_an_agent_without_files_refuses_them():
    store = MemoryCheckpointer()
    own = Agent("offline:", checkpointer=store)
    with pytest.raises(ConfigError, match=r"agent .main. has no files, .* add FilesystemMiddleware"):
        await own.run("go", "t", files=FILES)
    assert plain(store).keys("", "\x7f") == []


async def test_an_agent_with_file_tools_alone_takes_files():
    own = Agent(ScriptedModel([READ, "ok"]), middleware=[FilesystemMiddleware(StateBackend())])
    assert (await own.run("go", files=FILES)).text == "ok"


async def test_a_middleware_of_ones_own_takes_files():
    class Keeps(Middleware):
        def __init__(self):
            self.files = {}

        async def add_files(self, ctx, files):
            assert ctx.state.status == "running"
            self.files |= files

    mine, second = Keeps(), Keeps()
    await Agent(ScriptedModel(["ok"]), middleware=[mine, second]).run("go", files=FILES)
    assert (mine.files, second.files) == (FILES, {})


@pytest.mark.parametrize(
    ("raised", "error", "problem"),
    [
        (ToolError("the disk is full"), ConfigError, "files: the disk is full"),
        (OSError("gone"), MiddlewareError, "Breaks.add_files raised OSError: gone"),
    ],
)
async def test_what_the_hook_raises_refuses_the_input(raised, error, problem):
    class Breaks(Middleware):
        async def add_files(self, ctx, files):
            raise raised

    store = MemoryCheckpointer()
    with pytest.raises(error, match=problem):
        await Agent("offline:", middleware=[Breaks()], checkpointer=store).run("go", "t", files=FILES)
    assert plain(store).keys("", "\x7f") == []


async def test_an_input_that_was_accepted_is_not_written_again(tmp_path):
    own = agent(FilesystemBackend(tmp_path))
    await own.run("go", "t", key="k", files=FILES)
    (tmp_path / "notes.md").write_text("mine")
    assert (await own.run("go", "t", key="k", files=FILES)).text == "ok"
    assert (tmp_path / "notes.md").read_text() == "mine"


def test_a_thread_that_is_killed_right_after_has_its_files(tmp_path):
    python(
        """
        import os, sys
        from minideep import DiskCheckpointer, create_deep_agent
        from minideep.models import ScriptedModel
        if not os.fork():
            model = ScriptedModel(lambda request: os._exit(0))
            agent = create_deep_agent(model, checkpointer=DiskCheckpointer(sys.argv[1]))
            agent.run_sync("go", "t", key="k", files={"/notes.md": "one"})
        assert os.wait()[1] == 0
        from minideep import ToolCall
        script = ScriptedModel([ToolCall("read_file", {"file_path": "/notes.md"}), "ok"])
        agent = create_deep_agent(script, checkpointer=DiskCheckpointer(sys.argv[1]))
        turn = agent.run_sync("go", "t", key="k", files={"/notes.md": "two"})
        assert turn.text == "ok" and "one" in turn.messages[2].text, turn.messages
        """,
        tmp_path,
    )


async def test_an_approval_does_not_stand_before_files():
    own = agent(StateBackend(), middleware=[AskFirst("write_file")])
    assert (await own.run("go", files=FILES)).status == "ended"


async def test_an_input_that_loses_its_thread_is_not_accepted():
    store = InstrumentedStore()
    own = agent(StateBackend(), "a", "b", checkpointer=store)
    await own.run("go", "t")
    store.before = lambda what, *_: raise_conflict() if what == "append" else None
    with pytest.raises(ThreadConflict):
        await own.run("again", "t", files=FILES)
    store.before = None
    assert own.get_state("t").files == {}


def raise_conflict():
    raise ThreadConflict("another writer")


@pytest.mark.parametrize("outage", [False, True])
async def test_whatever_operation_of_the_store_fails_the_history_and_the_files_are_kept_once(outage):
    """The same input is sent under its key until it has an answer, by a caller whose process may be a new one."""
    history, failed = [UserMessage("hi"), AssistantMessage("hello"), UserMessage("go on")], True
    for at in range(1, 30):
        store = MemoryCheckpointer()
        failing = FaultyStore(store)
        failing.fail(at, outage=outage)
        try:
            turn = await agent(StateBackend(), "ok", checkpointer=failing).run(history, "t", key="k", files=FILES)
            assert turn.text == "ok"  # A failing store costs no answer.
        except CheckpointError:
            pass
        failed = failing.heal()
        own = agent(StateBackend(), "ok", checkpointer=store)
        turn = await own.run(history, "t", key="k", files=FILES)
        assert (turn.text, turn.saved) == ("ok", True)
        assert own.transcript("t") == [*history, AssistantMessage("ok")]
        assert {path: entry.size for path, entry in own.get_state("t").files.items()} == {
            "/notes.md": 7,
            "/data/a.bin": 2,
        }
        assert [one.status for one in own.history("t")] == ["ended", "ended"]
        if not failed:
            break
    assert not failed
    assert at > 3


async def test_a_blueprints_files_can_be_named_by_planner_and_roles(backend):
    seen = []

    def reply(request):
        seen.append(request.messages[-1].text)
        return "no plan"

    bound = Blueprint(ScriptedModel(reply), backend=backend)
    await bound.run("Write a poem", "t", files={"/notes.md": "one", "large.txt": "x" * 200_000})
    assert '"name":"notes.md","file":"notes.md","role":"user"' in seen[0]
    assert bound.artifact("t", "notes.md") == ("one" if isinstance(backend, StateBackend) else None)
    board = bound.board("t")
    assert {path: entry.bytes for path, entry in board.files.items()} == {"/notes.md": 3, "/large.txt": 200_000}
