"""The terminal asks before it changes the person's files, and refuses where nobody can be asked."""

import os
from pathlib import Path

import pytest
from harness.terminal import at_a_terminal, call, minideep, scripted

from minideep import Approve, DiskCheckpointer, ToolCall, create_deep_agent
from minideep.backends import FilesystemBackend
from minideep.cli.approval import AskBeforeChanges, created_by
from minideep.cli.prompt import preview
from minideep.models import ScriptedModel
from minideep.models.offline import WHAT_I_AM

MODEL = ("--model", "openai-chat:script")


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / ".git" / "config").write_text("[core]\n")
    (folder / "docs").mkdir()
    for name in ("NOTES.md", "OLD.md", "docs/GUIDE.md"):
        (folder / name).write_text(f"the person's {name}\n")
    return folder


def write(path, content="changed\n"):
    return ToolCall("write_file", {"file_path": path, "content": content})


def edit(path, old, new):
    return ToolCall("edit_file", {"file_path": path, "old_string": old, "new_string": new})


def read(path):
    return ToolCall("read_file", {"file_path": path})


def delete(path):
    return ToolCall("delete", {"file_path": path})


def turn(root, *replies, goal="go", thread="t", store=None, model=None, **how):
    """A turn of the agent as the terminal builds it, and what the person was told of refusals."""
    told = []
    guard = AskBeforeChanges(root, goal, refused=told.append, **how)
    model = model or ScriptedModel([*replies, "Done."])
    agent = create_deep_agent(model, backend=FilesystemBackend(root), middleware=[guard], checkpointer=store)
    return agent.run_sync(goal, thread), told, agent, guard


def snapshot(root):
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (write("/NOTES.md"), "'/NOTES.md' was not made by this thread"),
        (write("docs/../NOTES.md"), None),
        (edit("NOTES.md", "the", "a"), "'/NOTES.md' was not made by this thread"),
        (delete("//docs/./GUIDE.md"), "'/docs/GUIDE.md' was not made by this thread"),
        (delete("/docs"), "'/docs' holds files that were not made by this thread"),
        (delete("/.git"), "'/.git' belongs to git"),
        (write("/.git/hooks/pre-commit"), "'/.git/hooks/pre-commit' belongs to git"),
        (write("/sub/.GIT/config"), "'/sub/.GIT/config' belongs to git"),
        (edit(".git/config", "core", "x"), "'/.git/config' belongs to git"),
    ],
)
def test_without_a_person_to_ask_no_file_of_the_person_is_changed(root, change, why):
    before = snapshot(root)
    done, told, _, _ = turn(root, [change])
    assert snapshot(root) == before
    assert done.messages[2].is_error
    if why:
        assert why in done.messages[2].text
        assert [why in line and ("`--yes` allows it" in line) == (".g" not in why.casefold()) for line in told] == [
            True
        ]


@pytest.mark.parametrize(
    "change", [write("/NOTES.md"), edit("/NOTES.md", "the", "a"), delete("/NOTES.md"), delete("/docs")]
)
def test_yes_allows_the_change(root, change):
    before = snapshot(root)
    done, told, _, _ = turn(root, [read("/NOTES.md")], [change], allowed=True)
    assert (done.messages[4].is_error, told) == (False, [])
    assert snapshot(root) != before


@pytest.mark.parametrize("how", [{"allowed": True}, {"goal": "Delete .git, .git/config and /.git/config"}])
@pytest.mark.parametrize("change", [delete("/.git"), delete("/.git/config"), write("/.git/config"), write("/.git/new")])
def test_neither_yes_nor_the_goal_allows_a_change_in_git(root, change, how):
    before = snapshot(root)
    turn(root, [change], **how)
    assert snapshot(root) == before


def test_yes_does_not_delete_a_folder_that_holds_a_git_further_down(root):
    (root / "docs/vendor/.git").mkdir(parents=True)
    done, _, _, _ = turn(root, [delete("/docs")], allowed=True)
    assert "'/docs' holds a .git" in done.messages[2].text
    assert (root / "docs/vendor/.git").is_dir()


def test_a_new_file_needs_no_approval_and_its_thread_may_change_and_delete_it(root):
    done, told, _, _ = turn(
        root, [write("/a.md")], [edit("/a.md", "changed", "again")], [write("/b/c.md")], [delete("/b")]
    )
    assert (done.status, told) == ("ended", [])
    assert (root / "a.md").read_text() == "again\n"
    assert not (root / "b").exists()


def test_a_file_belongs_to_the_thread_that_created_it_in_later_processes_but_not_to_another_thread(root, tmp_path):
    with DiskCheckpointer(tmp_path / "store") as store:
        turn(root, [write("/a.md")], store=store)
        _, _, agent, _ = turn(root, store=store, thread="other")
        made = created_by(agent.get_state("t", subagents=True))
        assert made == {"/a.md"}
        _, told, _, _ = turn(root, [write("/a.md", "mine\n")], store=store, created=made)
        assert (told, (root / "a.md").read_text()) == ([], "mine\n")
        _, told, _, _ = turn(root, [write("/a.md", "not mine\n")], store=store, thread="other")
        assert ("not made by this thread" in told[0], (root / "a.md").read_text()) == (True, "mine\n")


def test_a_file_that_somebody_else_has_changed_needs_approval_again(root):
    def model(request):
        count = len(request.messages)
        if count == 3:
            (root / "a.md").write_text("the person's now\n")
        return {1: [write("/a.md")], 3: [read("/a.md")], 5: [write("/a.md", "x")]}.get(count, "Done.")

    _, told, _, _ = turn(root, model=ScriptedModel(model))
    assert len(told) == 1
    assert (root / "a.md").read_text() == "the person's now\n"


def test_each_change_of_the_persons_file_needs_approval(root):
    turn(root, [write("/NOTES.md")], goal="Write NOTES.md")
    _, told, _, _ = turn(root, [write("/NOTES.md", "once more\n")])
    assert len(told) == 1


@pytest.mark.parametrize(
    "goal",
    [
        "Write it to NOTES.md.",
        "to `NOTES.md`",
        "See (./NOTES.md), please",
        "/NOTES.md!",
        "fix link.md",
        "{root}/NOTES.md",
    ],
)
def test_a_file_that_the_goal_names_needs_no_approval(root, goal):
    (root / "link.md").symlink_to("NOTES.md")
    _, told, _, _ = turn(root, [read("/NOTES.md")], [write("/NOTES.md")], goal=goal.replace("{root}", str(root)))
    assert (told, (root / "NOTES.md").read_text()) == ([], "changed\n")


@pytest.mark.parametrize(
    "goal", ["Write NOTES", "to docs/NOTES.md", "GUIDE.md", "everything in docs", ". / ~ ..", "NOTES.md.bak"]
)
def test_a_similar_name_in_the_goal_does_not_allow_the_file(root, goal):
    _, told, _, _ = turn(root, [write("/NOTES.md"), delete("/docs")], goal=goal)
    assert len(told) == 2


def test_a_file_with_a_space_in_its_name_may_be_named_in_quotes(root):
    (root / "my notes.md").write_text("x")
    _, told, _, _ = turn(root, [write("/my notes.md")], goal='Improve "my notes.md"')
    assert told == []


def test_the_guard_looks_at_the_real_file_behind_a_link(root):
    (root / "link").symlink_to("docs")
    (root / "data").mkdir()
    (root / "repo").symlink_to(".git")
    before = snapshot(root)
    _, told, _, _ = turn(root, [write("/link/GUIDE.md"), write("/repo/config"), delete("/link")], allowed=False)
    assert snapshot(root) == before
    assert [("git" in line, "--yes" in line) for line in sorted(told)] == [(False, True), (False, True), (True, False)]
    assert (root / "link").is_symlink()


def test_the_folder_behind_a_git_that_is_a_link_is_guarded_as_git(root):
    (root / ".git").rename(root / "repository")
    (root / ".git").symlink_to("repository")
    turn(root, [write("/repository/config"), delete("/repository/hooks")], allowed=True)
    assert (root / "repository/config").read_text() == "[core]\n"
    assert (root / "repository/hooks").is_dir()


def test_a_link_in_place_of_a_file_of_the_thread_needs_approval(root):
    def model(request):
        count = len(request.messages)
        if count == 3:
            (root / "a.md").unlink()
            (root / "a.md").symlink_to("NOTES.md")
        return {1: [write("/a.md")], 3: [write("/a.md", "x")]}.get(count, "Done.")

    _, told, _, _ = turn(root, model=ScriptedModel(model))
    assert len(told) == 1
    assert "the person's" in (root / "NOTES.md").read_text()


def test_a_subagent_is_guarded_too_and_its_files_belong_to_the_thread(root):
    def model(request):
        last, first = request.messages[-1].text, request.messages[0].text
        if first == "Replace NOTES.md":
            return "child is done" if len(request.messages) > 1 else [write("/NOTES.md"), write("/child.md")]
        if len(request.messages) == 1:
            return [ToolCall("task", {"description": "Replace NOTES.md", "subagent_type": "general-purpose"})]
        if last == "child is done":
            return [read("/child.md")]
        return [write("/child.md", "parent's\n")] if last.startswith("@@") else "Done."

    done, told, agent, _ = turn(root, model=ScriptedModel(model))
    assert done.status == "ended"
    assert (len(told), "'/NOTES.md'" in told[0]) == (1, True)  # The model named it, not the person.
    assert (root / "child.md").read_text() == "parent's\n"
    assert created_by(agent.get_state("t", subagents=True)) == {"/child.md"}


async def test_at_a_terminal_the_call_waits_until_it_is_approved(root):
    guard = AskBeforeChanges(root, can_ask=True)
    model = ScriptedModel([[write("/NOTES.md"), delete("/.git")], "Done."])
    agent = create_deep_agent(model, backend=FilesystemBackend(root), middleware=[guard])
    waits = await agent.run("go", "t")
    assert [(wait.call.name, guard.needs_decision(wait.call)) for wait in waits.interrupts] == [
        ("write_file", False), ("delete", True),
    ]  # fmt: skip
    ids = [wait.call_id for wait in waits.interrupts]
    done = await agent.resume("t", {ids[0]: Approve(), ids[1]: Approve()})
    assert done.text == "Done."
    assert (root / "NOTES.md").read_text() == "changed\n"
    assert not (root / ".git").exists()


async def test_at_a_terminal_a_subagents_call_waits_too_and_is_previewed(root):
    def model(request):
        if request.messages[0].text == "Replace it":
            return [write("/NOTES.md")] if len(request.messages) == 1 else "child is done"
        task = ToolCall("task", {"description": "Replace it", "subagent_type": "general-purpose"}, "t1")
        return [task] if len(request.messages) == 1 else "Done."

    guard = AskBeforeChanges(root, can_ask=True)
    agent = create_deep_agent(ScriptedModel(model), backend=FilesystemBackend(root), middleware=[guard])
    waits = await agent.run("go", "t")
    (wait,) = waits.interrupts
    assert (waits.status, wait.path, preview(wait.call, guard)[-2]) == ("paused", ("t1",), "+changed")
    done = await agent.resume("t", {f"t1/{wait.call_id}": Approve()})
    assert (done.text, (root / "NOTES.md").read_text()) == ("Done.", "changed\n")


def test_an_escaped_path_does_not_bypass_the_guard(root):
    (root / "a\x1bb.md").write_text("the person's\n")
    turn(root, [write("/a\\x1bb.md")], [delete("/a\\x1bb.md")])
    assert (root / "a\x1bb.md").read_text() == "the person's\n"


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b'{"file_path": "/a", "file_path": "/b"}', "/b"),
        (b'{"file_path": "/a", "content": "\\ud800"}', "/a"),
        (b'{"file_path": "/\\ud83d\\ude00"}', "/\U0001f600"),
        (b'{"file_path": 7, "content": "\\ud800"}', ""),
        (b'{"file_path": 7}', ""),
        (b'"no object"', ""),
    ],
)
def test_the_guard_reads_a_call_as_its_tool_does(root, raw, path):
    assert AskBeforeChanges(root).target(ToolCall("delete", raw, "x")) == path


def test_a_preview_is_a_short_diff(root):
    guard = AskBeforeChanges(root)
    assert preview(write("/NOTES.md", "one\ntwo\n"), guard) == [
        "--- /NOTES.md", "+++ /NOTES.md (proposed)", "@@ -1,2 +1,3 @@", "-the person's NOTES.md", "+one", "+two", " ",
    ]  # fmt: skip
    assert preview(edit("/NOTES.md", "the person", "nobody"), guard)[3:5] == [
        "-the person's NOTES.md",
        "+nobody's NOTES.md",
    ]
    several = edit("/NOTES.md", "the", "a").args | {"edits": [["person's", "reader's"]]}
    assert preview(ToolCall("edit_file", several), guard)[4] == "+a reader's NOTES.md"
    assert preview(ToolCall("edit_file", several | {"edits": [7]}), guard)[0].startswith("cannot be shown: edits[0]")
    assert preview(edit("/NOTES.md", "dragons", "x"), guard)[0].startswith(
        "cannot be shown: '/NOTES.md' was not changed"
    )
    long = preview(write("/NOTES.md", "x\n" * 1000), guard)
    assert (len(long), long[-1]) == (41, "… and 965 more lines")
    assert preview(write("/NOTES.md", "x" * 300_000), guard) == ["/NOTES.md: 22 bytes become 300,000"]
    assert preview(write("/NOTES.md", "a\0b"), guard) == ["/NOTES.md: 22 bytes become 3"]
    assert preview(delete("/docs"), guard) == ["deletes the folder /docs and everything in it"]


def test_a_person_is_asked_call_by_call_and_the_turn_goes_on_in_the_same_command(root):
    calls = [
        call("write_file", file_path="/NOTES.md", content="\x1b[31mred\n"),
        call("delete", file_path="/OLD.md"),
        call("edit_file", file_path="/docs/GUIDE.md", old_string="person", new_string="reader"),
        call("delete", file_path="/docs/GUIDE.md.gone"),
        call("delete", file_path="/.git"),
    ]
    again = [call("read_file", file_path="/OLD.md")], [call("write_file", file_path="/OLD.md", content="new\n")]
    with scripted(calls, *again, "All done.") as env:
        code, shown = at_a_terminal("run", "go", *MODEL, cwd=root, env=env, typed="huh?\ny\nn\nall\nn\n")
    assert code == 0, shown
    assert "All done." in shown
    assert "+\\x1b[31mred" in shown
    assert "\x1b[31mred" not in shown
    assert (root / "NOTES.md").read_text() == "\x1b[31mred\n"
    assert (root / "docs/GUIDE.md").read_text() == "the reader's docs/GUIDE.md\n"
    assert (root / "OLD.md").read_text() == "new\n"  # It was kept when asked, and fell under "all" later.
    assert (root / ".git/config").exists()


@pytest.fixture
def report(root):
    """A report of the stand-in's, which it writes anew when it is asked what is here, under a name that nobody says."""
    (root / "REPORT.md").write_text(f"{WHAT_I_AM}\n")
    return root / "REPORT.md"


def test_a_call_stays_pending_when_the_person_leaves_the_question(root, report):
    code, shown = at_a_terminal("run", "Say what is here", "--thread", "t", cwd=root, typed="\x04")
    assert (code, "decide with `minideep resume t --approve` or `--reject REASON`" in shown) == (3, True)
    waits = minideep("resume", "t", cwd=root)
    assert waits.returncode == 3
    assert "  +## What is here\n" in waits.stdout
    refused = minideep("run", "And now?", "--thread", "t", cwd=root)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "`minideep resume t --approve` or `--reject REASON`; --drop-waiting" in refused.stderr
    assert report.read_text() == f"{WHAT_I_AM}\n"
    code, shown = at_a_terminal("resume", "t", cwd=root, typed="y\n")
    assert (code, "/REPORT.md is written" in shown) == (0, True)
    assert "## What is here" in report.read_text()


def test_drop_waiting_continues_without_the_pending_calls(root, report):
    at_a_terminal("run", "Say what is here", "--thread", "t", cwd=root, typed="\x04")
    run = minideep("run", "Then write it to OTHER.md", "--thread", "t", "--drop-waiting", cwd=root)
    assert run.returncode == 0, run.stderr
    assert (report.read_text(), (root / "OTHER.md").exists()) == (f"{WHAT_I_AM}\n", True)


def test_without_a_terminal_a_refusal_names_yes_as_the_remedy_and_yes_works(root, report):
    run = minideep("run", "Say what is here", "--json", cwd=root)
    assert run.returncode == 0
    told = (
        "minideep: write_file '/REPORT.md' was refused: '/REPORT.md' was not made by this thread; `--yes` allows it\n"
    )
    assert told in run.stderr
    assert report.read_text() == f"{WHAT_I_AM}\n"
    run = minideep("run", "Say what is here", "--yes", cwd=root)
    assert "/REPORT.md is written" in run.stdout


def test_the_first_command_of_the_manual_runs_twice_in_a_row_with_nobody_there(root):
    goal = "Read this project and write a tour of its loop and checkpoints to TOUR.md"
    for _ in range(2):
        run = minideep("run", goal, "--root", ".", cwd=root)
        assert (run.returncode, "/TOUR.md is written" in run.stdout) == (0, True), run.stderr
    assert not (root / "TOUR-2.md").exists()


def test_a_plan_writes_to_its_thread_and_never_asks(root):
    before = snapshot(root)
    run = minideep("plan", "What is here?", "--model", "offline:", cwd=root)
    assert (run.returncode, "refused" in run.stderr, snapshot(root)) == (0, False, before)


def test_two_names_of_one_file_are_guarded_as_one_file(root):
    os.link(root / "NOTES.md", root / "notes.MD")
    os.link(root / "OLD.md", root / "old.MD")
    _, told, _, _ = turn(root, [write("/notes.MD"), write("/old.MD")], goal="Write NOTES.md")
    assert (len(told), "'/old.MD'" in told[0]) == (1, True)


def test_paths_without_a_file_and_calls_without_a_path_are_left_to_the_tool(root):
    guard = AskBeforeChanges(root)
    for one in (write("/../x"), write(7), ToolCall("delete", {}), ToolCall("read_file", {"file_path": "/NOTES.md"})):
        assert preview(one, guard) == []
    assert guard.find("delete", "/", {}).need == "nothing"
    assert guard.find("edit_file", "/missing.md", {}).need == "nothing"
    assert Path(root / "NOTES.md").exists()


def test_a_root_that_became_a_link_is_guarded_at_its_target(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    before = snapshot(root)
    turn(tmp_path / "link", [write("/NOTES.md"), delete("/OLD.md"), write("/.git/config"), delete("/docs")])
    assert snapshot(root) == before


def test_a_path_too_deep_to_look_at_counts_as_neither_new_nor_empty(root):
    made = Path.cwd()
    names = ["d" * 200] * 19
    try:
        os.chdir(root)
        for name in names:
            Path(name).mkdir()
            os.chdir(name)
        for name in ("e" * 200, "f" * 60):
            Path(name).mkdir()
            os.chdir(name)
        Path("mine").write_text("the person's\n")
        path = "/" + "/".join([*names, "e" * 200, "f" * 60, "mine"])
        assert (len(path) <= 4096, len(f"{root}{path}") > 4096) == (True, True)
        _, told, _, _ = turn(root, [write(path), delete(f"/{names[0]}")])
        assert len(told) == 2
        assert Path("mine").read_text() == "the person's\n"
    finally:
        os.chdir(made)


def test_the_reason_says_that_the_threads_own_file_was_changed_by_somebody_else(root, tmp_path):
    store = DiskCheckpointer(tmp_path / "state")
    turn(root, [write("/a.md")], store=store)
    (root / "a.md").write_text("the person's now\n")
    created = created_by(store_state(store))
    _, told, _, _ = turn(root, [write("/a.md", "x")], store=store, created=created)
    assert told == ["write_file '/a.md' was refused: '/a.md' was changed since this thread wrote it; `--yes` allows it"]


def store_state(store):
    return create_deep_agent(ScriptedModel([]), checkpointer=store).get_state("t", subagents=True)


def test_a_preview_of_a_pipe_does_not_block(root):
    os.mkfifo(root / "pipe")
    assert preview(write("/pipe"), AskBeforeChanges(root)) == ["/pipe is not a regular file"]
    assert preview(delete("/pipe"), AskBeforeChanges(root)) == ["deletes /pipe"]


def test_a_line_break_in_a_name_does_not_forge_a_line_of_the_question(root):
    name = "a\nwaits for a person: x"
    (root / name).write_text("the person's\n")
    guard = AskBeforeChanges(root)
    shown = [*preview(write(f"/{name}"), guard), *preview(delete(f"/{name}"), guard)]
    shown.append(guard.find("delete", f"/{name}", {}).why)
    assert [line for line in shown if "\n" in line] == []
    assert shown[-1] == r"'/a\x0awaits for a person: x' was not made by this thread"


def test_nobody_is_asked_if_the_question_cannot_be_seen(root, report):
    errors = root.parent / "errors"
    with errors.open("w") as file:
        code, _ = at_a_terminal("run", "Say what is here", cwd=root, stderr=file)
    assert code == 0
    assert "'/REPORT.md' was refused" in errors.read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is full")
def test_a_refusal_that_cannot_be_printed_does_not_fail_the_turn(root, report):
    with Path("/dev/full").open("w") as full:
        code, shown = at_a_terminal("run", "Say what is here", cwd=root, stderr=full)
    assert (code, "I could not write /REPORT.md" in shown) == (0, True)


def test_the_printed_command_to_resume_a_thread_works(root, report, tmp_path):
    where = ("--root", "root", "--state", "my threads")
    code, shown = at_a_terminal("run", "Say what is here", *where, "--thread", "my t", cwd=tmp_path, typed="\x04")
    line = "decide with `minideep resume 'my t' --root root --state 'my threads' --approve` or `--reject REASON`"
    assert (code, line in shown) == (3, True)
    refused = minideep("run", "And?", *where, "--thread", "my t", cwd=tmp_path)
    assert "`minideep resume 'my t' --root root --state 'my threads' --approve`" in refused.stderr
    assert minideep("resume", "my t", *where, "--approve", cwd=tmp_path).returncode == 0
    ended = minideep("resume", "my t", *where, cwd=tmp_path)
    assert (ended.returncode, "already ended: nothing to resume" in ended.stdout) == (0, True)
