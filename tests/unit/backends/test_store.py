"""Files that outlast threads: who finds them, when, and what of the rest of the store leaves them alone."""

import re
import subprocess
import sys
import threading
import time
from hashlib import sha256
from os import urandom

import pytest
from harness.files import context, paths
from harness.stores import DistantStore, InstrumentedStore, plain

from minideep import (
    Agent,
    DiskCheckpointer,
    MemoryCheckpointer,
    Retention,
    ToolCall,
    ToolMessage,
    create_deep_agent,
    tool,
)
from minideep.backends import CompositeBackend, Missing, StateBackend, StoreBackend, find, read_only
from minideep.checkpoint import open_store
from minideep.checkpoint.maintenance import expire
from minideep.errors import ConfigError, ToolError
from minideep.models import ScriptedModel
from minideep.testing import tool_context


@pytest.fixture
def ctx():
    return context()


def texts(turn):
    return [message.text for message in turn.messages if isinstance(message, ToolMessage)]


def test_what_one_thread_wrote_another_reads_after_a_restart(tmp_path):
    def agent(*replies):
        store = DiskCheckpointer(tmp_path)
        backend = CompositeBackend(StateBackend(), {"/memories/": StoreBackend(store, ("memories", "acme"))})
        model = ScriptedModel([*replies, "ok"])
        memory = ["/memories/AGENTS.md"]
        return store, model, create_deep_agent(model, backend=backend, memory=memory, checkpointer=store)

    learn = ToolCall("write_file", {"file_path": "/memories/AGENTS.md", "content": "Ada likes tea."})
    store, _, first = agent(learn, ToolCall("write_file", {"file_path": "/plan.md", "content": "x"}))
    turn = first.run_sync("I like tea.", "monday")
    store.close()
    assert {name: entry.content for name, entry in turn.artifacts.items()} == {
        "/memories/AGENTS.md": None,
        "/plan.md": "x",
    }
    _, model, later = agent(ToolCall("glob", {"pattern": "**/*.md"}))
    assert texts(later.run_sync("What do I like?", "tuesday")) == ["/memories/AGENTS.md"]
    assert "Ada likes tea." in model.requests[0].system
    assert {info.thread_id for info in later.threads()} == {"monday", "tuesday"}


def test_each_user_has_files_of_their_own():
    backend = StoreBackend(MemoryCheckpointer(), lambda ctx: ("memories", ctx.context["user"]))
    replies = [ToolCall("write_file", {"file_path": "/me.md", "content": "Ada"}), "ok", ToolCall("ls"), "ok"]
    agent = create_deep_agent(ScriptedModel(replies), backend=backend)
    agent.run_sync("go", context={"user": "ada"})
    assert texts(agent.run_sync("go", context={"user": "bob"})) == ["no files in '/'"]
    assert backend.read(tool_context(context={"user": "ada"}), "/me.md") == b"Ada"


def verbs(backend):
    return (
        backend.ls,
        backend.read,
        backend.delete,
        lambda ctx, path: list(backend.walk(ctx, path)),
        lambda ctx, path: backend.write(ctx, path, b""),
    )


@pytest.mark.parametrize(
    "named", [(), ("memories", ""), ("memories", None), "memories", None, ("\ud800",), ("x" * 401,), 5]
)
def test_a_namespace_that_is_none_is_refused_and_never_shows_another(ctx, named):
    with pytest.raises(ConfigError, match=r"StoreBackend: namespace(\[1\])? must"):
        StoreBackend(MemoryCheckpointer(), named)
    backend = StoreBackend(MemoryCheckpointer(), lambda ctx: named)
    for act in verbs(backend):
        with pytest.raises(ConfigError, match=r"StoreBackend: namespace(\[1\])? must"):
            act(ctx, "/f")


def test_a_namespace_that_is_none_costs_a_call_and_not_the_run():
    backend = StoreBackend(MemoryCheckpointer(), lambda ctx: ("memories", ctx.context["user"]))
    agent = create_deep_agent(ScriptedModel([ToolCall("ls"), "ok"]), backend=backend)
    turn = agent.run_sync("go", context={"user": ""})
    assert (turn.status, "namespace must" in texts(turn)[0]) == ("ended", True)


PAIRS = [
    (("a", "b/c"), ("a/b", "c")),
    (("a", "b"), ("a,b",)),
    (("a",), ("a", "b")),
    (("*",), ("a",)),
    (("a%2Fb",), ("a/b",)),
    (("A",), ("a",)),
    (("é",), ("e\u0301",)),
    (("..", "a"), ("a",)),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_namespaces_share_nothing(ctx, one, other):
    store = MemoryCheckpointer()
    first, second = StoreBackend(store, one), StoreBackend(store, other)
    first.write(ctx, "/f", b"first")
    assert second.ls(ctx, "/") == []
    with pytest.raises(Missing):
        second.delete(ctx, "/f")
    second.write(ctx, "/f", b"second")
    assert second.delete(ctx, "/f") == ["/f"]
    assert first.read(ctx, "/f") == b"first"


def test_a_star_in_a_name_is_a_star(ctx):
    backend = StoreBackend(MemoryCheckpointer(), ("n",))
    for name in ("/*", "/a", "/a*", "/[a]", "/d/*", "/d/a", "/%", "/_"):
        backend.write(ctx, name, name.encode())
    assert backend.read(ctx, "/*") == b"/*"
    assert backend.delete(ctx, "/*") == ["/*"]
    assert backend.delete(ctx, "/_") == ["/_"]
    assert paths(backend.walk(ctx, "/")) == ["/%", "/[a]", "/a", "/a*", "/d/*", "/d/a"]
    assert find(ctx, backend, "[*]", "/").paths == ["/d/*"]


COUNT = """
import sys
from hashlib import sha256
from minideep import DiskCheckpointer
from minideep.backends import StoreBackend
from minideep.errors import ToolError
from minideep.testing import tool_context
backend, ctx = StoreBackend(DiskCheckpointer(sys.argv[1]), ("n",)), tool_context()
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    backend.write(ctx, f"/{sys.argv[2]}/{number}", b"x")
    while True:
        data = backend.read(ctx, "/count")
        try:
            backend.write(ctx, "/count", b"%d" % (int(data) + 1), sha256(data).hexdigest())
        except ToolError as exc:
            assert "changed since you read it" in str(exc), exc
        else:
            break
"""


REPLACE = """
import sys
from minideep import DiskCheckpointer
from minideep.backends import StoreBackend
from minideep.testing import tool_context
backend, ctx = StoreBackend(DiskCheckpointer(sys.argv[1]), ("n",)), tool_context()
for number in range(1_000_000):
    backend.write(ctx, f"/a/{number % 7}", b"%09d " % number * 2000)
    print(number, flush=True)
    backend.write(ctx, "/b/whole", b"x")
    backend.delete(ctx, "/b")
"""


def test_a_writer_that_is_killed_leaves_whole_files_and_no_lock(tmp_path, ctx):
    store = DiskCheckpointer(tmp_path)
    backend = StoreBackend(store, ("n",))
    for number in range(5):
        with subprocess.Popen([sys.executable, "-c", REPLACE, str(tmp_path)], stdout=subprocess.PIPE) as worker:
            for _ in range(10 + 7 * number):
                worker.stdout.readline()
            worker.kill()
        for info in backend.walk(ctx, "/a"):
            assert len(set(backend.read(ctx, info.path).split())) == 1
        assert store.verify() == []
        backend.write(ctx, "/mine", b"x")  # At once: the lock of a process ends with it.


@pytest.mark.parametrize("lease", [None, 30])
def test_writers_in_several_processes_lose_nothing(tmp_path, ctx, lease):
    code = COUNT.replace("sys.argv[1])", f"sys.argv[1], lease={lease})")
    with DiskCheckpointer(tmp_path, lease=lease) as store:
        backend = StoreBackend(store, ("n",))
        backend.write(ctx, "/count", b"0")
        command = [sys.executable, "-c", code, str(tmp_path)]
        workers = [
            subprocess.Popen([*command, name, "20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for name in "abc"
        ]
        for worker in workers:
            worker.stdout.readline()
        for worker in workers:
            worker.stdin.write(b"\n")
            worker.stdin.flush()
        assert [worker.communicate()[1] or worker.returncode for worker in workers] == [0, 0, 0]
        # What another process wrote is there at once.
        assert backend.read(ctx, "/count") == b"60"
        assert len(list(backend.walk(ctx, "/"))) == 61
        assert store.verify() == []


def test_files_are_no_threads_and_the_retention_of_threads_leaves_them_alone(ctx):
    store = MemoryCheckpointer(retention=Retention(boundaries=1, seconds=10.0))
    backend = StoreBackend(store, ("n",))
    backend.write(ctx, "/f", b"kept")
    agent = Agent(ScriptedModel(["ok"]), checkpointer=store)
    agent.run_sync("go", "t")
    assert [info.thread_id for info in agent.threads()] == ["t"]
    checked, now = open_store(store), time.time()
    expire(checked, now + 1e6)
    expire(checked, now + 1e7)
    assert (agent.threads(), backend.read(ctx, "/f"), store.verify()) == ([], b"kept", [])


def test_a_backup_has_the_files(tmp_path, ctx):
    with DiskCheckpointer(tmp_path / "a") as store:
        StoreBackend(store, ("n",)).write(ctx, "/f", b"kept")
        store.backup(tmp_path / "b")
    with DiskCheckpointer(tmp_path / "b") as copy:
        assert StoreBackend(copy, ("n",)).read(ctx, "/f") == b"kept"
        assert copy.verify() == []


def test_a_thread_and_its_deletion_touch_no_file_of_a_namespace_of_its_name(ctx):
    store = MemoryCheckpointer()
    agent, backend = Agent(ScriptedModel(["ok"]), checkpointer=store), StoreBackend(store, ("t",))
    backend.write(ctx, "/f", b"kept")
    agent.run_sync("go", "t")
    agent.delete("t")
    assert (backend.read(ctx, "/f"), plain(store).keys("", "~")) == (b"kept", ["data/t/!f", "file/t/!f"])


def test_a_large_file_comes_back_and_a_larger_one_is_refused(tmp_path, ctx):
    backend, data = StoreBackend(DiskCheckpointer(tmp_path), ("n",)), urandom(10_000_000)
    backend.write(ctx, "/big", data)
    assert backend.read(ctx, "/big") == data
    with pytest.raises(ToolError, match=r"'/big' would have 10,000,001 bytes, more than 10,000,000; split it"):
        backend.write(ctx, "/big", data + b"x")
    assert [info.size for info in backend.ls(ctx, "/")] == [10_000_000]


@pytest.mark.parametrize("name", ["x" * 1500, "ü" * 300, "a/" * 200 + "\u202e" * 130, "\udcff", "/" + "x/" * 1000])
def test_a_name_that_no_key_can_hold_is_refused(ctx, name):
    backend = StoreBackend(MemoryCheckpointer(), ("n",))
    for act in (backend.ls, backend.read, lambda c, p: backend.write(c, p, b"")):
        with pytest.raises(ToolError, match="is refused: "):
            act(ctx, f"/{name}")


def test_a_store_that_fails_is_an_error_result_and_the_run_goes_on(ctx):
    store = InstrumentedStore()
    backend = StoreBackend(store, ("n",))
    backend.write(ctx, "/f", b"x")
    store.down = {"rows", "get", "keys", "append", "head"}
    for act in verbs(backend):
        with pytest.raises(ToolError, match=r"'/f' cannot be reached: .*no space left; try again, or work without it"):
            act(ctx, "/f")
    calls = [ToolCall("read_file", {"file_path": "/f"}), ToolCall("write_file", {"file_path": "/g", "content": ""})]
    turn = create_deep_agent(ScriptedModel([calls, "ok"]), backend=backend, memory=["/AGENTS.md"]).run_sync("go")
    assert (turn.status, ["cannot be reached" in text for text in texts(turn)]) == ("ended", [True, True])
    store.down = set()
    assert paths(backend.walk(ctx, "/")) == ["/f"]


def test_a_change_waits_for_the_change_of_another_and_a_reader_does_not(ctx, tmp_path):
    store = DiskCheckpointer(tmp_path)
    backend = StoreBackend(store, ("n",))
    backend.write(ctx, "/f", b"1")
    holder = plain(store).opened("n/files".ljust(501, "~"))
    writer = threading.Thread(target=backend.write, args=(ctx, "/f", b"2"))
    writer.start()
    assert backend.read(ctx, "/f") == b"1"
    holder.lease.release()
    writer.join()
    assert backend.read(ctx, "/f") == b"2"


def test_a_replay_changes_no_file_of_a_store(ctx):
    backend = StoreBackend(MemoryCheckpointer(), ("n",))
    backend.write(ctx, "/f", b"kept")
    with read_only("a replay"):
        for act in (backend.delete, lambda c, p: backend.write(c, p, b"changed")):
            with pytest.raises(ToolError, match="'/f' was not changed: a replay changes no files"):
                act(ctx, "/f")
    assert backend.read(ctx, "/f") == b"kept"


def test_an_agent_on_a_store_that_suspends_keeps_its_files_there():
    store = DistantStore()
    backend = StoreBackend(store, ("n",))
    write = ToolCall("write_file", {"file_path": "/f", "content": "1"})
    edit = ToolCall("edit_file", {"file_path": "/f", "old_string": "1", "new_string": "2"})
    agent = create_deep_agent(ScriptedModel([write, edit, "ok"]), backend=backend, checkpointer=store)
    assert agent.run_sync("go", "t").status == "ended"
    assert backend.read(context(), "/f") == b"2"


def test_what_two_agents_change_at_once_is_noticed_as_on_a_disk(ctx):
    backend = StoreBackend(MemoryCheckpointer(), ("n",))
    backend.write(ctx, "/f", b"1")
    seen = sha256(backend.read(ctx, "/f")).hexdigest()
    backend.write(ctx, "/f", b"2")
    with pytest.raises(ToolError, match="'/f' changed since you read it"):
        backend.write(ctx, "/f", b"3", seen)


def test_a_folder_is_deleted_in_one_append(ctx):
    store = InstrumentedStore()
    backend = StoreBackend(store, ("n",))
    for name in ("/d/a", "/d/e/f", "/d/.git/x", "/other"):
        backend.write(ctx, name, b"x")
    before = store.appends
    assert backend.delete(ctx, "/d") == ["/d/a", "/d/.git/x", "/d/e/f"]
    assert (store.appends - before, paths(backend.ls(ctx, "/"))) == (1, ["/other"])


@pytest.mark.parametrize("routed", ["/m/", "/large_tool_results/"])
def test_a_large_result_of_a_tool_goes_where_its_path_leads_and_is_read_from_there(routed):
    @tool
    def talk() -> str:
        """Talk much."""
        return "a very long line\n" * 10_000

    route = StoreBackend(MemoryCheckpointer(), ("n",))
    backend, shown = CompositeBackend(StateBackend(), {routed: route}), []

    def say(request):
        shown.append(request.messages[-1].text)
        if len(shown) == 2:
            (path,) = re.findall(r"/large_tool_results/[\w.-]*\w", shown[-1])
            return ToolCall("read_file", {"file_path": path})
        return "ok" if len(shown) == 3 else ToolCall("talk")

    assert create_deep_agent(ScriptedModel(say), [talk], backend=backend).run_sync("go").status == "ended"
    assert shown[-1].startswith("@@ lines 1-100 of 10000")
    assert len(route.ls(context(), "/")) == (routed != "/m/")


def test_a_program_reads_files_without_a_run_where_it_says_whose_they_are():
    store = MemoryCheckpointer()
    StoreBackend(store, ("ada",)).write(None, "/a.md", b"hers")
    assert StoreBackend(store, ("ada",)).read(None, "/a.md") == b"hers"
    with pytest.raises(ConfigError, match="no context for the function that gives the namespace; give texts"):
        StoreBackend(store, lambda ctx: (ctx.context["user"],)).read(None, "/a.md")
