"""A composite: which backend a path belongs to, what the folders above its routes show, and what is refused."""

import asyncio

import pytest
from harness.files import context, paths, put, remove
from hypothesis import given, settings, strategies as st

from minideep import MemoryCheckpointer, ToolCall, ToolMessage, create_deep_agent
from minideep.backends import CompositeBackend, FilesystemBackend, Missing, StateBackend, StoreBackend, find, grep
from minideep.errors import ConfigError, ToolError
from minideep.models import ScriptedModel
from minideep.permissions import Deny


@pytest.fixture
def ctx():
    return context()


def stored(*namespace):
    return StoreBackend(MemoryCheckpointer(), namespace or ("n",))


def files(backend, ctx, *names):
    for name in names:
        put(backend, ctx, name, name.encode())
    return backend


def test_the_longest_route_on_whole_names_has_a_path(ctx):
    outer, inner, default = stored(), stored(), StateBackend()
    backend = CompositeBackend(default, {"/a/": outer, "/a/b": inner})
    files(backend, ctx, "/a/x", "/a/b/x", "/a/bc", "/ab", "/A/x")
    assert paths(outer.walk(ctx, "/")) == ["/bc", "/x"]
    assert paths(inner.walk(ctx, "/")) == ["/x"]
    assert sorted(ctx.state.files) == ["/A/x", "/ab"]
    assert backend.read(ctx, "/a/b/x") == b"/a/b/x"


def test_a_listing_shows_the_folders_of_routes_once_wherever_they_are(ctx):
    backend = CompositeBackend(StateBackend(), {"/a/b/c/": stored(), "/m/": stored(), "/a/d": stored()})
    assert paths(backend.ls(ctx, "/")) == ["/a/", "/m/"]
    files(backend, ctx, "/a/b/f", "/z", "/a/b/c/f")
    assert paths(backend.ls(ctx, "/")) == ["/a/", "/m/", "/z"]
    assert paths(backend.ls(ctx, "/a")) == ["/a/b/", "/a/d/"]
    assert paths(backend.ls(ctx, "/a/b")) == ["/a/b/c/", "/a/b/f"]
    assert paths(backend.ls(ctx, "/a/b/c")) == ["/a/b/c/f"]
    assert paths(backend.ls(ctx, "/m")) == []
    with pytest.raises(Missing):
        backend.ls(ctx, "/m/n")


def test_a_walk_a_glob_and_a_grep_find_every_file_once_and_in_the_order_of_a_single_backend(ctx, tmp_path):
    names = ["/a.md", "/z.md", "/a/x.md", "/a/b/x.md", "/a/b/y/x.md", "/a/c/x.md", "/m/x.md", "/m/n/o/x.md"]
    (tmp_path / "parts").mkdir()
    (tmp_path / "one").mkdir()
    routes = {"/a/b/": stored(), "/m": StateBackend(), "/m/n/o": stored()}
    backend = CompositeBackend(FilesystemBackend(tmp_path / "parts"), routes)
    files(backend, ctx, *reversed(names))
    single = files(FilesystemBackend(tmp_path / "one"), ctx, *names)
    for start in ("/", "/a", "/a/b", "/m", "/m/n", "/m/n/o"):
        assert paths(backend.walk(ctx, start)) == paths(single.walk(ctx, start))
    assert find(ctx, backend, "*.md", "/").paths == sorted(names)
    assert find(ctx, backend, "/a/**/x.md", "/").paths == ["/a/b/x.md", "/a/b/y/x.md", "/a/c/x.md", "/a/x.md"]
    hits = grep(ctx, backend, ".md", "/").hits
    assert [hit.path for hit in hits] == paths(single.walk(ctx, "/"))
    assert all(hit.text == hit.path for hit in hits)


def test_a_route_hides_what_the_default_has_at_its_folder(ctx):
    default, route = StateBackend(), stored()
    files(default, ctx, "/m/old", "/m/sub/old", "/n/old")
    backend = CompositeBackend(default, {"/m/": route, "/n/old": route})
    files(backend, ctx, "/m/new")
    assert paths(backend.walk(ctx, "/")) == ["/m/new", "/n/old/new"]
    assert (paths(backend.ls(ctx, "/m")), paths(backend.ls(ctx, "/n"))) == (["/m/new"], ["/n/old/"])
    for path in ("/m/old", "/n/old"):
        with pytest.raises(ToolError):
            backend.read(ctx, path)
    assert default.read(ctx, "/n/old") == b"/n/old"


def test_a_walk_from_above_leaves_out_routes_in_hidden_and_vendored_folders(ctx):
    backend = CompositeBackend(StateBackend(), {"/.git/m/": stored(), "/node_modules": stored(), "/src/m": stored()})
    files(backend, ctx, "/.git/m/x", "/node_modules/x", "/src/m/x", "/src/m/.git/x")
    assert paths(backend.walk(ctx, "/")) == ["/src/m/x"]
    assert paths(backend.walk(ctx, "/.git")) == ["/.git/m/x"]
    assert paths(backend.walk(ctx, "/node_modules")) == ["/node_modules/x"]


def test_a_search_in_a_route_finds_nothing_of_others(ctx):
    backend = CompositeBackend(StateBackend(), {"/m/": stored(), "/n/": stored()})
    files(backend, ctx, "/x", "/m/x", "/n/x")
    assert [hit.path for hit in grep(ctx, backend, "x", "/m").hits] == ["/m/x"]
    assert find(ctx, backend, "*", "/n").paths == ["/n/x"]


def test_an_error_names_the_path_as_the_model_wrote_it(ctx, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret").touch()
    (tmp_path / "docs" / "out").symlink_to("../secret")
    routes = {"/docs/": FilesystemBackend(tmp_path / "docs"), "/m/n": stored(), "/s": StateBackend()}
    backend = CompositeBackend(StateBackend(), routes)
    for folder in routes:
        name = folder.rstrip("/")
        files(backend, ctx, f"{name}/d/f")
        for act, problem in {
            lambda: backend.read(ctx, f"{name}/x"): f"'{name}/x' does not exist",  # noqa: B023 - Called at once.
            lambda: backend.read(ctx, f"{name}/d"): f"'{name}/d' is a folder",  # noqa: B023
            lambda: backend.ls(ctx, f"{name}/d/f"): f"'{name}/d/f' is a file",  # noqa: B023
            lambda: list(backend.walk(ctx, f"{name}/y/z")): f"'{name}/y/z' does not exist",  # noqa: B023
            lambda: backend.write(ctx, f"{name}/d/f", b"", "0" * 64): f"'{name}/d/f' changed since",  # noqa: B023
            lambda: backend.write(ctx, f"{name}/d", b""): f"'{name}/d' is a folder",  # noqa: B023
        }.items():
            with pytest.raises(ToolError) as caught:
                act()
            assert str(caught.value).startswith(problem)
    with pytest.raises(ToolError, match=r"^'/m/n/d/f' is a file, not a folder"):  # A folder above what was asked for.
        backend.write(ctx, "/m/n/d/f/below", b"")
    with pytest.raises(ToolError, match=r"^'/docs/out' leads outside the root"):
        backend.read(ctx, "/docs/out")


def test_a_missing_path_says_as_whom_it_is_missing(ctx):
    backend = CompositeBackend(StateBackend(), {"/m/": stored()})
    with pytest.raises(Missing) as caught:
        backend.read(ctx, "/m/a/b")
    assert caught.value.path == "/m/a/b"


def test_the_folder_of_a_route_and_those_above_it_are_neither_files_nor_deleted(ctx):
    backend = files(CompositeBackend(StateBackend(), {"/a/m/": stored()}), ctx, "/a/m/x", "/a/y", "/a/n/z")
    for path in ("/a/m", "/a", "/a/m/."):
        with pytest.raises(ToolError, match="is a folder, not a file"):
            backend.read(ctx, path)
        with pytest.raises(ToolError, match="is a folder, not a file"):
            backend.write(ctx, path, b"")
        with pytest.raises(ToolError, match="is or contains a folder whose files are kept elsewhere, which cannot be"):
            backend.delete(ctx, path)
    with pytest.raises(ToolError, match="the root, which cannot be deleted"):
        backend.delete(ctx, "/")
    assert remove(backend, ctx, "/a/n") == ["/a/n/z"]
    assert paths(backend.walk(ctx, "/")) == ["/a/y", "/a/m/x"]


def test_a_failure_of_one_backend_is_not_taken_for_an_empty_folder(ctx, tmp_path):
    class Broken(StateBackend):
        def ls(self, ctx, path):
            raise ToolError("the disk is on fire; wait")

        def walk(self, ctx, path):
            raise ToolError("the disk is on fire; wait")

    backend = CompositeBackend(Broken(), {"/m/": stored()})
    for act in (backend.ls, lambda c, p: list(backend.walk(c, p))):
        with pytest.raises(ToolError, match="on fire"):
            act(ctx, "/")
    assert backend.ls(ctx, "/m") == []


def test_a_backend_in_the_state_keeps_its_files_under_their_full_paths(ctx, tmp_path):
    backend = CompositeBackend(FilesystemBackend(tmp_path), {"/scratch": StateBackend()})
    assert backend.write(ctx, "/scratch/a", b"1")
    assert not backend.write(ctx, "/b", b"1")
    files(backend, ctx, "/scratch/a")
    assert ctx.state.files["/scratch/a"].content is not None
    assert paths(backend.walk(ctx, "/")) == ["/b", "/scratch/a"]


def test_what_the_state_knows_of_files_elsewhere_is_not_listed_twice():
    write = [ToolCall("write_file", {"file_path": path, "content": "x"}) for path in ("/m/a", "/m/b", "/c")]
    listing = [
        ToolCall("delete", {"file_path": "/m/a"}),
        ToolCall("glob", {"pattern": "**"}),
        ToolCall("ls", {"path": "/m"}),
    ]
    backend = CompositeBackend(StateBackend(), {"/m/": stored()})
    turn = create_deep_agent(ScriptedModel([write, *listing, "done"]), backend=backend).run_sync("go")
    assert [message.text for message in turn.messages[-4:-1:2]] == ["/c\n/m/b", "/m/b"]
    assert {name: entry.content for name, entry in turn.artifacts.items()} == {"/c": "x", "/m/b": None}


def test_a_route_shows_the_home_of_a_backend_that_is_not_confined(ctx, tmp_path):
    (tmp_path / "f").write_text("here")
    backend = CompositeBackend(StateBackend(), {"/docs": FilesystemBackend(tmp_path, virtual_mode=False)})
    assert paths(backend.ls(ctx, "/docs")) == ["/docs/f"]
    backend.write(ctx, "/docs/sub/g", b"new")
    assert (tmp_path / "sub" / "g").read_bytes() == b"new"
    with pytest.raises(ToolError, match=r"^'/docs/x' does not exist"):
        backend.read(ctx, "/docs/x")


def test_relative_paths_start_where_those_of_the_default_do(ctx, tmp_path):
    backend = CompositeBackend(FilesystemBackend(tmp_path, virtual_mode=False), {"/m": stored()})
    backend.write(ctx, "a/b", b"x")
    assert ((tmp_path / "a" / "b").read_bytes(), backend.home) == (b"x", str(tmp_path))


def test_it_says_what_is_where_and_whether_any_part_blocks(tmp_path):
    backend = CompositeBackend(StateBackend(), {"/docs": FilesystemBackend(tmp_path), "/m/": stored()})
    assert backend.about == (
        "Files are kept with this conversation, not on a disk. Below `/docs/`: Files are real, and changes last; `/docs/` "
        "is one folder of this machine, and nothing outside it can be reached. Below `/m/`: Files outlast this "
        "conversation: others find them, and may change them, too."
    )
    assert backend.blocking
    assert not CompositeBackend(StateBackend(), {"/a": StateBackend()}).blocking


@pytest.mark.parametrize(
    ("routes", "problem"),
    [
        (["/"], "'/' is where default's files are"),
        (["/a", "/a/"], "'/a' is there twice"),
        (["/a", "//a/."], "'/a' is there twice"),
        (["/../a"], "'..' is not allowed"),
        (["~/a"], "'~' is not expanded"),
        ([""], "'/' is where"),
    ],
)
def test_routes_that_are_no_folders_of_their_own_are_refused(routes, problem):
    with pytest.raises(ConfigError, match=f"CompositeBackend: routes: .*{problem}"):
        CompositeBackend(StateBackend(), dict.fromkeys(routes, StateBackend()))


def test_files_that_a_person_gives_go_to_their_backends_all_or_none():
    memory = stored()
    agent = create_deep_agent(ScriptedModel(["ok", "ok"]), backend=CompositeBackend(StateBackend(), {"/m/": memory}))
    turn = agent.run_sync("go", files={"/m/a.md": "one", "/b.md": "two"})
    assert (memory.read(context(), "/a.md"), turn.artifacts["/b.md"].content) == (b"one", "two")
    with pytest.raises(ConfigError):
        asyncio.run(agent.run("go", files={"/m/a.md": "changed", "/m": "a folder"}))
    assert memory.read(context(), "/a.md") == b"one"


def test_one_cap_holds_for_all_routes(ctx):
    backend = CompositeBackend(StateBackend(), {"/m/": stored(), "/n/": stored()})
    files(backend, ctx, "/a/x", "/m/x", "/n/x")
    found = grep(ctx, backend, "x", "/", most=2)
    assert ([hit.path for hit in found.hits], found.full) == (["/a/x", "/m/x"], True)


def test_commands_run_in_the_default_if_it_can_run_any(ctx):
    class Shell(StateBackend):
        async def execute(self, ctx, command, timeout=None):
            return f"ran {command}"

    backend = CompositeBackend(Shell(), {"/m/": stored(), "/n/": stored()})
    assert asyncio.run(backend.execute(ctx, "ls")) == "ran ls"
    assert backend.about.endswith(" Commands do not reach `/m/` or `/n/`.")
    for without in (CompositeBackend(StateBackend(), {"/m/": Shell()}), CompositeBackend(StateBackend(), {})):
        assert not hasattr(without, "execute")
        assert "Commands" not in without.about


def test_names_with_two_dots_links_that_lead_out_and_broken_links_cost_an_error_result_and_not_the_run(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root" / "out").symlink_to("../secret")
    (tmp_path / "root" / "broken").symlink_to("nowhere")
    (tmp_path / "root" / "loop").symlink_to("loop")
    for folder, backend in {
        "": FilesystemBackend(tmp_path / "root"),
        "/docs": CompositeBackend(StateBackend(), {"/docs/": FilesystemBackend(tmp_path / "root")}),
    }.items():
        named = [f"{folder}/{name}" for name in ("a..b.txt", "out", "broken", "loop")]
        writes = [ToolCall("write_file", {"file_path": path, "content": "x"}) for path in named]
        edit = {"old_string": "x", "new_string": "y"}
        edits = [ToolCall("edit_file", {"file_path": path, **edit}) for path in named]
        reads = [ToolCall("read_file", {"file_path": path}) for path in named]
        deletes = [ToolCall("delete", {"file_path": path}) for path in named[:1]]
        model = ScriptedModel([writes, edits, reads, deletes, ToolCall("ls", {"path": folder or "/"}), "done"])
        turn = create_deep_agent(model, backend=backend).run_sync("go")
        results = [message for message in turn.messages if isinstance(message, ToolMessage)]
        assert turn.status == "ended"
        assert [message.is_error for message in results[:12]] == [False, True, False, True] * 3
        assert results[-1].text.split() == [f"{folder}/{name}" for name in ("broken", "loop", "nowhere", "out")]
        (tmp_path / "root" / "nowhere").unlink()
    assert (tmp_path / "secret").read_text() == "secret"


NAMES = st.lists(st.sampled_from(["a", "b", "a-b", "B", "é"]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


def above(path):
    return {path[:at] or "/" for at in range(len(path)) if path[at] == "/"}


@given(st.lists(NAMES, max_size=12), st.lists(NAMES, unique=True, max_size=4))
@settings(deadline=None, max_examples=150)
def test_a_composite_of_any_routes_is_as_one_backend_with_the_same_files(wanted, routes):
    names, folders = [], {"/", *routes, *(folder for route in routes for folder in above(route))}
    for name in dict.fromkeys(wanted):  # No file where a folder is, and the other way round.
        if name not in folders and not above(name) & set(names):
            names.append(name)
            folders |= above(name)
    one, ctx, ctx_of_one = StateBackend(), context(), context()
    backend = CompositeBackend(StateBackend(), {route: stored() for route in routes})
    files(backend, ctx, *names)
    files(one, ctx_of_one, *names)
    for folder in folders:
        known = folder == "/" or any(folder in above(name) for name in names)
        walked = paths(one.walk(ctx_of_one, folder)) if known else []
        assert paths(backend.walk(ctx, folder)) == walked
        listed = set(paths(one.ls(ctx_of_one, folder))) if known else set()
        inner = [route for route in routes if folder in above(route)]
        below = folder.rstrip("/") + "/"
        listed |= {below + route[len(below) :].partition("/")[0] + "/" for route in inner}
        assert set(paths(backend.ls(ctx, folder))) == listed
        assert [info.path for info in backend.ls(ctx, folder)] == sorted(name.rstrip("/") for name in listed)
    assert [backend.read(ctx, name) for name in names] == [name.encode() for name in names]
    assert [name for name in names if not remove(backend, ctx, name)] == []
    assert paths(backend.walk(ctx, "/")) == []


def test_permissions_speak_of_paths_as_they_are_called_here_and_hold_for_links(tmp_path):
    (tmp_path / "root" / "kept").mkdir(parents=True)
    (tmp_path / "root" / "kept" / "f").write_text("the secret")
    (tmp_path / "root" / "link").symlink_to("kept/f")
    (tmp_path / "root" / "folder").symlink_to("kept")
    routes = {"/docs/": FilesystemBackend(tmp_path / "root"), "/m/": stored(), "/all/": stored()}
    rules = [Deny("read", "/docs/kept/**"), Deny("write", "/docs/kept/**"), Deny("write", "/m/kept/**")]
    rules += [Deny("read", "/all"), Deny("write", "/z")]
    backend = CompositeBackend(StateBackend(), routes)
    routes["/all/"].write(context(), "/f", b"the secret")
    refused = [
        *(ToolCall("read_file", {"file_path": f"/docs/{name}"}) for name in ("kept/f", "link", "folder/f")),
        ToolCall("read_file", {"file_path": "/all/f"}),
        ToolCall("delete", {"file_path": "/docs/kept/f"}),
        *(ToolCall("write_file", {"file_path": path, "content": "x"}) for path in ("/m/kept/f", "/z", "/m//./kept/g")),
    ]
    allowed = [ToolCall("write_file", {"file_path": path, "content": "x"}) for path in ("/m/z", "/kept/f", "/docs/new")]
    looks = [
        ToolCall("grep", {"pattern": "secret"}),
        ToolCall("ls", {"path": "/docs/folder"}),
        ToolCall("glob", {"pattern": "**"}),
        ToolCall("ls", {"path": "/"}),
    ]
    model = ScriptedModel([refused, allowed, looks, "done"])
    agent = create_deep_agent(model, backend=backend, permissions=rules)
    results = [message for message in agent.run_sync("go").messages if isinstance(message, ToolMessage)]
    assert [message.is_error for message in results] == [True] * len(refused) + [False] * 7
    assert "the secret" not in " ".join(message.text for message in results)
    found = [message.text.split("\n") for message in results[-3:]]
    assert found == [["no files in '/docs/folder'"], ["/docs/new", "/kept/f", "/m/z"], ["/docs/", "/kept/", "/m/"]]
    assert (tmp_path / "root" / "kept" / "f").read_text() == "the secret"
