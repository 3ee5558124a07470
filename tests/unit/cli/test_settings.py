"""The settings of a thread are in its log, and nothing that a model can write changes them."""

import json

import pytest
from harness.terminal import minideep

from minideep import Agent, DiskCheckpointer, create_deep_agent
from minideep.backends import FilesystemBackend
from minideep.models import ScriptedModel

LIBRARY = """
from minideep import Agent, DiskCheckpointer, Interrupt, Middleware, ToolCall, tool
from minideep.models import ScriptedModel

class AskFirst(Middleware):
    async def before_tool(self, ctx, call):
        return Interrupt(call, "may I?") if ctx.decision is None else call

@tool
async def borrow(title: str) -> str:
    "Borrow a book."
    return f"{title} is yours"

def librarian():
    asked = lambda request: "Enjoy!" if len(request.messages) % 4 == 3 else ToolCall("borrow", {"title": "Emma"})
    return Agent(ScriptedModel(asked), [borrow], name="librarian", middleware=[AskFirst()])

with_store = librarian()
with_store.checkpointer = DiskCheckpointer("books")
other = Agent("offline:", name="other")
number = 7
def lost(): return None
"""


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "README.md").write_text("Cats sleep in warm places every day.\n")
    (folder / "library.py").write_text(LIBRARY)
    return folder


def settings_of(store, thread="t", at=None):
    with DiskCheckpointer(store) as disk:
        return Agent("offline:", checkpointer=disk).get_state(thread, at=at).notes["agent"].get("terminal")


def forge(store, thread="t", **changed):
    """A settings file as earlier versions wrote it beside the threads."""
    (store / "settings").mkdir(parents=True, exist_ok=True)
    given = {"model": "offline:", "root": "/", "limit_steps": 100, "command": "run", "approve": False} | changed
    (store / "settings" / f"{thread}.json").write_text(json.dumps(given))


def old_thread(root, store):
    with DiskCheckpointer(store) as kept:
        backend = FilesystemBackend(root)
        create_deep_agent(ScriptedModel(["Hello."]), backend=backend, checkpointer=kept).run_sync("Hi", "t")


def test_the_log_holds_the_settings_and_each_turn_prints_them(root, tmp_path):
    run = minideep(
        "run", "Say what is here, to A.md", "--limit-steps", "2", "--thread", "t", "--state", "../s", cwd=root
    )
    assert f"\nmodel offline:, root {root}\n" in run.stdout
    expected = {"model": "offline:", "root": str(root), "limit_steps": 2, "command": "run", "approve": False}
    expected["permissions"] = "default"
    assert settings_of(tmp_path / "s") == expected
    assert not (tmp_path / "s" / "settings").exists()
    again = minideep("resume", "t", "--limit-steps", "50", "--state", "s", cwd=tmp_path)
    assert (again.returncode, f"\nmodel offline:, root {root}\n" in again.stdout) == (0, True)
    assert settings_of(tmp_path / "s") == expected | {"limit_steps": 50}
    assert settings_of(tmp_path / "s", at=1) == expected
    as_json = minideep("resume", "t", "--json", "--state", "s", cwd=tmp_path)
    assert as_json.stderr == f"minideep: model offline:, root {root}\n"


@pytest.mark.parametrize("where", [["--state", ".minideep"], []])
def test_a_settings_file_that_a_model_wrote_changes_nothing(root, where):
    minideep("run", "Say what is here, to A.md", "--thread", "t", *where, cwd=root)
    forge(root / ".minideep", root="/", model="openai:gpt-5", command="plan", limit_steps=1)
    run = minideep("resume", "t", *where, cwd=root)
    assert f"\nmodel offline:, root {root}\n" in run.stdout
    assert "library.py" in (minideep("export", "t", *where, cwd=root)).stdout
    run = minideep("run", "And now to B.md", "--thread", "t", *where, cwd=root)
    assert (run.returncode, f"\nmodel offline:, root {root}\n" in run.stdout) == (0, True)


def test_an_old_settings_file_is_read_once_if_the_log_has_no_settings(root):
    old_thread(root, root / ".minideep")
    forge(root / ".minideep", root=str(root), limit_steps=30)
    run = minideep("run", "Say what is here, to A.md", "--thread", "t", cwd=root)
    assert (run.returncode, f"\nmodel offline:, root {root}\n" in run.stdout) == (0, True), run.stderr
    assert settings_of(root / ".minideep")["limit_steps"] == 30
    forge(root / ".minideep", root="/")
    assert f"\nmodel offline:, root {root}\n" in minideep("resume", "t", cwd=root).stdout


@pytest.mark.parametrize("flags", [[], ["--state", ".minideep"]])
def test_an_old_settings_file_never_selects_another_root_than_the_person(root, tmp_path, flags):
    old_thread(root, root / ".minideep")
    forge(root / ".minideep", root="/")
    for command in (["resume", "t"], ["run", "go", "--thread", "t"]):
        refused = minideep(*command, *flags, cwd=root)
        assert refused.returncode == 2
        assert "thread 't' works on '/', which is not this folder" in refused.stderr.splitlines()[-1]
        assert "--root '/'" in refused.stderr.splitlines()[-1]
    told = minideep(
        "run", "Say what is here, to A.md", "--thread", "t", "--state", ".minideep", "--root", ".", cwd=root
    )
    assert (told.returncode, f"root {root}\n" in told.stdout) == (0, True)


def test_a_fork_has_the_settings_of_its_origin(root, tmp_path):
    minideep("run", "Say what is here, to A.md", "--thread", "t", cwd=root)
    minideep("fork", "t", "--name", "f", cwd=root)
    run = minideep("run", "And now to B.md", "--thread", "f", cwd=root)
    assert f"model offline:, root {root}\n" in run.stdout
    old_thread(root, tmp_path / "s")
    forge(tmp_path / "s", root=str(root))
    assert minideep("fork", "t", "--name", "f", "--state", "../s", cwd=root).returncode == 0
    assert minideep("resume", "f", "--state", "../s", cwd=root).returncode == 0
    assert minideep("delete", "f", "--state", "../s", cwd=root).returncode == 0
    assert [file.name for file in (tmp_path / "s" / "settings").iterdir()] == ["t.json"]


def test_a_thread_stays_with_the_command_that_started_it(root):
    assert (
        minideep("plan", "What is here?", "--model", "offline:", "--approve", "--thread", "p", cwd=root).returncode == 3
    )
    refused = minideep("run", "What is here?", "--thread", "p", cwd=root)
    assert (refused.returncode, refused.stderr) == (
        2, "minideep: thread 'p' was started by `minideep plan`; continue it with `minideep plan GOAL --thread p`\n",
    )  # fmt: skip
    waits = minideep("plan", "What is here?", "--thread", "p", cwd=root)
    assert (waits.returncode, "`minideep resume p --approve`" in waits.stderr) == (2, True)
    assert minideep("resume", "p", "--approve", cwd=root).returncode == 0
    assert minideep("plan", "And what else?", "--thread", "p", cwd=root).returncode == 3  # Still with --approve.
    minideep("resume", "p", "--approve", cwd=root)
    assert minideep("plan", "And what else?", "--no-approve", "--thread", "p", cwd=root).returncode == 0
    minideep("run", "Say what is here, to A.md", "--thread", "r", cwd=root)
    assert "continue it with `minideep run GOAL --thread r`" in minideep("plan", "x", "--thread", "r", cwd=root).stderr


def test_a_thread_of_a_library_agent_continues_only_with_that_agent(root, tmp_path):
    agent = ("--agent", "library:librarian")
    run = minideep("run", "Emma, please", "--thread", "t", *agent, cwd=root)
    assert (run.returncode, run.stdout.startswith("thread t\nagent library:librarian\n")) == (3, True), run.stderr
    for command in (["resume", "t", "--approve"], ["run", "Go on", "--thread", "t"]):
        refused = minideep(*command, cwd=root)
        assert (refused.returncode, refused.stderr) == (
            2,
            "minideep: thread 't' was started by agent 'librarian' of another program; "
            "pass that agent with --agent module:name\n",
        )
    waits = minideep("run", "Go on", "--thread", "t", *agent, cwd=root)
    assert (waits.returncode, "waits for your decision" in waits.stderr) == (2, True)
    other = minideep("resume", "t", "--approve", "--agent", "library:other", cwd=root)
    assert (other.returncode, "is of agent 'librarian'" in other.stderr) == (2, True)
    done = minideep("resume", "t", "--approve", *agent, cwd=root)
    assert (done.returncode, "Enjoy!" in done.stdout) == (0, True), done.stderr
    assert "Emma is yours" in minideep("show", "t", cwd=root).stdout


def test_an_agent_with_a_store_of_its_own_uses_that_one_unless_another_is_named(root, tmp_path):
    agent = ("--agent", "library:with_store")
    minideep("run", "Emma, please", "--thread", "t", *agent, cwd=root)
    assert (root / "books" / "cache.db").exists()
    assert "> Emma, please" in minideep("show", "t", *agent, cwd=root).stdout
    assert minideep("fork", "t", "--name", "f", *agent, cwd=root).stdout == "f\n"
    assert minideep("resume", "f", "--reject", "no", *agent, cwd=root).returncode == 0
    assert minideep("show", "t", *agent, "--state", "../s", cwd=root).returncode == 2


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("library", "--agent must be module:name, such as `--agent app:agent`, not 'library'"),
        ("../library:librarian", "--agent must be module:name"),
        ("missing.part:agent", "--agent missing.part:agent: module 'missing.part' is neither in "),
        ("library:nobody", "--agent library:nobody: module 'library' has no 'nobody'"),
        ("library:number", "--agent library:number: it must be an Agent, or a function that returns one, not 7"),
        ("library:lost", "--agent library:lost: it must be an Agent, or a function that returns one, not None"),
        ("needy:agent", "--agent needy:agent: No module named 'not_installed'"),
    ],
)
def test_a_wrong_agent_option_is_one_clear_line(root, agent, problem):
    (root / "needy.py").write_text("import not_installed\n")
    found = minideep("show", "t", "--agent", agent, cwd=root)
    assert (found.returncode, found.stderr.count("\n"), problem in found.stderr) == (2, 1, True), found.stderr


@pytest.mark.parametrize("flag", [["--model", "offline:"], ["--limit-steps", "5"], ["--yes"]])
def test_a_flag_for_the_commands_own_agents_is_refused_with_another_agent(root, flag):
    found = minideep("run", "x", "--agent", "library:librarian", *flag, cwd=root)
    assert (found.returncode, f"{flag[0]} applies to this command's own agents only" in found.stderr) == (2, True)


def test_a_thread_of_the_terminal_is_refused_to_another_agent(root):
    minideep("run", "Say what is here, to A.md", "--thread", "t", cwd=root)
    found = minideep("run", "x", "--thread", "t", "--agent", "library:librarian", cwd=root)
    assert (found.returncode, "omit --agent" in found.stderr) == (2, True)


def test_unreadable_settings_are_a_named_error(root, tmp_path):
    from msgspec import structs

    with DiskCheckpointer(tmp_path / "s") as store:
        agent = Agent(ScriptedModel(["Hello."]), checkpointer=store)
        agent.spec = structs.replace(agent.spec, about={"terminal": {"model": 7}})
        agent.run_sync("Hi", "t")
    found = minideep("resume", "t", "--state", "../s", cwd=root)
    assert (found.returncode, found.stderr.count("\n")) == (1, 1)
    assert "CheckpointError: the settings in the thread's log cannot be read" in found.stderr


def test_no_error_can_move_the_cursor(root):
    (root / "bad.py").write_text("from minideep import ConfigError\nraise ConfigError('a\\x1b[2Jb\\nc')\n")
    found = minideep("show", "t", "--agent", "bad:agent", cwd=root)
    assert (found.returncode, found.stderr) == (2, "minideep: a\\x1b[2Jb c\n")
    (root / "loud.py").write_text(
        "import logging\nfrom library import other as agent\n"
        "try:\n    raise ValueError('\\x1b[31m')\n"
        "except ValueError:\n    logging.getLogger('minideep').warning('it\\nfailed', exc_info=True)\n"
    )
    found = minideep("run", "hi", "--agent", "loud:agent", cwd=root)
    assert found.stderr == "minideep: it failed: ValueError: \\x1b[31m\n"
