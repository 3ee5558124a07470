"""A store fails at every operation in turn: what was saved stays, and what was not follows later."""

import shutil
import textwrap
from itertools import count

import pytest
from harness.agents import task
from harness.killing import asked
from harness.middleware import AskFirst
from harness.processes import python
from harness.stores import FaultyStore

from minideep import (
    Agent,
    Approve,
    AssistantMessage,
    CheckpointError,
    DiskCheckpointer,
    MemoryCheckpointer,
    Subagent,
    ToolCall,
    ToolMessage,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.models import ScriptedModel

STEPS = 4


class Shop:
    """Agents on one store that write down what they do."""

    def __init__(self, store, durability="turn"):
        self.did, self.durability = [], durability
        self.failing, self.healthy = FaultyStore(store), store

    def agent(self, store=None):
        @tool
        async def look(at: str) -> str:
            self.did.append(at)
            return f"saw {at}"

        @tool
        async def pay(amount: int) -> str:
            self.did.append(amount)
            return f"paid {amount}"

        def say(request):
            text, replied = asked(request.messages)
            self.did.append("asked")
            script = [[job(text)], f"did {text}"]
            if text.startswith("job"):
                script = [*([ToolCall("look", {"at": f"{text}.{step}"}, f"{text}.{step}")] for step in range(STEPS))]
                script += [f"did {text}"] if "pay" not in text else [[ToolCall("pay", {"amount": 5}, "p")], "paid"]
            return script[replied]

        helper = Subagent(name="helper", description="helps", middleware=[AskFirst("pay")])
        store = self.failing if store is None else store
        return create_deep_agent(
            ScriptedModel(say), [look, pay], subagents=[helper], checkpointer=store, durability=self.durability
        )

    def stored(self):
        """Return the messages of the thread and of each subagent, read by another agent."""
        state = Agent("offline:", checkpointer=self.healthy).get_state("t", subagents=True)
        return state.messages, {key: child.messages for key, child in state.subagents.items()}


def job(text):
    return task("helper", f"task {text}", f"job {text}")


def said(*texts):
    """Return the messages of a thread with a turn for each of these texts, and those of its subagents."""
    messages, children = [], {}
    for text in texts:
        answer = ToolMessage(f"did job {text}", f"task {text}", "task")
        messages += [UserMessage(text), AssistantMessage((job(text),)), answer, AssistantMessage(f"did {text}")]
        child = [UserMessage(f"job {text}")]
        for step in range(STEPS):
            at = f"job {text}.{step}"
            child += [AssistantMessage((ToolCall("look", {"at": at}, at),)), ToolMessage(f"saw {at}", at, "look")]
        children[f"task {text}"] = [*child, AssistantMessage(f"did job {text}")]
    return messages, children


async def outcome(shop, act):
    """Return the turn, or None if nothing was done."""
    before = len(shop.did)
    try:
        turn = await act
    except CheckpointError:
        assert shop.did[before:] == []
        return None
    assert turn.status in ("ended", "paused")
    assert turn.saved == (turn.error is None)
    assert turn.saved or isinstance(turn.error, CheckpointError)
    return turn


def every_failure(kind, folder):
    """Yield new stores without end, each with the number of the operation that is to fail in it."""
    for at in count(1):
        with MemoryCheckpointer() if kind == "memory" else DiskCheckpointer(folder / str(at)) as store:
            yield at, store


OUTAGES = pytest.mark.parametrize("outage", [False, True], ids=["once", "until it is healed"])
WAYS = pytest.mark.parametrize(
    ("kind", "durability", "kept", "error"),
    [
        ("memory", "turn", False, OSError),
        ("memory", "turn", True, TimeoutError),
        ("memory", "tool", False, RuntimeError),
        ("disk", "tool", True, OSError),
    ],
)


@OUTAGES
@WAYS
async def test_at_whichever_operation_a_store_fails_nothing_is_done_or_the_answer_is_saved_later(
    tmp_path, kind, durability, kept, error, outage
):
    for at, fresh in every_failure(kind, tmp_path):
        shop = Shop(fresh, durability)
        agent = shop.agent()
        for text in ("one", "two"):
            await (agent if kept else shop.agent(fresh)).run(text, "t")
        shop.failing.fail(at, error, outage)
        turn = await outcome(shop, agent.run("three", "t"))
        failed = shop.failing.heal()
        now = ["one", "two"] if turn is None else ["one", "two", "three"]
        assert turn is None or turn.text == "did three"
        assert shop.stored()[0][:8] == said("one", "two")[0]
        if turn is not None and turn.saved:
            assert shop.stored() == said(*now)
        if at % 2:
            await agent.save("t")
            assert shop.stored() == said(*now), shop.failing.done
        await agent.run("four", "t")
        assert shop.stored() == said(*now, "four"), shop.failing.done
        if not failed:
            break
    assert at > 5


@OUTAGES
@WAYS
async def test_at_whichever_operation_a_store_fails_a_decision_is_kept_or_nothing_is_done_and_nobody_pays_twice(
    tmp_path, kind, durability, kept, error, outage
):
    for at, fresh in every_failure(kind, tmp_path):
        shop = Shop(fresh, durability)
        agent = shop.agent()
        await (agent if kept else shop.agent(fresh)).run("one", "t")
        await (agent if kept else shop.agent(fresh)).run("pay", "t")
        shop.failing.fail(at, error, outage)
        turn = await outcome(shop, agent.resume("t", {"p": Approve()}))
        failed = shop.failing.heal()
        if turn is None:
            assert shop.did.count(5) == 0
            state = shop.agent(fresh).get_state("t")
            # Only an append that was written though nobody could tell leaves more than what was there before.
            again = {"p": Approve()} if state.status == "paused" else {}
            turn = await agent.resume("t", again)
        else:
            await agent.save("t")
        assert (turn.status, turn.text) == ("ended", "did pay")
        messages, children = shop.stored()
        assert messages == [*said("one")[0], UserMessage("pay"), AssistantMessage((job("pay"),)),
                            ToolMessage("paid", "task pay", "task"), AssistantMessage("did pay")]  # fmt: skip
        told = children["task pay"][-2].text
        assert (told, shop.did.count(5)) == ("paid 5", 1) or ("was not run" in told and not shop.did.count(5))
        if not failed:
            break
    assert at > 8


async def test_a_decision_that_could_not_be_saved_can_be_given_again_though_the_pause_was_not_saved_either(store):
    shop = Shop(store)
    agent = shop.agent()
    await agent.run("one", "t")
    shop.failing.fail(4, OSError, outage=True)
    turn = await agent.run("pay", "t")
    assert (turn.status, turn.saved) == ("paused", False)
    shop.failing.fail(2, OSError, outage=True)  # The thread is held, and that is all.
    with pytest.raises(CheckpointError):
        await agent.resume("t", {"p": Approve()})
    assert shop.failing.done[:2] == ["open", "append"]
    shop.failing.heal()
    turn = await agent.resume("t", {"p": Approve()})
    assert (turn.status, turn.text, turn.saved, shop.did.count(5)) == ("ended", "did pay", True, 1)


# ---- disks that fail


PRELUDE = """
import asyncio, os, resource, signal, sys
from minideep import Agent, CheckpointError, DiskCheckpointer, ToolCall, tool
from minideep.models import ScriptedModel

@tool
async def large() -> str:
    return os.urandom(200_000).hex()

def say(request):
    return ToolCall("large") if request.messages[-1].role == "user" else "done"

def said(folder):
    return [m.text for m in Agent("offline:", checkpointer=DiskCheckpointer(folder)).get_state("t").messages
            if m.role == "user"]
"""


def run(code, *args):
    """Run a script in a process of its own, whose limits and rights may be taken away; return the lines it prints."""
    return python(PRELUDE + textwrap.dedent(code), *args, warns=True).splitlines()


def test_on_a_full_disk_the_answer_comes_back_and_is_saved_once_there_is_room(tmp_path):
    code = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        folder = sys.argv[1]
        agent = Agent(ScriptedModel(say), [large], checkpointer=DiskCheckpointer(folder))

        async def main():
            await agent.run("one", "t")
            agent.checkpointer.close()
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
            for text in ("two", "three"):
                turn = await agent.run(text, "t")
                print(turn.text, turn.saved, type(turn.error).__name__)
            print(said(folder)[0])
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await agent.save("t")
            print(said(folder))

        asyncio.run(main())
    """
    lost = "done False CheckpointError"
    assert run(code, tmp_path / "state") == [lost, lost, "one", "['one', 'two', 'three']"]


def test_in_a_read_only_folder_threads_are_read_and_verified_and_the_answer_comes_back_unsaved():
    code = """
        import tempfile
        with tempfile.TemporaryDirectory() as root:
            folder = root + "/state"
            os.chmod(root, 0o755)
            with DiskCheckpointer(folder) as store:
                Agent(ScriptedModel(["done"]), checkpointer=store).run_sync("one", "t")
            before = sorted(os.listdir(folder))
            os.chmod(folder, 0o555)
            for name in before:
                os.chmod(folder + "/" + name, 0o444)
            if os.getuid() == 0:
                os.seteuid(65534)
            for where in (folder, folder + "/new"):
                agent = Agent(ScriptedModel(say), [large], checkpointer=DiskCheckpointer(where))
                turn = agent.run_sync("two", "t")
                first = agent.spec.model.requests[0].messages[0].text
                print(turn.text, turn.saved, type(turn.error).__name__, first, agent.checkpointer.verify())
            if os.getuid() == 0:
                os.seteuid(0)
            os.chmod(folder, 0o755)
            for name in before:
                os.chmod(folder + "/" + name, 0o644)
            print(before == sorted(os.listdir(folder)), said(folder))
    """
    assert run(code) == ["done False CheckpointError one []", "done False CheckpointError two []", "True ['one']"]


@pytest.mark.parametrize("moment", ["before the turn", "in a tool"])
async def test_a_turn_that_says_it_is_saved_is_stored_though_the_folder_was_removed(tmp_path, moment):
    folder = tmp_path / "state"

    @tool
    async def look() -> str:
        if moment == "in a tool":
            shutil.rmtree(folder)
        return "saw"

    with DiskCheckpointer(folder) as store:
        agent = Agent(ScriptedModel(["hello", ToolCall("look"), "done", "again"]), [look], checkpointer=store)
        await agent.run("one", "t")
        if moment == "before the turn":
            shutil.rmtree(folder)
        turn = await agent.run("two", "t")
        assert turn.saved == (moment == "before the turn")
        assert turn.saved or isinstance(turn.error, CheckpointError)
        assert (await agent.run("three", "t")).saved
    with DiskCheckpointer(folder) as store:
        said = Agent("offline:", checkpointer=store).transcript("t")
    assert [message.text for message in said if message.role == "user"] == ["two", "three"][not turn.saved :]


@pytest.mark.parametrize("deed", ["delete", "fork"])
def test_at_whichever_operation_a_store_fails_a_delete_or_a_fork_is_done_or_raises(deed):
    for at in range(1, 99):
        store = MemoryCheckpointer()
        failing = FaultyStore(store)
        agent, raised = Agent(ScriptedModel(["one"]), checkpointer=failing), False
        agent.run_sync("first", "t")
        store.close()
        failing.fail(at, OSError, outage=False)
        try:
            agent.delete("t") if deed == "delete" else agent.fork("t", thread_id="f")
        except CheckpointError:
            raised = True
        failed = failing.heal()
        threads = {info.thread_id for info in agent.threads()}
        assert threads == ({"t"} if raised else {"delete": set(), "fork": {"t", "f"}}[deed])
        if not failed:
            return
