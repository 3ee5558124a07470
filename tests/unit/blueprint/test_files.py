"""The virtual files: entries, spilling, eviction, restoring, and the bound of a thread's state."""

import json
import pickle
import random
import re
from hashlib import sha256

import pytest
from harness.blueprints import (
    GO_ON,
    SOON,
    Parts,
    ask,
    asked,
    blueprint,
    end,
    plan,
    refusal,
    replan,
    research,
    whole_task,
)
from harness.stores import plain

from minideep import ConfigError, MemoryCheckpointer, Retention, ToolCall, UnknownThread
from minideep.backends import FilesystemBackend, StateBackend
from minideep.blueprint import Blueprint, Entry, Role
from minideep.checkpoint import format as codec
from minideep.checkpoint.rewriting import truncate
from minideep.checkpoint.store import open_store
from minideep.middleware import FilesystemMiddleware
from minideep.models import ScriptedModel

INLINE = 102_400
BOUND = 500_000
OWN_TOOLS = FilesystemMiddleware(StateBackend()).tools

pytestmark = pytest.mark.filterwarnings("ignore:a pool usually has")


def digest(text):
    return sha256(text.encode()).hexdigest()


def sizes(bp, thread="t"):
    """The bytes of a thread's state in two serializers, and of its board in one."""
    state = bp.get_state(thread)
    return len(codec.encode_state(state)), len(pickle.dumps(state)), len(pickle.dumps(bp.board(thread)))


def rows(store, kind):
    """The names of the blobs that the store holds (`blob`) or refers to (`ref`)."""
    return {key.split("/")[1] for key in plain(store).keys(f"{kind}/", f"{kind}0")}


def spread(names, **named):
    """A plan with one subtask for each name, and the name as its task."""
    return plan(*[research(name, task=name, **named) for name in names])


def echo(request):
    """A role that replies with its task."""
    return asked(request).rpartition("## Task\n")[2]


def says(**contents):
    """A role that replies to each task with its entry in *contents*."""
    return lambda request: contents.get(echo(request), "x")


# ---- an entry


def test_an_entry_holds_content_step_status_and_location(store):
    bp = blueprint([spread(["a.md", "b.md"])], role=lambda request: f"é {echo(request)}", checkpointer=store)
    bp.run_sync("g", "t")
    assert bp.board("t").files == {
        f"/research-specialist_{step}_{name}": Entry(
            content=f"é {name}",
            written_at_step=2,
            status="done",
            disk_path=None,
            bytes=7,
            sha256=digest(f"é {name}"),
            name=name,
            role="research-specialist",
        )
        for step, name in [(1, "a.md"), (2, "b.md")]
    }


@pytest.mark.parametrize("unit", ["x", "é", "\U0001f600"])
@pytest.mark.parametrize("over", [0, 1])
def test_a_file_of_102400_bytes_of_utf8_is_inline_and_one_byte_more_is_spilled(unit, over, store):
    content = unit * (INLINE // len(unit.encode())) + "x" * over
    bp = blueprint([plan(research())], [end()], role=lambda _: content, checkpointer=store)
    bp.run_sync("g", "t")
    (entry,) = blueprint([], checkpointer=store).board("t").files.values()
    expected = (None, f"sha256:{digest(content)}") if over else (content, None)
    assert (entry.content, entry.disk_path) == expected
    assert (entry.bytes, entry.sha256, entry.written_at_step, entry.status) == (
        INLINE + over,
        digest(content),
        1,
        "done",
    )
    assert (digest(content) in rows(store, "blob")) is bool(over)


def test_a_spilled_entry_that_is_not_done_is_active():
    content = "x" * (INLINE + 1)
    said = json.dumps({"artifact_name": "facts.md", "content": content, "status": "active"})
    bp = blueprint([plan(research())], [ask()], role=lambda _: said)
    bp.run_sync("g", "t")
    (entry,) = bp.board("t").files.values()
    assert (entry.content, entry.disk_path, entry.written_at_step, entry.status) == (
        None,
        f"sha256:{digest(content)}",
        1,
        "active",
    )


def test_a_smaller_inline_limit_spills_smaller_files():
    bp = blueprint([spread(["small", "large"])], role=says(small="x" * 100, large="y" * 101), inline_limit=100)
    bp.run_sync("g", "t")
    assert [(one.name, one.content) for one in bp.board("t").files.values()] == [("small", "x" * 100), ("large", None)]
    assert bp.artifact("t", "large") == "y" * 101


@pytest.mark.parametrize("size", [10, INLINE + 1, 5_000_000])
def test_a_subagent_reads_all_of_a_file_and_planner_and_reflection_its_size(size, store):
    content = "Z" * size
    plans = [plan(research(task="write")), plan(research("b.md", "facts.md", task="read"))]
    parts = Parts(plans, [replan(), end()], says(write=content))
    bp = Blueprint(parts, checkpointer=store)
    bp.run_sync("g", "t")
    assert asked(parts.delegated[1]) == whole_task("read", ("facts.md", content))
    for request in (parts.planned[1], parts.reflected[0]):
        assert (f'"bytes":{size},' in asked(request), "ZZ" in asked(request)) == (True, False)
    assert (bp.artifact("t", "facts.md"), bp.artifact("t", digest(content))) == (content, content)
    assert bp.read_file("t", "/research-specialist_1_facts.md") == content


def test_identical_content_that_is_spilled_is_stored_once(store):
    content = "x" * (INLINE + 1)
    bp = blueprint([spread(["a", "b", "c"])], role=lambda _: content, checkpointer=store)
    bp.run_sync("g", "t")
    assert {entry.disk_path for entry in bp.board("t").files.values()} == {f"sha256:{digest(content)}"}
    assert [name for name in rows(store, "blob") if name == digest(content)] == [digest(content)]
    stored = sum(len(data) for key, data in plain(store).rows() if not key.startswith("head/"))
    assert stored < 20_000  # It compresses well; thrice is more than once all the same.


# ---- eviction


def aged(steps, status, **named):
    """A blueprint that wrote `facts.md` at step 1 and has dispatched *steps* subtasks since."""
    first = json.dumps({"artifact_name": "facts.md", "content": "old", "status": status})
    plans = [plan(research(task="first")), spread([f"{n}.md" for n in range(steps)])]
    bp = blueprint(plans, [replan(), ask()], role=says(first=first), **named)
    bp.run_sync("g", "t")
    return bp


def holds(bp, name="facts.md"):
    """Return whether a file is there; board, state and notes must agree."""
    state, path = bp.get_state("t"), f"/research-specialist_1_{name}"
    found = {path in bp.board("t").files, path in state.files, path in state.notes["blueprint.files"]}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(
    ("status", "age", "kept"),
    [
        ("done", 3, True),
        ("done", 4, False),
        ("active", 4, True),
        ("active", 20, True),
        ("active", 21, False),
    ],
)
def test_done_files_are_evicted_after_3_steps_and_all_files_after_20(status, age, kept, store):
    assert holds(aged(age, status, checkpointer=store)) is kept
    assert holds(Blueprint(ScriptedModel([]), checkpointer=store)) is kept


@pytest.mark.parametrize(("age", "kept"), [(5, True), (6, False)])
def test_the_age_of_eviction_can_be_set(age, kept):
    assert holds(aged(age, "active", max_file_age_steps=5)) is kept


@pytest.mark.parametrize("age", [4, 25])
def test_pinned_files_stay(age):
    assert not holds(aged(age, "done", pinned=["*.txt", "facts"]))
    assert holds(aged(age, "done", pinned=["*.txt", "fact?.md"]))


def test_files_that_an_answer_names_stay_until_the_next_answer(store):
    many = [f"{n}.md" for n in range(5)]
    plans = [plan(research()), spread(many), spread([f"x{n}.md" for n in range(5)])]
    bp = blueprint(plans, [end("{{facts.md}}"), end("{{0.md}}"), end()], checkpointer=store)
    bp.run_sync("one", "t")
    bp.run_sync("two", "t")
    assert not holds(bp)  # Five steps old, and the answer is another one now.
    bp.run_sync("three", "t")
    names = [entry.name for entry in bp.board("t").files.values()]
    assert names == ["x0.md", "x1.md", "x2.md", "x3.md", "x4.md"]


def test_files_that_the_last_answer_names_outlive_a_turn_without_an_answer():
    bp = blueprint([plan(research()), spread([f"{n}.md" for n in range(5)])], [end("{{facts.md}}"), ask()])
    bp.run_sync("one", "t")
    bp.run_sync("two", "t")
    assert holds(bp)


@pytest.mark.parametrize(("then", "gone"), [(GO_ON, []), (replan(), ["research-specialist_1_facts.md"])])
def test_files_that_the_rest_of_the_plan_reads_stay_while_it_continues(then, gone):
    def role(request):
        if "fail" in asked(request):
            raise ValueError("no")
        return "x"

    wave = [research(f"{n}.md", "facts.md") for n in range(4)]
    work = [
        research("facts.md"),
        *wave,
        research("f.md", "facts.md", task="fail"),
        research("z.md", "facts.md", "0.md"),
    ]
    bp = blueprint([plan(*work), plan(research("other.md"))], [then, ask()], role=role)
    bp.run_sync("g", "t")
    first = next(entry for entry in bp.board("t").ledger if entry["node"] == "cleanup")
    assert first.get("files", []) == gone


def test_cleanup_follows_every_reflection():
    def role(request):
        if "fail" in asked(request):
            raise ValueError("no")
        return "x"

    two_waves = plan(research("a.md"), research("f.md", task="fail"), research("b.md", "a.md"))
    bp = blueprint([two_waves, plan(research("c.md"))], [GO_ON, replan(), ask()], role=role)
    bp.run_sync("g", "t")
    nodes = [entry["node"] for entry in bp.board("t").ledger]
    wave, look = ["subagent"], ["reflection", "cleanup"]
    assert nodes == ["planner", *wave, *wave, *look, *wave, *look, "planner", *wave, *look]


def test_the_planner_sees_which_files_were_evicted():
    plans = [plan(research()), spread([f"{n}.md" for n in range(4)]), plan(research("z.md"))]
    parts = Parts(plans, [replan(), replan(), end()])
    bp = Blueprint(parts)
    bp.run_sync("g", "t")
    seen = asked(parts.planned[2])
    assert "evicted, restored if named: facts.md" in seen
    assert '"file":"research-specialist_1_facts.md"' not in seen
    assert [entry.get("files", []) for entry in bp.board("t").ledger if entry["node"] == "cleanup"] == [
        [],
        ["research-specialist_1_facts.md"],
        [],
    ]


# ---- restoring


def evicted_and_read(store=None, content="old", **named):
    """A thread whose `facts.md` was evicted and is read by the last plan."""
    plans = [plan(research(task="first")), spread([f"{n}.md" for n in range(4)]), plan(research("z.md", "facts.md"))]
    parts = Parts(plans, [replan(), replan(), end()], says(first=content))
    bp = Blueprint(parts, checkpointer=store, **named)
    return bp, parts, bp.run_sync("g", "t")


@pytest.mark.parametrize("content", ["old", "o" * (INLINE + 1)])
def test_an_evicted_file_that_a_plan_names_is_restored(content, store):
    bp, parts, turn = evicted_and_read(store, content)
    assert (turn.status, asked(parts.delegated[-1])) == ("ended", whole_task("find out", ("facts.md", content)))
    entry = bp.board("t").files["/research-specialist_1_facts.md"]
    assert (entry.name, entry.status, entry.written_at_step, entry.sha256) == ("facts.md", "done", 5, digest(content))
    assert (entry.content is None) is (len(content) > INLINE)


@pytest.mark.parametrize("content", ["old", "o" * (INLINE + 1)])
def test_an_evicted_file_is_read_by_its_name_its_file_or_its_hash(content, store):
    plans = [plan(research(task="first")), spread([f"{n}.md" for n in range(4)])]
    bp = blueprint(plans, [replan(), ask()], role=says(first=content), checkpointer=store)
    bp.run_sync("g", "t")
    assert not holds(bp)
    later = Blueprint(ScriptedModel([]), checkpointer=store)
    for name in ("facts.md", "research-specialist_1_facts.md", digest(content)):
        assert later.artifact("t", name) == content


def test_an_evicted_file_that_an_answer_names_is_restored_for_it():
    plans = [plan(research(task="first")), spread([f"{n}.md" for n in range(4)]), plan(research("z.md"))]
    bp = blueprint(plans, [replan(), replan(), end("It is {{facts.md}}.")], role=says(first="old"))
    turn = bp.run_sync("g", "t")
    assert (turn.text, holds(bp)) == ("It is old.", True)


def test_an_unknown_artifact_is_refused_with_the_known_names():
    bp = blueprint([plan(research())])
    bp.run_sync("g", "t")
    with pytest.raises(
        ConfigError, match=r"no artifact 'a\.md'; artifacts: facts\.md, research-specialist_1_facts\.md"
    ):
        bp.artifact("t", "a.md")


def test_a_blob_goes_with_the_last_kept_boundary_that_refers_to_it(store):
    content = "o" * (INLINE + 1)
    plans = [plan(research(task="first")), *[spread([f"{turn}{n}.md" for n in range(5)]) for turn in range(4)]]
    bp = blueprint(plans, [end()] * 5, role=says(first=content), checkpointer=store)
    for turn in range(3):
        bp.run_sync(f"g{turn}", "t")
    assert not holds(bp)
    assert digest(content) in rows(store, "blob")  # The first boundary still has it.
    assert bp.read_file("t", "/research-specialist_1_facts.md", at=1) == bp.artifact("t", digest(content)) == content
    for turn in range(3, 5):
        bp.run_sync(f"g{turn}", "t")
    store.retention = Retention(boundaries=1)
    truncate(open_store(store), "t")
    assert digest(content) not in rows(store, "blob")
    assert rows(store, "blob") == rows(store, "ref")
    assert bp.artifact("t", "facts.md") is None
    bp.delete("t")
    assert plain(store).keys("", "\x7f") == []


def test_a_blob_stays_while_a_kept_boundary_refers_to_it(store):
    content = "o" * (INLINE + 1)
    plans = [plan(research(task="first")), *[spread([f"{turn}{n}.md" for n in range(5)]) for turn in range(3)]]
    parts = Parts(plans, [end()] * 4, says(first=content))
    for turn in range(4):  # Each by a process of its own, which has read the file from nowhere.
        Blueprint(parts, pinned=["facts.md"], checkpointer=store).run_sync(f"g{turn}", "t")
    store.retention = Retention(boundaries=1)
    truncate(open_store(store), "t")
    bp = Blueprint(parts, checkpointer=store)
    assert (len(bp.history("t")), bp.artifact("t", "facts.md") == content) == (1, True)
    assert rows(store, "blob") == rows(store, "ref")


def test_a_file_that_no_kept_boundary_has_is_neither_offered_nor_accepted(store):
    plans = [
        plan(research(task="first")),
        *[spread([f"{n}.md" for n in range(5)])] * 2,
        plan(research("z.md", "facts.md")),
        plan(research("z.md")),
    ]
    parts = Parts(plans, [end(), end(), end(), ask()], says(first="old"))
    bp = Blueprint(parts, checkpointer=store)
    for turn in range(3):
        bp.run_sync(f"g{turn}", "t")
    assert "evicted, restored if named: facts.md" in asked(parts.planned[2])
    store.retention = Retention(boundaries=1)
    truncate(open_store(store), "t")
    assert bp.run_sync("again", "t").question == "which one?"
    _, told = refusal(parts.planned[-1])
    assert "read_files names 'facts.md', which is neither a file" in told
    assert "facts.md" not in asked(parts.planned[3]) + asked(parts.reflected[-1])


def test_a_fork_has_the_files_and_can_restore_what_was_evicted():
    bp, _, _ = evicted_and_read(MemoryCheckpointer(), "o" * (INLINE + 1))
    bp.fork("t", thread_id="u")
    bp.delete("t")
    assert bp.artifact("u", "facts.md") == "o" * (INLINE + 1)


# ---- the bound


def test_fifty_rounds_of_160_kilobytes_stay_under_500_000_bytes_at_every_boundary(store):
    rounds = [plan(research(f"{n}.md", task=str(n))) for n in range(50)]
    bp = blueprint(
        rounds,
        [*[replan()] * 49, end("{{49.md}}")],
        role=lambda request: f"{echo(request)} ".ljust(160_000, "x"),
        checkpointer=store,
        max_reflection_depth=50,
    )
    turn = bp.run_sync("g", "t")
    assert (turn.status, len(turn.text), bp.board("t").step) == ("ended", 160_000, 50)
    assert max(sizes(bp)) < BOUND
    assert len(bp.board("t").files) == 4
    assert bp.artifact("t", "0.md") == "0 ".ljust(160_000, "x")


def test_twenty_files_of_99_kilobytes_are_spilled_until_the_state_fits(store):
    names = [f"{n}.md" for n in range(20)]
    bp = blueprint([spread(names)], role=lambda request: echo(request).ljust(99_000, "x"), checkpointer=store)
    bp.run_sync("g", "t")
    inline = [entry.name for entry in bp.board("t").files.values() if entry.content is not None]
    assert max(sizes(bp)) < BOUND
    assert len(inline) >= 3  # It is not spilled more than is needed.
    assert [bp.artifact("t", name) for name in names] == [name.ljust(99_000, "x") for name in names]


@pytest.mark.parametrize(("limit", "spilled"), [(BOUND, {"large"}), (400_000, {"large", "old"})])
def test_the_largest_are_spilled_first_and_of_one_size_the_oldest(limit, spilled):
    contents = {"old": 101_000, "small": 95_000, "new": 101_000, "large": 102_000, "newer": 101_000}
    plans = [spread(["old", "small"]), spread(["new", "large", "newer"])]
    bp = blueprint(
        plans,
        [replan(), ask()],
        role=lambda request: echo(request).ljust(contents[echo(request)], "x"),
        state_limit=limit,
    )
    bp.run_sync("g", "t")
    assert {entry.name: entry.content is None for entry in bp.board("t").files.values()} == {
        name: name in spilled for name in contents
    }


@pytest.mark.parametrize("limit", [50_000, 200_000])
def test_the_limit_of_the_state_can_be_set(limit):
    bp = blueprint([spread([f"{n}.md" for n in range(9)])], role=lambda _: "x" * 30_000, state_limit=limit)
    bp.run_sync("g", "t")
    assert max(sizes(bp)) < limit


@pytest.mark.parametrize("seed", range(3))
def test_the_state_stays_below_its_limit_whatever_the_models_reply(seed):
    some = random.Random(seed)

    def role(request):
        return some.choice("xé世") * some.choice([10, 1_000, 33_000, 50_000, 99_000, 102_400, 160_000])

    def planned(request):
        return plan(*[research(f"{some.randrange(6)}.md") for _ in range(some.choice([1, 2, 8, 30]))])

    def reflected(request):
        listed = [json.loads(line) for line in asked(request).splitlines() if line.startswith('{"name"')]
        there = [one["name"] for one in listed if "bytes" in one]
        answer = end(" ".join(f"{{{{{name}}}}}" for name in dict.fromkeys(some.choices(there, k=3))))
        return some.choice([ask("q" * 3_000), replan(), answer, answer])

    bp = blueprint(planned, reflected, role=role)
    for turn in range(8):
        assert bp.run_sync("g" * some.choice([10, 49_000]), "t").status in ("ended", "escalated"), turn
        assert max(sizes(bp)) < BOUND


def test_an_answer_that_names_a_file_twice_leaves_room_for_both():
    bp = blueprint([spread("abcd")], [end("{{a}} {{a}}")], role=lambda _: "x" * 97_000)
    assert len(bp.run_sync("g", "t").text) == 194_001
    assert max(sizes(bp)) < BOUND


def test_long_reasons_to_replan_do_not_accumulate():
    bp = blueprint(lambda: plan(research()), lambda: replan("x" * 30_000))
    for turn in range(4):
        bp.run_sync(f"g{turn}", "t")
    assert max(sizes(bp)) < BOUND


def wide(letter):
    """An endless supply of plans of a hundred subtasks, with names of the greatest length."""
    count = iter(range(10**6))
    return lambda: plan(*[research(letter * (94 // len(letter.encode())) + f"{next(count):06}") for _ in range(100)])


@pytest.mark.parametrize("letter", ["x", "報"])
def test_plans_of_many_long_names_and_a_long_answer_fit_together(letter):
    plans = wide(letter)

    def planned(request):
        return plan(research("big", task="big")) if "last" in asked(request) else plans()

    def reflected(request):
        return end("{{big}}") if "last" in asked(request) else replan()

    bp = blueprint(planned, reflected, role=says(big="x" * 240_000))
    bp.run_sync("g", "t")
    assert max(sizes(bp)) < BOUND
    for goal in ("h", "i", "the last one"):
        bp.run_sync(goal, "t")
        assert max(sizes(bp)) < BOUND


def test_the_state_holds_the_messages_of_one_turn(store):
    bp = blueprint([plan(research())] * 6, [end()] * 6, checkpointer=store)
    lengths = []
    for turn in range(6):
        bp.run_sync(f"goal {turn}", "t")
        messages = bp.board("t").messages
        lengths.append(len(messages))
        assert [turn for turn in range(6) if any(f"goal {turn}" in message.text for message in messages)] == [turn]
    assert len(set(lengths[1:])) == 1
    assert lengths[1] <= lengths[0] + 1


def test_the_artifacts_of_a_turn_are_those_it_wrote():
    bp = blueprint([spread(["a", "b", "c"]), spread(["d", "e", "f"])], [end(), end()], role=lambda _: "x" * 97_000)
    bp.run_sync("one", "t")
    turn = bp.run_sync("two", "t")
    assert list(turn.artifacts) == [f"/research-specialist_{n}_{name}.md" for n, name in ((4, "d"), (5, "e"), (6, "f"))]


# ---- names


def test_a_name_means_its_last_version_even_if_that_is_the_one_that_was_evicted():
    one, two = plan(research(task="version 1")), plan(research(task="version 2"))
    plans = [one, two, spread([f"{n}.md" for n in range(4)]), plan(research("z.md", "facts.md", task="read"))]
    parts = Parts(plans, [end("{{facts.md}}"), replan(), replan(), end()], echo)
    bp = Blueprint(parts)
    bp.run_sync("one", "t")
    bp.run_sync("two", "t")
    assert asked(parts.delegated[-1]) == whole_task("read", ("facts.md", "version 2"))


def test_a_name_means_its_last_version():
    plans = [plan(research(task="version 1")), plan(research(task="version 2")), plan(research("z.md", "facts.md"))]
    parts = Parts(plans, [replan(), replan(), end("{{facts.md}}")], echo)
    bp = Blueprint(parts)
    assert bp.run_sync("one", "t").text == "version 2"
    assert "\nversion 2\n" in asked(parts.delegated[-1])
    assert bp.artifact("t", "research-specialist_1_facts.md") == "version 1"


# ---- a disk


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_files_in_the_state_and_on_a_disk_are_used_alike(folder, store):
    def lived(backend, thread):
        plans = [plan(research(), ("critic", "judge", "defects.md", ["facts.md"])), plan(research("b.md", "facts.md"))]
        parts = Parts(plans, [replan(), end("{{facts.md}} {{defects.md}}")])
        bp = Blueprint(parts, backend=backend, checkpointer=store)
        turn = bp.run_sync("g", thread)
        entries = {path: (e.bytes, e.sha256, e.status, e.written_at_step) for path, e in bp.board(thread).files.items()}
        return turn.text, entries, list(map(asked, parts.requests)), bp.board(thread).files

    *kept, here = lived(StateBackend(), "t")
    *same, there = lived(FilesystemBackend(folder), "u")
    assert kept == same
    assert [(e.content is None, e.disk_path) for e in here.values()] == [(False, None)] * 3
    assert [(e.content, e.disk_path) for e in there.values()] == [(None, path) for path in there]
    assert {f"/{path.name}" for path in folder.iterdir()} == set(there)


def test_on_a_disk_the_next_subagent_reads_what_is_there_now(folder):
    def reflect(request, looks=[]):  # noqa: B006
        looks.append(request)
        (folder / "research-specialist_1_facts.md").write_text("as a person has it")
        return replan() if len(looks) == 1 else end("{{facts.md}}")

    parts = Parts([plan(research()), plan(research("b.md", "facts.md"))], reflect)
    turn = Blueprint(parts, backend=FilesystemBackend(folder)).run_sync("g", "t")
    assert "\nas a person has it\n" in asked(parts.delegated[1])
    assert turn.text == "as a person has it"


def test_reading_a_file_that_was_deleted_from_the_disk_fails_the_subtask(folder):
    def reflect(request, looks=[]):  # noqa: B006
        looks.append(request)
        (folder / "research-specialist_1_facts.md").unlink(missing_ok=True)
        return replan() if len(looks) == 1 else ask()

    parts = Parts([plan(research()), plan(research("b.md", "facts.md"), research("c.md"))], reflect)
    bp = Blueprint(parts, backend=FilesystemBackend(folder))
    assert bp.run_sync("g", "t").status == "escalated"
    assert bp.board("t").errors == [
        "b.md: FileViolation: '/research-specialist_1_facts.md' does not exist; find it with ls or glob"
    ]
    assert [entry.name for entry in bp.board("t").files.values()] == ["facts.md", "c.md"]


def test_an_evicted_file_that_was_changed_on_the_disk_is_not_restored(folder):
    def reflect(request, looks=[]):  # noqa: B006
        looks.append(request)
        if len(looks) == 2:
            (folder / "research-specialist_1_facts.md").write_text("another")
        return replan() if len(looks) < 3 else ask()

    plans = [plan(research()), spread([f"{n}.md" for n in range(4)]), *[plan(research("z.md", "facts.md"))] * 2]
    bp = blueprint(plans, reflect, backend=FilesystemBackend(folder))
    turn = bp.run_sync("g", "t")
    assert "read_files names 'facts.md', which is neither a file" in turn.question


def test_an_answer_that_names_a_deleted_file_does_not_loop_for_ever(folder):
    def reflect(request, looks=[]):  # noqa: B006
        looks.append(request)
        if len(looks) == 3:
            (folder / "research-specialist_1_facts.md").unlink()
        return replan() if len(looks) < 3 else end("{{facts.md}}")

    plans = [plan(research()), spread([f"{n}.md" for n in range(4)]), plan(research("z.md"))]
    parts = Parts(plans, reflect)
    Blueprint(parts, backend=FilesystemBackend(folder), limits=SOON).run_sync("g", "t")
    assert len(parts.reflected) <= 5


def test_a_file_that_is_restored_from_the_disk_stays_on_the_disk(folder):
    bp, _, turn = evicted_and_read(backend=FilesystemBackend(folder))
    entry = bp.board("t").files["/research-specialist_1_facts.md"]
    assert (turn.status, entry.content, entry.disk_path) == ("ended", None, "/research-specialist_1_facts.md")


def test_two_threads_in_one_folder_do_not_overwrite_each_other(folder):
    backend = FilesystemBackend(folder)
    plans = [plan(research(task="write")), plan(research("b.md", "facts.md", task="read"))]
    parts = Parts(plans, [end(), end()], says(write="of the first"))
    first = Blueprint(parts, backend=backend)
    first.run_sync("g", "t")
    blueprint([plan(research())], role=lambda _: "of the second", backend=backend).run_sync("g", "u")
    first.run_sync("h", "t")
    assert asked(parts.delegated[1]) == whole_task("read", ("facts.md", "of the first"))


@pytest.mark.parametrize("name", ["\U00010400" * 60, "a." + "報" * 90])
def test_every_accepted_name_can_be_written_to_a_disk(name, folder):
    bp = blueprint([plan(research(name)), plan(research("short.md"))], backend=FilesystemBackend(folder))
    assert (bp.run_sync("g", "t").status, bp.board("t").errors) == ("ended", [])


def test_an_artifact_that_cannot_be_written_fails_its_subtask_only(folder):
    (folder / "research-specialist_1_facts.md").mkdir()
    parts = Parts([plan(research(), research("b.md"))], [end("{{b.md}}")])
    bp = Blueprint(parts, backend=FilesystemBackend(folder))
    assert bp.run_sync("g", "t").text == "Paris. [1]"
    (error,) = bp.board("t").errors
    assert error.startswith("facts.md: it could not be written: '/research-specialist_1_facts.md' is a folder")


@pytest.mark.parametrize("name", ["../up.md", "/etc/up.md", "a/up.md", "..", "a\\..\\up.md", "a\0"])
def test_no_name_escapes_the_folder(name, folder):
    said = json.dumps({"artifact_name": name, "content": "x", "status": "done"})
    bp = blueprint([plan(research(name))] * 2, backend=FilesystemBackend(folder))
    turn = bp.run_sync("g", "t")
    assert turn.status == "ended" or "PlanViolation" in turn.question
    bp = blueprint([plan(research())], [ask()], role=lambda _: said, backend=FilesystemBackend(folder))
    assert bp.run_sync("g", "t").question == "which one?"
    assert all(re.fullmatch(r"research-specialist_1_(\w|-|\.(?!\.))+", path.name) for path in folder.iterdir())
    assert list(folder.parent.glob("*.md")) == []


# ---- files that roles write with tools of their own


def typist(*calls):
    """A role whose model makes these calls one after the other and then replies `typed`."""

    def model(request):
        done = sum(message.role == "tool" for message in request.messages)
        return calls[done] if done < len(calls) else "typed"

    return Role("typist", "You type.", model=ScriptedModel(model), tools=OWN_TOOLS)


def write(path, content):
    return ToolCall("write_file", {"file_path": path, "content": content})


def test_a_file_that_a_role_writes_with_its_own_tools_is_managed_like_others(store):
    large = "y" * 160_000
    plans = [plan(("typist", "type", "log.md")), plan(research("b.md", "notes/a.md", "large.txt", task="read"))]
    parts = Parts(plans, [replan(), end()])
    bp = Blueprint(
        parts,
        [typist(write("/notes/a.md", "mine"), write("/large.txt", large)), Role("research-specialist", "R")],
        checkpointer=store,
    )
    turn = bp.run_sync("g", "t")
    assert asked(parts.delegated[0]) == whole_task("read", ("notes/a.md", "mine"), ("large.txt", large))
    assert '"name":"notes/a.md"' in asked(parts.planned[1])
    files = {entry.name: (entry.content, entry.status, entry.written_at_step) for entry in bp.board("t").files.values()}
    assert files == {
        "notes/a.md": ("mine", "active", 1),
        "large.txt": (None, "active", 1),
        "log.md": ("typed", "done", 1),
        "b.md": ("Paris. [1]", "done", 2),
    }
    assert (bp.read_file("t", "/large.txt"), list(turn.artifacts)[:2]) == (large, ["/notes/a.md", "/large.txt"])


@pytest.mark.parametrize(("age", "kept"), [(20, True), (21, False)])
def test_a_file_that_a_role_writes_with_its_own_tools_is_evicted_after_20_steps(age, kept):
    plans = [plan(("typist", "type", "log.md")), spread([f"{n}.md" for n in range(age)])]
    bp = blueprint(plans, [replan(), ask()], roles=[typist(write("/a.md", "mine")), Role("research-specialist", "R")])
    bp.run_sync("g", "t")
    assert ("/a.md" in bp.get_state("t").files) is kept


def test_files_that_roles_write_with_their_own_tools_count_towards_the_bound():
    writes = [write(f"/{n}.txt", f"{n} ".ljust(99_000, "x")) for n in range(12)]
    writes += [write(f"/large-{n}.txt", f"{n} ".ljust(160_000, "x")) for n in range(12)]
    bp = blueprint([plan(("typist", "type", "log.md"))], roles=[typist(*writes)])
    bp.run_sync("g", "t")
    assert max(sizes(bp)) < BOUND
    assert bp.read_file("t", "/large-7.txt") == "7 ".ljust(160_000, "x")
    assert bp.read_file("t", "/7.txt") == "7 ".ljust(99_000, "x")


def test_a_file_that_a_role_deletes_with_its_own_tools_leaves_the_virtual_files():
    gone = ToolCall("delete", {"file_path": "/research-specialist_1_facts.md"})
    plans = [plan(research(), ("typist", "type", "log.md", ["facts.md"]))]
    bp = blueprint(plans, [ask()], roles=[typist(gone), Role("research-specialist", "R")])
    assert bp.run_sync("g", "t").status == "escalated"
    assert not holds(bp)


def test_an_artifact_that_another_role_edits_in_place_is_read_as_edited():
    path = "/research-specialist_1_facts.md"
    edit = ToolCall("edit_file", {"file_path": path, "old_string": "old", "new_string": "new"})
    plans = [
        plan(research(task="first"), ("typist", "edit", "log.md", ["facts.md"])),
        plan(research("z.md", "facts.md")),
    ]
    parts = Parts(plans, [replan(), end("{{facts.md}}")], says(first="the old facts"))
    bp = Blueprint(parts, [typist(edit), Role("research-specialist", "R")])
    assert bp.run_sync("g", "t").text == "the new facts"
    assert asked(parts.delegated[-1]).startswith("# facts.md\n<file 52dcfd0525a9d1ad>\nthe new facts\n")
    assert bp.read_file("t", path) == "the new facts"


# ---- equal contents


def test_a_content_that_several_files_have_is_kept_once(store):
    content = "same " * 4_000
    names = [f"{n}.md" for n in range(5)]
    bp = blueprint([spread(names), plan(research("more.md"))], [replan(), end("{{4.md}}")], role=lambda _: content)
    bp.checkpointer = store
    turn = bp.run_sync("g", "t")
    files = bp.board("t").files.values()
    assert [(entry.content, entry.disk_path) for entry in files] == [(None, f"sha256:{digest(content)}")] * 6
    assert rows(store, "blob") == {digest(content)}
    assert (turn.text, [bp.artifact("t", name) for name in names]) == (content, [content] * 5)


def test_short_contents_that_are_equal_stay_in_the_state(store):
    bp = blueprint([spread(["a.md", "b.md"])], role=lambda _: "yes", checkpointer=store)
    bp.run_sync("g", "t")
    assert [entry.content for entry in bp.board("t").files.values()] == ["yes", "yes"]


# ---- deleting a thread


def test_deleting_a_thread_removes_what_only_it_wrote_into_a_folder(folder, store):
    backend = FilesystemBackend(folder)
    (folder / "mine.md").write_text("of a person")

    def run(thread, **said):
        names = [research(f"{name}.md", task=name) for name in said]
        bp = blueprint([plan(*names)], role=says(**said), backend=backend, checkpointer=store)
        bp.run_sync("g", thread)
        return bp

    bp = run("t", own="own", shared="both", changed="before")
    run("u", other="other", shared="both")
    (folder / "research-specialist_3_changed.md").write_text("as a person has it")
    bp.delete("t")
    left = sorted(path.name for path in folder.iterdir())
    assert left == [
        "mine.md",
        "research-specialist_1_other.md",
        "research-specialist_2_shared.md",
        "research-specialist_3_changed.md",
    ]
    bp.delete("u")
    assert sorted(path.name for path in folder.iterdir()) == ["mine.md", "research-specialist_3_changed.md"]


def test_deleting_a_fork_leaves_the_files_of_the_thread_that_it_was_copied_from(folder):
    bp = blueprint([plan(research())], backend=FilesystemBackend(folder))
    bp.run_sync("g", "t")
    bp.delete(bp.fork("t"))
    assert len(list(folder.iterdir())) == 1


def test_an_unknown_thread_cannot_be_deleted(folder):
    with pytest.raises(UnknownThread):
        blueprint([], backend=FilesystemBackend(folder)).delete("t")


def test_the_files_of_a_deleted_thread_stay_while_another_thread_cannot_be_read(folder):
    store = MemoryCheckpointer()
    bp = blueprint([plan(research())] * 2, [end(), end()], backend=FilesystemBackend(folder), checkpointer=store)
    bp.run_sync("g", "t")
    bp.run_sync("h", "u")
    damaged = next(key for key in plain(store).keys("log/u/", "log/u0"))
    head = plain(store).head("u")
    plain(store).append("u", head, head, {damaged: b"not a segment"})
    bp.delete("t")
    assert [thread.thread_id for thread in bp.threads()] == ["u"]
    assert len(list(folder.iterdir())) == 1
