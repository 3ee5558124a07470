"""Agents under permissions: which calls run, wait or are refused, in every run below, through links and edits alike."""

import asyncio
import json
from pathlib import Path

import pytest

from minideep import (
    Agent,
    Approval,
    Approve,
    ConfigError,
    Edit,
    MemoryCheckpointer,
    Middleware,
    Reject,
    Subagent,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    create_deep_agent,
    tool,
)
from minideep.access import Access
from minideep.backends import FilesystemBackend, LocalShellBackend, PermittedBackend, StateBackend
from minideep.middleware import FilesystemMiddleware, PermissionsMiddleware
from minideep.models import ScriptedModel
from minideep.permissions import Allow, Ask, Deny, ask_before_writes, read_only, workspace

FILES = {"src/a.py": "alpha", "src/.env": "alpha", "secret/x": "alpha", "secret/sub/y": "alpha", "pub/f": "alpha"}


class OwnBackend(StateBackend):
    """A backend of a user's own, of which nothing but the port is known."""


@pytest.fixture(params=["state", "own", "disk"])
def backend(request, tmp_path):
    if request.param != "disk":
        return StateBackend() if request.param == "state" else OwnBackend()
    return FilesystemBackend(tmp_path)


@pytest.fixture
def disk(tmp_path):
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return FilesystemBackend(tmp_path)


class Bench:
    """An agent under rules, which makes the calls that it is given; and what became of each."""

    def __init__(self, rules, backend, **more):
        self.replies, self.asked, self.turn = [], 0, None
        self.agent = create_deep_agent(
            ScriptedModel(self.say), backend=backend, permissions=rules, checkpointer=MemoryCheckpointer(), **more
        )

    def say(self, request):
        return self.replies.pop(0) if self.replies else "done"

    async def __call__(self, *calls):
        """Return the results of one reply with these calls, in order, once all are answered."""
        self.replies = [[ToolCall(name, args, f"c{self.asked + place}") for place, (name, args) in enumerate(calls)]]
        files = None if self.asked else FILES
        self.asked += len(calls)
        self.turn = await self.agent.run("go", "t", files=files)
        return self.results()

    async def decide(self, *decisions):
        """Give a decision about each call that waits, in order."""
        waiting = [wait.call_id for wait in self.turn.interrupts]
        self.turn = await self.agent.resume("t", dict(zip(waiting, decisions, strict=True)))
        return self.results()

    def results(self):
        assert self.turn.status in ("ended", "paused"), self.turn.error
        return [message.text for message in self.turn.messages if message.role == "tool"]

    @property
    def waits(self):
        return [wait.reason for wait in self.turn.interrupts]


def read(path):
    return "read_file", {"file_path": path}


def write(path, content="new"):
    return "write_file", {"file_path": path, "content": content}


def edit(path):
    return "edit_file", {"file_path": path, "old_string": "alpha", "new_string": "beta"}


def delete(path):
    return "delete", {"file_path": path}


def ls(path="/"):
    return "ls", {"path": path}


def glob(pattern="**", path="/"):
    return "glob", {"pattern": pattern, "path": path}


def grep(path="/", mode="files_with_matches"):
    return "grep", {"pattern": "alpha", "path": path, "output_mode": mode}


async def test_a_denied_call_is_an_error_that_names_the_rule_and_says_what_to_do(backend):
    said = await Bench([Deny("read", "/secret/**"), Deny("write")], backend)(read("/secret/x"), write("/pub/f"))
    assert said == [
        "read_file was not run: Deny('read', '/secret/**') forbids it; do without it, or say that you need it and why",
        "write_file was not run: Deny('write') forbids it; do without it, or say that you need it and why",
    ]


@pytest.mark.parametrize("call", [write("/secret/n"), edit("/secret/x"), delete("/secret/x"), delete("/secret")])
async def test_a_rule_against_writing_stops_every_tool_that_changes_a_file(backend, call):
    (said,) = await Bench([Deny("write", "/secret/**")], backend)(call)
    assert "Deny('write', '/secret/**') forbids it" in said
    bench = Bench([Deny("write", "/secret/**")], backend)
    assert "alpha" in (await bench(read("/secret/x"), read("/secret/sub/y")))[0]


async def test_a_file_that_must_not_be_read_is_not_edited_either_as_the_error_would_tell_what_is_in_it(backend):
    guess = "edit_file", {"file_path": "/src/.env", "old_string": "beta", "new_string": "alp"}
    (said,) = await Bench([Deny("read", "*.env")], backend)(guess)
    assert said.startswith("edit_file was not run: Deny('read', '*.env') forbids it")
    bench = Bench([Ask("read", "*.env"), Ask("write")], backend)
    await bench(edit("/src/.env"))
    assert len(bench.waits) == 1
    assert (await bench.decide(Approve())) == ["replaced 1 occurrence in '/src/.env'"]


async def test_the_results_of_ls_glob_and_grep_leave_out_what_must_not_be_read(backend):
    bench = Bench([Deny("read", "/secret"), Deny("read", "*.env")], backend)
    listed, found, searched, counted, below, hidden = await bench(
        ls(), glob(), grep(), grep(mode="count"), glob("/secret/**"), glob("/src/.env")
    )
    assert listed == "/pub/\n/src/"
    assert found == "/pub/f\n/src/a.py"
    assert searched == "/pub/f\n/src/a.py"
    assert counted == "/pub/f: 1\n/src/a.py: 1"
    assert "/secret/x" not in below
    assert "no file" in hidden or "forbids it" in hidden


async def test_a_folder_is_listed_as_far_as_something_in_it_may_be_read(backend):
    bench = Bench([Allow("read", "/src/*.py"), Deny("read")], backend)
    assert await bench(ls(), ls("/src"), glob(), grep()) == ["/src/", "/src/a.py", "/src/a.py", "/src/a.py"]
    (said,) = await bench(ls("/pub"))
    assert "Deny('read') forbids it" in said


async def test_a_missing_file_is_not_answered_with_the_name_of_one_that_must_not_be_read(backend):
    (said,) = await Bench([Deny("read", "/secret/x")], backend)(read("/secret/xx"))
    assert "'/secret/x'" not in said


@pytest.mark.parametrize("path", ["/secret/x", "secret/x", "/secret//x", "./secret/./x", "/secret/x/", "/SECRET/X"])
async def test_no_spelling_of_a_path_leads_around_a_rule(disk, path):
    (said,) = await Bench([Deny("read", "/secret")], disk)(read(path))
    assert "alpha" not in said


async def test_another_name_of_an_argument_is_the_same_argument(disk):
    (said,) = await Bench([Deny("read", "/secret")], disk)(("read_file", {"path": "/secret/x"}))
    assert "Deny('read', '/secret') forbids it" in said


async def test_of_a_folder_with_anything_in_it_that_must_stay_nothing_is_deleted(backend):
    bench = Bench([Deny("write", "/secret/sub/**")], backend)
    (said,) = await bench(delete("/secret"))
    assert "'/secret/sub/y' was not reached: Deny('write', '/secret/sub/**') forbids it" in said
    assert ["alpha" in text for text in await bench(read("/secret/x"), read("/secret/sub/y"))] == [True, True]
    bench = Bench([Deny("write", "*.key")], backend)
    assert (await bench(delete("/secret"))) == ["deleted '/secret' with all in it (files: 2)"]


async def test_a_hidden_file_that_must_stay_keeps_its_folder(backend):
    (said,) = await Bench([Deny("write", "*.env")], backend)(delete("/src"))
    assert "'/src/.env' was not reached" in said


# ---- links


@pytest.fixture
def links(disk, tmp_path):
    (tmp_path / "pub" / "folder").symlink_to("../secret")
    (tmp_path / "pub" / "file").symlink_to("../secret/x")
    (tmp_path / "pub" / "chain").symlink_to("folder/sub/../x")
    return disk


@pytest.mark.parametrize(
    "call",
    [
        read("/pub/file"),
        read("/pub/folder/x"),
        read("/pub/chain"),
        ls("/pub/folder"),
        ls("/pub/folder/sub"),
        glob("**", "/pub/folder"),
        grep("/pub/folder", "content"),
        grep("/pub/file", "content"),
    ],
)
async def test_a_rule_against_reading_binds_what_a_link_leads_to(links, call):
    (said,) = await Bench([Deny("read", "/secret")], links)(call)
    assert "alpha" not in said.replace("'alpha'", "")
    assert "/y" not in said


@pytest.mark.parametrize(
    "call",
    [
        write("/pub/file"),
        write("/pub/folder/n"),
        write("/pub/folder/new/n"),
        edit("/pub/file"),
        delete("/pub/folder/x"),
    ],
)
async def test_a_rule_against_writing_binds_what_a_link_leads_to_and_makes_no_folder_there(links, call, tmp_path):
    before = tree(tmp_path / "secret")
    (said,) = await Bench([Deny("write", "/secret")], links)(call)
    assert "leads to '/secret/" in said
    assert "Deny('write', '/secret') forbids it" in said
    assert tree(tmp_path / "secret") == before


async def test_a_search_passes_links_to_what_must_not_be_read(links):
    searched, found = await Bench([Deny("read", "/secret")], links)(grep(mode="content"), glob())
    assert "secret" not in searched + found
    assert "/pub/file" not in searched


async def test_a_link_is_deleted_where_it_stands_and_not_where_it_leads(links, tmp_path):
    assert await Bench([Deny("write", "/secret")], links)(delete("/pub/folder")) == ["deleted '/pub/folder'"]
    assert tree(tmp_path / "secret")
    (said,) = await Bench([Deny("write", "/pub")], links)(delete("/pub/file"))
    assert "forbids it" in said


async def test_a_rule_about_a_link_itself_holds_too(links):
    (said,) = await Bench([Deny("read", "/pub/file")], links)(read("/pub/file"))
    assert "forbids it" in said


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.is_dir() or path.read_text() for path in Path(folder).rglob("*")}


async def test_files_that_must_not_be_read_take_no_place_among_those_that_are_found(disk, tmp_path):
    (tmp_path / "many").mkdir()
    for number in range(1_100):
        (tmp_path / "many" / f"{number}.py").write_text("alpha")
    found, searched = await Bench([Deny("read", "/many")], disk)(glob("*.py"), grep())
    assert found == "/src/a.py"
    assert sorted(searched.split("\n")) == ["/pub/f", "/secret/sub/y", "/secret/x", "/src/.env", "/src/a.py"]


@pytest.mark.parametrize("path", ["secret/x", "{root}/secret/x", "pub/file", "{root}/elsewhere/x"])
async def test_where_paths_are_those_of_the_machine_relative_patterns_start_at_the_root(links, tmp_path, path):
    (tmp_path / "elsewhere").symlink_to(tmp_path / "secret")
    machine = FilesystemBackend(tmp_path, virtual_mode=False)
    bench = Bench([Allow("read", "src/**"), Deny("read", "secret/**"), Deny("write")], machine)
    bench.asked = 1  # The files are there.
    said = await bench(read(path.format(root=tmp_path)), read("src/a.py"), read(str(tmp_path / "src" / "a.py")))
    assert ["forbids it" in text for text in said] == [True, False, False]


# ---- a person


async def test_a_call_waits_and_runs_once_a_person_has_approved_it(backend):
    bench = Bench([Ask("write", "/src/**")], backend)
    assert await bench(write("/src/n"), write("/pub/n")) == []
    assert bench.waits == ["Ask('write', '/src/**') has a person decide"]
    assert await bench.decide(Approve()) == ["created '/src/n' (3 bytes)", "created '/pub/n' (3 bytes)"]


async def test_an_edit_of_a_person_is_checked_anew(backend):
    bench = Bench([Ask("write", "/src/**"), Deny("write", "/secret/**")], backend)
    await bench(write("/src/n"))
    (said,) = await bench.decide(Edit({"file_path": "/secret/n", "content": "x"}))
    assert said.startswith("write_file was not run: Deny('write', '/secret/**') forbids it")
    await bench(write("/src/m"))
    (*_, said) = await bench.decide(Edit({"file_path": "/src/o", "content": "x"}))
    assert said.startswith("created '/src/o'")


async def test_names_of_files_that_a_person_decides_about_are_listed_and_their_content_is_not_searched(backend):
    bench = Bench([Ask("read", "/secret/**")], backend)
    listed, found, searched = await bench(ls("/secret"), glob(), grep())
    assert "/secret/x" in listed
    assert "/secret/x" in found
    assert "/secret/x" not in searched
    assert "files skipped as too large or unreadable: 2" in searched


async def test_a_search_of_a_folder_that_a_person_decides_about_waits(backend):
    bench = Bench([Ask("read", "/secret")], backend)
    assert await bench(grep("/secret"), ls("/secret")) == []
    assert bench.waits == ["Ask('read', '/secret') has a person decide"] * 2
    searched, listed = await bench.decide(Approve(), Approve())
    assert sorted(searched.split("\n")) == ["/secret/sub/y", "/secret/x"]
    assert listed == "/secret/sub/\n/secret/x"


async def test_a_deletion_waits_if_a_zone_of_decisions_lies_in_the_folder(backend):
    bench = Bench([Ask("write", "/secret/sub/**")], backend)
    assert await bench(delete("/secret")) == []
    assert await bench.decide(Approve()) == ["deleted '/secret' with all in it (files: 2)"]


async def test_a_deletion_that_meets_a_file_to_decide_about_says_to_delete_that_by_name(backend):
    bench = Bench([Ask("write", "*.env")], backend)
    (said,) = await bench(delete("/src"))
    assert "'/src/.env' was not reached: Ask('write', '*.env') has a person decide; make a call of its own" in said
    await bench(delete("/src/.env"))
    assert (await bench.decide(Approve()))[-1] == "deleted '/src/.env'"


async def test_the_approval_of_a_link_is_none_of_its_target(links):
    bench = Bench([Ask("read", "/secret"), Ask("read", "/pub")], links)
    await bench(read("/pub/file"))
    (said,) = await bench.decide(Approve())
    assert "leads to '/secret/x', which was not reached: Ask('read', '/secret') has a person decide" in said
    bench = Bench([Ask("read", "/secret")], links)
    (said,) = await bench(read("/pub/file"))
    assert "make a call of its own for that path" in said


async def test_a_person_who_decides_for_another_reason_is_asked_once(backend):
    bench = Bench([Ask("write")], backend, interrupt_on={"write_file": Approval(describe="writes")})
    await bench(write("/n"))
    assert bench.waits == ["Ask('write') has a person decide"]
    assert await bench.decide(Approve()) == ["created '/n' (3 bytes)"]


async def test_a_denied_call_is_refused_before_anybody_is_asked(backend):
    bench = Bench([Deny("write")], backend, interrupt_on={"write_file": True})
    (said,) = await bench(write("/n"))
    assert "forbids it" in said


@pytest.mark.parametrize(("decision", "said"), [(Approve(), "created '/n' (3 bytes)"), (Reject("alone"), "alone")])
async def test_where_nobody_attends_the_decision_made_beforehand_counts(backend, decision, said):
    bench = Bench([Ask("write"), Deny("write")], backend)
    bench.agent = bench.agent.with_options(unattended=decision)
    (result,) = await bench(write("/n"))
    assert said in result


# ---- other tools


def opened(path: str, ctx: ToolContext) -> str:
    """Open a thing."""
    return f"opened {path}"


async def test_a_tool_of_ones_own_is_held_by_what_it_says_that_it_reaches_and_by_its_name(backend):
    seen = Tool(opened, access=lambda args: [Access("read", args["path"])])
    for rules, path, runs in (
        ([Deny("read", "/secret")], "/secret/x", False),
        ([Deny("read", "/secret")], "/pub/f", True),
        ([Deny("opened")], "/pub/f", False),
        ([Deny("opened", "/pub")], "/pub/f", False),
        ([Deny("*")], "/pub/f", False),
    ):
        (said,) = await Bench(rules, backend, tools=[seen])(("opened", {"path": path}))
        assert said.startswith("opened /") is runs


async def test_a_rule_may_name_a_file_tool_and_its_paths(links):
    rules = [Allow("read_file", "/src/**"), Deny("read_file"), Deny("ls", "/secret")]
    bench = Bench(rules, links)
    said = await bench(read("/src/a.py"), read("/pub/file"), read("/pub/f"), ls("/secret"), ls(), grep("/secret"))
    assert ["forbids it" in text for text in said] == [False, True, True, True, False, False]
    assert said[4] == "/pub/\n/src/"


async def test_a_tool_that_takes_all_of_a_folder_is_refused_if_something_may_be_there_that_it_must_not_reach(backend):
    def pack(folder: str) -> str:
        """Pack a folder."""
        return "packed"

    packing = Tool(pack, access=lambda args: [Access("read", args["folder"], below=True)])
    bench = Bench([Deny("read", "/secret/sub")], backend, tools=[packing])
    said = await bench(*(("pack", {"folder": folder}) for folder in ("/", "/secret", "/pub")), ls("/secret"))
    assert ["forbids it" in text for text in said] == [True, True, False, False]


async def test_what_says_what_a_call_reaches_is_given_its_arguments_and_nothing_else(backend):
    given = []
    seen = Tool(opened, access=lambda args: given.append(args) or ())
    await Bench([Deny("read", "/secret")], backend, tools=[seen])(("opened", {"path": "/pub/f"}))
    assert given == [{"path": "/pub/f"}]


async def test_a_tool_that_reaches_several_things_gets_the_strictest_verdict(backend):
    @tool
    def move(source: str, target: str) -> str:
        """Move a file."""
        return "moved"

    moving = Tool(move, access=lambda args: [Access("read", args["source"]), Access("write", args["target"])])
    bench = Bench([Deny("write", "/secret"), Ask("read", "/src/**")], backend, tools=[moving])
    (said,) = await bench(("move", {"source": "/src/a.py", "target": "/secret/a"}))
    assert "Deny('write', '/secret')" in said
    assert await bench(("move", {"source": "/src/a.py", "target": "/pub/a"})) == []
    assert bench.waits == ["Ask('read', '/src/**') has a person decide"]


@pytest.mark.parametrize("path", ["secret/x", "//secret//x", "/./secret/x/", "/src/../secret/x"])
async def test_a_path_that_a_tool_spells_in_another_way_is_the_same_path(backend, path):
    seen = Tool(opened, access=lambda args: [Access("read", args["path"])])
    (said,) = await Bench([Deny("read", "/secret")], backend, tools=[seen])(("opened", {"path": path}))
    assert said.startswith("opened was not run")


async def test_what_a_tool_cannot_say_that_it_reaches_is_not_allowed(backend):
    def access(args):
        raise ToolError("no such place")

    (said,) = await Bench(read_only(), backend, tools=[Tool(opened, access=access)])(("opened", {"path": "/"}))
    assert said == "opened was not run: no such place"


async def test_wrong_arguments_get_the_error_of_the_tool_and_unknown_tools_theirs(backend):
    wrong, unknown, path = await Bench(read_only(), backend)(
        ("read_file", {"nonsense": 1}), ("nope", {}), read("/../x")
    )
    assert "file_path" in wrong
    assert "no tool named 'nope'" in unknown
    assert "'..' is not allowed" in path


async def test_a_file_tool_under_another_name_is_still_checked_where_it_arrives(links):
    own = FilesystemMiddleware(links)
    renamed = Tool(own.read_file, name="look")
    (said,) = await Bench([Deny("read", "/secret")], links, tools=[renamed])(("look", {"file_path": "/secret/x"}))
    assert "'/secret/x' was not reached: Deny('read', '/secret') forbids it" in said


async def test_a_tool_with_a_backend_of_its_own_is_checked_through_a_permitted_one(links):
    held, bare = PermittedBackend(links), links

    def peek(path: str, ctx: ToolContext) -> str:
        """Look into a file."""
        return held.read(ctx, path).decode()

    def bypass(path: str, ctx: ToolContext) -> str:
        """Look into a file, whatever the rules say: they cannot see into a tool."""
        return bare.read(ctx, path).decode()

    bench = Bench([Deny("read", "/secret")], links, tools=[peek, bypass])
    said = await bench(*((name, {"path": "/pub/file"}) for name in ("peek", "bypass")))
    assert "leads to '/secret/x', which was not reached" in said[0]
    assert said[1] == "alpha"


async def test_the_runtime_reaches_its_own_files_whatever_the_rules_say(disk, tmp_path):
    (tmp_path / "AGENTS.md").write_text("Answer in French.")

    def long(n: int) -> str:
        """Say much."""
        return "much " * 40_000

    bench = Bench([Deny("read"), Deny("write")], disk, tools=[long], memory=["/AGENTS.md"])
    (said,) = await bench(("long", {"n": 1}))
    assert "/large_tool_results/" in said
    assert "Answer in French." in bench.agent.spec.model.requests[0].system


async def test_files_that_come_with_an_input_are_written_whatever_the_rules_say(backend):
    bench = Bench([Deny("write")], backend)
    (said,) = await bench(read("/pub/f"))
    assert "alpha" in said


# ---- commands


def shell():
    """A tool that runs commands, and the commands that it was given."""
    ran = []

    def execute(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "ran"

    return Tool(execute, access=lambda args: [Access("execute", args["command"])]), ran


def runs(command):
    return "execute", {"command": command}


async def test_commands_run_wait_or_are_refused_by_the_strictest_of_their_parts(backend):
    rules = [Deny("execute", "rm *"), Allow("execute", "git *"), Ask("execute")]
    execute, ran = shell()
    bench = Bench(rules, backend, tools=[execute])
    said = await bench(runs("git status"), runs("git status && rm -rf ."), runs("git status\nsudo rm x"), runs("$(x)"))
    assert said[0] == "ran"
    assert all("Deny('execute', 'rm *') forbids it" in text for text in said[1:])
    assert ["write it without `$(...)`" in text for text in said] == [False, False, False, True]
    await bench(runs("make"))
    await bench.decide(Approve())
    assert ran == ["git status", "make"]


async def test_a_command_that_a_person_edits_is_checked_anew(backend):
    execute, ran = shell()
    bench = Bench([Deny("execute", "rm *"), Ask("execute")], backend, tools=[execute])
    await bench(runs("make"))
    (said,) = await bench.decide(Edit({"command": "make; rm x"}))
    assert "forbids it" in said
    assert ran == []


# ---- runs below


def worker(**more):
    return Subagent(name="worker", description="works", **more)


def task(*calls):
    """A call of `task` whose subagent makes these calls, by the script below."""
    return "task", {"description": json.dumps(calls), "subagent_type": "worker"}


class Below(Bench):
    """The calls go to a subagent, which answers with their results."""

    def __init__(self, rules, backend, subagent, **more):
        super().__init__(rules, backend, subagents=[subagent], **more)

    def say(self, request):
        last = request.messages[-1]
        if last.role == "tool":
            return last.text
        if last.text == "go":
            return self.replies.pop(0)
        calls = json.loads(last.text) if last.text.startswith("[[") else [read("/pub/file")]
        return [ToolCall(name, args, "d0") for name, args in calls]


@pytest.mark.parametrize(
    ("above", "own", "inherit", "verdict"),
    [
        ([Deny("write", "/secret")], [], True, "deny"),
        ([Deny("write", "/secret")], [Allow("write")], True, "deny"),
        ([Deny("write", "/secret")], [Allow("write")], False, "allow"),
        ([Deny("write", "/secret")], [], False, "allow"),
        ([Ask("write", "/secret")], [Allow("write")], True, "ask"),
        ([Ask("write", "/secret")], [Deny("write")], True, "deny"),
        ([Allow("write")], [Deny("write")], True, "deny"),
        ([Allow("write")], [Ask("write", "/secret/**")], True, "ask"),
        ([], [Deny("write")], True, "deny"),
        ([], [], True, "allow"),
    ],
)
async def test_a_subagent_is_at_least_as_strict_as_its_parent_unless_told_otherwise(
    backend, above, own, inherit, verdict
):
    bench = Below(above, backend, worker(permissions=own, inherit_permissions=inherit))
    said = "".join(await bench(task(write("/secret/n"))))
    assert bench.turn.status == ("paused" if verdict == "ask" else "ended")
    assert {"deny": "forbids it", "allow": "created", "ask": ""}[verdict] in said


async def test_the_general_purpose_subagent_is_held_by_the_rules_of_the_main_agent(backend):
    bench = Below([Deny("write")], backend, worker())
    name, args = task(write("/n"))
    (said,) = await bench((name, {**args, "subagent_type": "general-purpose"}))
    assert "forbids it" in said


async def test_an_agent_that_a_tool_runs_is_held_through_links_too(links):
    inner = Agent(
        ScriptedModel(
            lambda request: (
                ToolCall("read_file", {"file_path": "/pub/file"})
                if len(request.messages) == 1
                else request.messages[-1].text
            )
        ),
        middleware=[FilesystemMiddleware(links)],
    )

    async def delegate(ctx: ToolContext) -> str:
        """Let another agent do it."""
        return (await ctx.run(inner, "look")).text

    (said,) = await Bench([Deny("read", "/secret")], links, tools=[delegate])(("delegate", {}))
    assert "leads to '/secret/x', which was not reached: Deny('read', '/secret')" in said


async def test_which_subagents_may_be_called_is_a_matter_of_rules_too(backend):
    (said,) = await Below([Deny("task", "work*")], backend, worker())(task(read("/pub/f")))
    assert "task was not run: Deny('task', 'work*') forbids it" in said


async def test_a_hook_of_ones_own_that_changes_the_path_afterwards_is_still_checked_where_it_arrives(links):
    class Redirect(Middleware):
        async def before_tool(self, ctx, call):
            return ToolCall(call.name, {"file_path": "/secret/x"}, call.id)

    model = ScriptedModel([[ToolCall("read_file", {"file_path": "/pub/f"})], "done"])
    agent = Agent(
        model,
        middleware=[PermissionsMiddleware([Deny("read", "/secret")], links), FilesystemMiddleware(links), Redirect()],
    )
    turn = await agent.run("go")
    assert "'/secret/x' was not reached" in turn.messages[-2].text


@pytest.mark.parametrize("kind", ["agent", "fork", "persistent"])
async def test_every_kind_of_subagent_is_held_by_the_rules_of_its_parent(links, kind):
    def say(request):
        last = request.messages[-1]
        return [ToolCall("read_file", {"file_path": "/pub/file"}, "d0")] if last.text == "look" else last.text

    inner = Agent(ScriptedModel(say), middleware=[FilesystemMiddleware(links)])
    kinds = {"agent": {"agent": inner}, "fork": {"fork": True}, "persistent": {"persistent": True}}
    bench = Below([Deny("read", "/secret")], links, worker(**kinds[kind]))
    bench.asked = 1  # The files are there.
    (said,) = await bench(("task", {"description": "look", "subagent_type": "worker"}))
    assert "leads to '/secret/x', which was not reached: Deny('read', '/secret')" in said


async def test_a_task_in_the_background_is_held_by_the_rules_of_the_agent_that_started_it(links):
    bench = Below([Deny("read", "/secret")], links, worker(background=True))
    bench.asked = 1
    async with bench.agent:
        name = next(tool for tool in bench.agent.spec.tools if tool.startswith("start"))
        calls = json.dumps([read("/pub/file")])
        await bench((name, {"description": calls, "subagent_type": "worker"}))
        thread = next(info.thread_id for info in await bench.agent.athreads() if info.thread_id != "t")
        while (await bench.agent.aget_state(thread)).status == "running":
            await asyncio.sleep(0.01)
        state = await bench.agent.aget_state(thread)
    assert "leads to '/secret/x', which was not reached: Deny('read', '/secret')" in state.messages[-1].text


async def test_commands_of_a_real_shell_are_held_too(tmp_path):
    (tmp_path / "kept").write_text("alpha")
    rules = [Deny("execute", "rm *"), Allow("execute", "ls *"), Ask("execute"), Deny("read", "/kept")]
    bench = Bench(rules, LocalShellBackend(tmp_path))
    bench.asked = 1
    said = await bench(runs("ls"), runs("ls; rm kept"), runs("ls $(rm kept)"), runs("sudo rm kept"), read("/kept"))
    assert "kept" in said[0]
    assert ["forbids it" in text for text in said] == [False, True, True, True, True]
    await bench(runs("touch new"))
    await bench.decide(Approve())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kept", "new"]


# ---- building


def test_without_permissions_no_hook_runs():
    assert not create_deep_agent(ScriptedModel([])).spec.tool_hooks[1:]


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (
            [Deny("wirte")],
            r"agent 'main': Deny\('wirte'\) names 'wirte', which is neither an operation .* nor a tool; did you mean",
        ),
        ([Deny("send", "x*")], "has a pattern, but tool 'send' does not say what its calls reach; give it `Tool"),
        (["deny"], r"create_deep_agent: permissions\[0\] must be"),
        (Deny("read"), "create_deep_agent: permissions must be"),
    ],
)
def test_permissions_that_could_not_work_are_refused_when_the_agent_is_built(rules, problem):
    def send(to: str) -> str:
        """Send a mail."""
        return "sent"

    with pytest.raises(ConfigError, match=problem):
        create_deep_agent(ScriptedModel([]), [send], permissions=rules)


@pytest.mark.parametrize(
    ("rules", "warns"),
    [
        ([Deny("read", "/secret")], True),
        ([Deny("read", "/secret"), Allow("execute")], False),
        ([Deny("read", "/secret"), Ask("*")], False),
        ([Allow("read", "/src/**")], False),
    ],
)
def test_rules_that_hold_files_and_forget_commands_are_warned_of(tmp_path, caplog, rules, warns):
    create_deep_agent(ScriptedModel([]), backend=FilesystemBackend(tmp_path), permissions=rules)
    assert not caplog.records
    create_deep_agent(ScriptedModel([]), backend=LocalShellBackend(tmp_path), permissions=rules)
    assert ["its rules hold files, but not commands" in record.message for record in caplog.records] == [True] * warns


def test_rules_may_name_tools_that_only_a_subagent_has():
    def send(to: str) -> str:
        """Send a mail."""
        return "sent"

    assert create_deep_agent(ScriptedModel([]), subagents=[worker(tools=[send])], permissions=[Ask("send")])


@pytest.mark.parametrize("rules", [read_only(), ask_before_writes(), workspace("/src/**")])
async def test_presets_hold_for_the_file_tools(backend, rules):
    bench = Bench(rules, backend)
    await bench(read("/src/a.py"), write("/pub/f"))
    assert (bench.turn.status == "paused") is (rules == ask_before_writes())


@pytest.mark.parametrize(
    ("access", "problem"),
    [
        (lambda args: [Access("Read", args["path"])], "rules do not know the operation 'Read'; write 'read'"),
        (lambda args: [Access("excute", args["path"])], "rules do not know the operation 'excute'; write 'execute'"),
        (lambda args: Access("read", args["path"]), "tool 'send': what access returns must be a list, not Access("),
        (lambda args: ["read"], "tool 'send': what access returns[0] must be an `Access`, not 'read'"),
        (lambda args: None, "tool 'send': what access returns must be a list, not None"),
    ],
)
def test_a_tool_that_tells_something_else_than_what_its_call_reaches_does_not_run(access, problem):
    ran = []

    def send(path: str) -> str:
        """Send a file."""
        ran.append(path)
        return "sent"

    call = ToolCall("send", {"path": "/secret/x"})
    agent = create_deep_agent(
        ScriptedModel([call, "done"]), [Tool(send, access=access)], permissions=[Deny("read", "/secret")]
    )
    turn = agent.run_sync("Send it.")
    assert turn.status == "failed"
    assert problem in str(turn.error)
    assert not ran


def test_an_operation_of_a_tools_own_is_no_mistake():
    assert [Access(word).operation for word in ("publish", "thread", "read_mail")] == ["publish", "thread", "read_mail"]
