"""Files of a store: how their names become keys, how many rows a look reads, and what verification finds."""

import re
from base64 import b64decode

import msgspec
import pytest
from harness.stores import plain
from hypothesis import given, settings, strategies as st

from minideep import MemoryCheckpointer, Retention
from minideep.checkpoint import FileRow, StoredFiles, namespace_name, open_store, place, threaded
from minideep.checkpoint.files import path_of
from minideep.checkpoint.memory import MemoryRows
from minideep.errors import CorruptSegment, ThreadConflict

NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12)
PATH = st.lists(NAME, min_size=1, max_size=5).map(lambda names: "/" + "/".join(names))
NAMESPACE = st.lists(st.text(st.sampled_from("ab/,*%~.\0"), min_size=1, max_size=3), min_size=1, max_size=3)


class Counted(MemoryRows):
    """Rows that are counted as they are read."""

    def __init__(self):
        super().__init__(Retention())
        self.keys_read = []

    def read(self, *ranges):
        found = super().read(*ranges)
        self.keys_read += [key for part in found for key, _ in part]
        return found


def files_of(store, *namespace):
    return StoredFiles(open_store(store), namespace or ("n",))


def put(files, *paths):
    for path in paths:
        files.put(path, path.encode(), 1.0, files.hold())


@given(st.lists(PATH, unique=True, max_size=20))
def test_keys_sort_as_a_walk_goes_and_lead_back_to_their_paths(paths):
    assert [path_of(f"file/n/{place(path)}") for path in paths] == paths
    assert sorted(paths, key=place) == sorted(paths, key=lambda path: (path.split("/")[:-1], path.split("/")[-1]))
    assert all(place(path).isascii() and place(path).isprintable() and "/" not in place(path) for path in paths)


@given(NAMESPACE, NAMESPACE)
@settings(max_examples=500)
def test_different_namespaces_have_different_names_in_keys(one, other):
    assert (namespace_name(one) == namespace_name(other)) == (one == other)
    assert "/" not in namespace_name(one)


@given(st.lists(PATH, unique=True, max_size=12), PATH)
@settings(deadline=None)
def test_a_folder_lists_and_holds_what_its_paths_say(paths, folder):
    # A path that has a file in it is no file here, as no backend writes such a one.
    paths = [path for path in paths if not any(other.startswith(f"{path}/") for other in paths)]
    files = files_of(MemoryCheckpointer())
    put(files, *paths)
    for start in ("/", folder, folder.rpartition("/")[0] or "/", *(path.rpartition("/")[0] or "/" for path in paths)):
        below = sorted((path for path in paths if path.startswith(start.rstrip("/") + "/")), key=place)
        assert [path for path, _ in files.below(start)] == below
        inner = {path[len(start.rstrip("/")) + 1 :].partition("/") for path in below}
        base = start.rstrip("/")
        assert dict(files.listed(start)) == {
            f"{base}/{name}": None if rest else dict(files.below(base or "/"))[f"{base}/{name}"]
            for name, rest, _ in inner
        }


def test_a_look_into_a_folder_reads_its_own_rows_and_no_others():
    store = threaded(rows := Counted())
    files = files_of(store)
    put(files, *(f"/many/{number:03}" for number in range(300)), "/few/a", "/few/b", "/few/in/1", "/few/in/2", "/x")
    put(files_of(store, "n", "other"), "/few/z")
    for look, most in {
        lambda: list(files.listed("/few")): 3,
        lambda: list(files.below("/few")): 4,
        lambda: list(files.listed("/")): 3,
        lambda: files.content("/few/a"): 2,
        lambda: files.see("/few/in/1"): 1,
        lambda: files.see("/many"): 1,
    }.items():
        rows.keys_read.clear()
        look()
        assert 0 < len(rows.keys_read) <= most
    rows.keys_read.clear()
    assert len(list(files.below("/many"))) == len(rows.keys_read) == 300


def test_a_folder_of_more_files_than_one_trip_reads_is_read_whole():
    files = files_of(MemoryCheckpointer())
    names = [f"/f{number:04}" for number in range(1001)]
    put(files, *names)
    assert [name for name, _ in files.below("/")] == [name for name, _ in files.listed("/")] == names


def test_a_change_without_the_lease_changes_nothing():
    files = files_of(store := MemoryCheckpointer())
    put(files, "/f")
    lease = files.hold()
    lease.release()
    for change in (lambda: files.put("/f", b"late", 1.0, lease), lambda: files.remove(["/f"], lease)):
        with pytest.raises(ThreadConflict, match="somebody else may be changing these files; nothing was changed"):
            change()
    assert (files.content("/f"), store.verify()) == (b"/f", [])


def test_files_are_no_thread_and_leave_no_head():
    put(files_of(store := MemoryCheckpointer()), "/f")
    assert (plain(store).heads(), plain(store).keys("head/", "head0")) == ([], [])


def rewritten(store, key, value):
    """Put a row, or remove it, behind the back of all that knows better."""
    plain(store).append("t", None, None, {} if value is None else {key: value}, [key] if value is None else [])


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("file/n/!f", b"\xc1", "cannot be read"),
        ("file/n/!f", None, "half of a file"),
        ("data/n/!f", None, "half of a file"),
        ("data/n/!f", b"mdo\x01\x06junk", "damaged or changed|cannot be read|"),
        ("data/n/!f", "data/n/!g", "does not match its name"),
        ("file/n/!%66", "file/n/!f", "not named as a file is"),
        ("file/n", b"", "not named as a file is"),
        ("data/n/a/!b", b"", "not named as a file is"),
    ],
)
def test_a_damaged_file_is_found_and_named(key, value, problem):
    files = files_of(store := MemoryCheckpointer())
    put(files, "/f", "/g")
    assert store.verify() == []
    rewritten(store, key, plain(store).get(value) if isinstance(value, str) else value)
    found = store.verify()
    assert {damage.thread for damage in found} == {""}
    assert key.split("/")[-1] in " ".join(damage.key for damage in found)
    assert re.search(problem, found[0].problem)


def test_a_row_that_no_change_wrote_is_refused():
    files = files_of(store := MemoryCheckpointer())
    put(files, "/f")
    rewritten(store, "file/n/!f", msgspec.msgpack.encode(FileRow(b"short", 1, 1.0)))
    with pytest.raises(CorruptSegment, match="holds what no change wrote"):
        files.content("/f")


OF_1_7 = {
    "data/memories,a%2Fb/d%20e#!~c3~bc.md": "bWRvAQcotS/9IBvFAACQdGVhLCBhbmQgdGVhIGFnYWluAQCkmGE=",
    "file/memories,a%2Fb/d%20e#!~c3~bc.md": "k8QgVpQU7ulJx/MS2LPFywxHsswdI5SrUEMx8ZBkpaqPm5kby0HZVPxAIAAA",
}


def test_files_that_format_1_7_wrote_are_read():
    store = MemoryCheckpointer()
    plain(store).append("t", None, None, {key: b64decode(value) for key, value in OF_1_7.items()})
    files = files_of(store, "memories", "a/b")
    ((path, row),) = files.below("/d e")
    assert (path, row.size, row.modified) == ("/d e/ü.md", 27, 1700000000.5)
    assert (files.content(path), store.verify()) == (b"tea, and tea again, and tea", [])
