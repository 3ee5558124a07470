"""Background tasks: five tools, notices, and threads that live as long as the agent's block."""

import asyncio
import re

import pytest
from harness.agents import answers, hang, pay, pays, ping, results, sub
from harness.middleware import AskFirst
from harness.stores import copy_of
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    ConfigError,
    DiskCheckpointer,
    Limits,
    MemoryCheckpointer,
    Middleware,
    Subagent,
    ToolCall,
    ToolContext,
    ToolResult,
    create_deep_agent,
    tool,
)
from minideep.backends import FilesystemBackend
from minideep.checkpoint import open_store
from minideep.events import Noted
from minideep.middleware import AsyncSubAgentMiddleware
from minideep.models import ScriptedModel
from minideep.permissions import Ask, Deny
from minideep.runtime.live import find

OWNER = "async_subagent_jobs"
TOOLS = ["start_task", "check_task", "update_task", "cancel_task", "list_tasks"]


def start(kind="worker", id=None, description="count the pens"):
    return ToolCall("start_task", {"description": description, "subagent_type": kind}, id)


def about(name, job, **more):
    return ToolCall(name, {"id": job} | more)


class Job:
    """A model for a background subagent, which answers when it is let."""

    def __init__(self, *replies):
        self.let, self.begun, self.requests = asyncio.Event(), asyncio.Event(), []
        self._replies = iter(replies or ["12 pens"])
        self.model = ScriptedModel(self._reply)

    async def _reply(self, request):
        self.requests.append(request)
        self.begun.set()
        await self.let.wait()
        return next(self._replies)


class Boss:
    """An agent with one background subagent, which does what each test has it do."""

    def __init__(self, job, *, store=None, tools=(), middleware=(), durability="turn", limits=None, **more):
        self.turns, self.requests = [], []
        worker = sub("worker", job.model if isinstance(job, Job) else job, background=True, **more)
        self.store = store or MemoryCheckpointer()
        self.agent = create_deep_agent(
            ScriptedModel(self._reply), tools, subagents=[worker], checkpointer=self.store, middleware=middleware,
            durability=durability, limits=limits,
        )  # fmt: skip

    def _reply(self, request):
        self.requests.append(request)
        reply = next(self._script, "ok")
        return reply(request) if callable(reply) else reply

    async def turn(self, *script, thread="t"):
        self._script = iter(script)
        return await self.agent.run("go", thread)

    @property
    def job(self):
        return next(iter(self.notes))

    @property
    def notes(self):
        return self.agent.get_state("t").notes.get(OWNER, {})

    @property
    def thread(self):
        return f"t/bg/{self.job}"

    async def until(self, status):
        """Wait until the task has a status."""
        while (await self.agent.status(self.thread)).status != status:
            await asyncio.sleep(0)


def test_the_five_tools_are_offered_only_when_a_subagent_is_for_the_background():
    model = ScriptedModel([])
    assert not {*TOOLS} & create_deep_agent(model).spec.tools.keys()
    spec = create_deep_agent(model, subagents=[sub("worker", model, background=True), sub("helper", model)]).spec
    names = list(spec.tools)
    place = names.index("task")
    assert names[place + 1 : place + 6] == TOOLS  # Subagents, background, summarization.
    assert "worker" not in spec.tools["task"].description
    assert "helper" not in spec.tools["start_task"].description
    assert spec.tools["start_task"].schema["properties"]["subagent_type"]["enum"] == ["worker"]


async def test_a_task_runs_beside_the_turn_and_the_next_turn_begins_with_the_notice(store):
    job = Job()
    boss = Boss(job, store=store)
    async with boss.agent:
        turn = await boss.turn(start(id="s1"), ToolCall("list_tasks"), "it runs")
        id = boss.job
        assert answers(turn) == [f"task {id} (worker) has begun", f"{id} worker running: count the pens"]
        assert boss.notes[id] == {
            "agent": "worker", "description": "count the pens", "call_id": "s1", "status": "running",
        }  # fmt: skip
        assert (await boss.agent.status(boss.thread)).runs == "here"
        job.let.set()
        await boss.until("ended")
        turn = await boss.turn(about("check_task", id), "12")
    notice = (
        f"[A notice of the system, not of the user]\nTask {id} (worker) has ended: read its answer with `check_task`."
    )
    assert [message.text for message in turn.messages[:2]] == ["go", notice]
    assert answers(turn) == ["12 pens"]
    assert boss.notes[id]["status"] == "ended"
    # Told once; and the subagent saw its own task alone.
    assert sum(message.text == notice for message in boss.agent.transcript("t")) == 1
    assert [message.text for message in job.requests[0].messages] == ["count the pens"]


async def test_a_running_turn_hears_of_the_end_before_its_next_request():
    job = Job()
    boss = Boss(job)

    async def wait(request):
        job.let.set()
        await boss.until("ended")
        return ToolCall("list_tasks")

    async with boss.agent:
        turn = await boss.turn(start(), wait, "I know")
    assert boss.requests[2].messages[-1].text.endswith("has ended: read its answer with `check_task`.")
    assert turn.text == "I know"


async def test_a_turn_does_not_end_unaware_of_a_task_that_ended_during_its_last_request():
    job = Job()
    boss = Boss(job)

    async def end(request):
        job.let.set()
        await boss.until("ended")
        return "Still running."

    async with boss.agent:
        turn = await boss.turn(start(), end, "It has ended.")
    assert turn.text == "It has ended."
    assert "has ended" in boss.requests[-1].messages[-1].text


async def test_at_its_last_step_a_turn_ends_and_the_next_one_is_told():
    job = Job()
    boss = Boss(job, limits=Limits(steps=2))

    async def end(request):
        job.let.set()
        await boss.until("ended")
        return "Still running."

    async with boss.agent:
        turn = await boss.turn(start(), end)
        assert (turn.status, turn.text) == ("ended", "Still running.")
        turn = await boss.turn("Now I know.")
    assert "has ended" in turn.messages[1].text


async def test_outside_of_a_block_a_task_is_refused_with_one_line():
    boss = Boss(Job())
    (answer,) = results(await boss.turn(start()))
    assert answer.is_error
    assert "\n" not in answer.text
    assert "`async with agent:`" in answer.text
    assert not boss.notes
    assert [thread.thread_id for thread in boss.agent.threads()] == ["t"]


async def test_a_block_inside_another_one_does_not_end_the_other():
    boss = Boss(Job())
    async with boss.agent:
        async with boss.agent:
            pass
        assert "has begun" in answers(await boss.turn(start()))[0]


async def test_the_end_of_the_block_cuts_a_task_short_and_does_not_cancel_it(store):
    job = Job()
    boss = Boss(job, store=store)
    async with boss.agent:
        await boss.turn(start())
        await job.begun.wait()
    assert (await boss.agent.status(boss.thread)).status == "interrupted"
    job.let.set()
    async with boss.agent:
        turn = await boss.turn(about("check_task", boss.job), "Shall I go on?")
        assert turn.messages[1].text.endswith("was cut short: `update_task` without a message goes on with it.")
        assert "was cut short" in answers(turn)[0]
        turn = await boss.turn(about("update_task", boss.job), "It goes on.")
        assert answers(turn) == [f"task {boss.job} goes on"]
        await boss.until("ended")
        assert answers(await boss.turn(about("check_task", boss.job))) == ["12 pens"]


async def test_a_task_that_was_cut_short_does_not_go_on_outside_of_a_block():
    job = Job()
    boss = Boss(job)
    async with boss.agent:
        await boss.turn(start())
        await job.begun.wait()
    (answer,) = answers(await boss.turn(about("update_task", boss.job)))
    assert "`async with agent:`" in answer
    assert (await boss.agent.status(boss.thread)).status == "interrupted"


async def test_a_running_task_hears_a_message_with_its_next_step():
    job = Job(ToolCall("ping"), "red ones: 4")
    boss = Boss(job, tools=[ping])
    async with boss.agent:
        await boss.turn(start())
        await job.begun.wait()
        update = asyncio.ensure_future(
            boss.turn(lambda request: about("update_task", boss.job, message="Red ones."), "ok")
        )
        while not find(open_store(boss.store), boss.thread).inbox:
            await asyncio.sleep(0)
        job.let.set()
        assert answers(await update) == [f"task {boss.job} has the message"]
        await boss.until("ended")
    assert job.requests[1].messages[-1].text == "Red ones."


async def test_a_task_that_has_ended_goes_on_with_a_message_and_is_told_of_again():
    job = Job("12 pens", "4 red ones")
    job.let.set()
    boss = Boss(job)
    async with boss.agent:
        await boss.turn(start())
        await boss.until("ended")
        id = boss.job
        await boss.turn(about("update_task", id), about("update_task", id, message="Red ones?"))
        await boss.until("ended")
        turn = await boss.turn(about("check_task", id))
    assert "has ended" in turn.messages[1].text
    assert answers(turn) == ["4 red ones"]
    assert [message.text for message in job.requests[1].messages] == ["count the pens", "12 pens", "Red ones?"]


async def test_a_task_that_failed_says_why_and_goes_on_without_a_message():
    replies = iter([ValueError("no pens"), "12 pens"])

    def counts(request):
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    boss = Boss(ScriptedModel(counts))
    async with boss.agent:
        await boss.turn(start())
        await boss.until("failed")
        turn = await boss.turn(about("check_task", boss.job))
        assert turn.messages[1].text.endswith("has stopped (failed): see `check_task`.")
        assert results(turn)[0].is_error
        assert "no pens" in answers(turn)[0]
        await boss.turn(about("update_task", boss.job))
        await boss.until("ended")
        assert answers(await boss.turn(about("check_task", boss.job))) == ["12 pens"]


async def test_a_task_that_the_agent_cancels_is_over_and_the_agent_is_not_told_of_it():
    job = Job()
    boss = Boss(job)
    async with boss.agent:
        await boss.turn(start())
        await job.begun.wait()
        turn = await boss.turn(lambda request: about("cancel_task", boss.job), ToolCall("list_tasks"), "gone")
        assert answers(turn) == [f"task {boss.job} is cancelled", f"{boss.job} worker cancelled: count the pens"]
        assert (await boss.agent.status(boss.thread)).status == "cancelled"
        turn = await boss.turn(about("cancel_task", boss.job))
    assert answers(turn) == [f"task {boss.job} had stopped before: cancelled"]
    assert [message.text for message in boss.agent.transcript("t") if message.role == "user"] == ["go"] * 3


async def test_a_task_that_was_cut_short_can_be_cancelled_and_goes_on_after_all_with_a_message():
    job = Job()
    boss = Boss(job)
    async with boss.agent:
        await boss.turn(start())
        await job.begun.wait()
    turn = await boss.turn(about("cancel_task", boss.job), ToolCall("list_tasks"))
    assert answers(turn) == [f"task {boss.job} is cancelled", f"{boss.job} worker cancelled: count the pens"]
    job.let.set()
    async with boss.agent:
        turn = await boss.turn(about("update_task", boss.job, message="Count all the same."))
        assert answers(turn) == [f"task {boss.job} goes on with the message"]
        await boss.until("ended")


async def test_a_call_that_waits_in_a_task_is_told_with_its_thread_and_decided_there(store):
    boss = Boss(ScriptedModel(pays), tools=[pay], store=store, middleware=[AskFirst("pay")])
    async with boss.agent:
        await boss.turn(start())
        await boss.until("paused")
        turn = await boss.turn(about("update_task", boss.job, message="Hurry."), about("check_task", boss.job))
        told = f"waits until a person decides about a call, in thread {boss.thread!r}: tell the user"
        assert turn.messages[1].text.endswith(f"{told}.")
        assert [told in answer for answer in answers(turn)] == [True, True]
        # A guard of the main agent holds in its tasks, and the main agent's verbs reach their threads.
        assert [(wait.call.name, wait.path) for wait in boss.agent.get_state(boss.thread).interrupts] == [("pay", ())]
        done = await boss.agent.resume(boss.thread, {"p": Approve()})
        assert (done.text, done.status) == ("done", "ended")
        turn = await boss.turn(about("check_task", boss.job))
    assert "has ended" in turn.messages[1].text
    assert answers(turn) == ["done"]


async def test_the_hooks_of_the_main_agent_guard_its_tasks_however_they_are_begun():
    class Deaf(Middleware):
        async def before_tool(self, ctx, call):
            return ToolResult("forbidden", is_error=True) if call.name == "ping" else call

    job = Job(ToolCall("ping"), "12 pens", ToolCall("ping"), "13 pens")
    job.let.set()
    boss = Boss(job, tools=[ping], middleware=[Deaf()])
    async with boss.agent:
        await boss.turn(start())
        await boss.until("ended")
        turn = await boss.agent.run("And now?", boss.thread)
    assert turn.text == "13 pens"
    assert answers(turn) == ["forbidden"]
    assert job.requests[1].messages[-1].text == "forbidden"
    assert "start_task" not in [item.name for item in job.requests[0].tools]


async def test_a_call_that_runs_again_after_a_crash_begins_one_task():
    copies, let = [], asyncio.Event()

    class Copies(MemoryCheckpointer):
        """Keeps what a kill would leave after each append: the thread of the task exists, its call has no answer."""

        async def append(self, thread, *rows, **how):
            await super().append(thread, *rows, **how)
            if thread.startswith("t/bg/") and not copies:
                copies.append(copy_of(self))

    async def works(request):
        await let.wait()
        return "12 pens"

    boss = Boss(ScriptedModel(works), store=Copies())
    async with boss.agent:
        await boss.turn(start(id="s1"))
    let.set()
    again = Boss(ScriptedModel(works), store=copies[0])
    again._script = iter(["ok"])
    async with again.agent:
        assert again.agent.get_state("t").open["s1"].result is None
        turn = await again.agent.resume("t")
        assert answers(turn) == [f"task {again.job} (worker) has begun"]
        await again.until("ended")
    assert [one.thread_id for one in again.agent.threads() if "/bg/" in one.thread_id] == [again.thread]
    assert [message.text for message in again.agent.transcript(again.thread)] == ["count the pens", "12 pens"]
    assert len(again.notes) == 1


async def test_a_task_whose_thread_never_began_is_lost_and_hangs_nobody():
    copies = []

    class Copies(MemoryCheckpointer):
        async def append(self, thread, *rows, **how):
            if thread.startswith("t/bg/") and not copies:
                copies.append(copy_of(self))
            await super().append(thread, *rows, **how)

    boss = Boss(ScriptedModel(hang), store=Copies())
    async with boss.agent:
        await boss.turn(start())
    again = Boss(ScriptedModel(hang), store=copies[0])
    async with again.agent:
        script = [ToolCall("list_tasks"), *(about(name, boss.job) for name in ("check_task", "update_task"))]
        listed, checked, updated = answers(await again.turn(*script))
    assert " lost: " in listed
    assert "start it again" in checked
    assert "start it again" in updated


async def test_a_fork_of_the_thread_has_none_of_its_tasks():
    job = Job()
    job.let.set()
    boss = Boss(job)
    async with boss.agent:
        await boss.turn(start())
        await boss.until("ended")
        boss.agent.fork("t", thread_id="t2")
        turn = await boss.turn(about("check_task", boss.job), thread="t2")
    assert "has no thread here" in answers(turn)[0]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (start(description=" "), "the description is empty"),
        (start(kind="nobody"), 'subagent_type must be "worker"'),
        (about("check_task", "zz"), "no task has the id 'zz'"),
        (ToolCall("list_tasks"), "no tasks were begun"),
    ],
)
async def test_a_wrong_call_is_answered_with_what_would_be_right(call, told):
    boss = Boss(Job())
    async with boss.agent:
        assert told in answers(await boss.turn(call))[0]
    assert not boss.notes


async def test_a_task_shares_the_files_of_a_folder_and_not_those_of_the_thread(tmp_path):
    write = ToolCall("write_file", {"file_path": "/pens.txt", "content": "12"})
    read = ToolCall("read_file", {"file_path": "/pens.txt"})
    for backend, seen in ((None, "does not exist"), (FilesystemBackend(tmp_path), "12")):
        worker = Job(read, "read")
        worker.let.set()
        about = sub("worker", worker.model, background=True)
        agent = create_deep_agent(ScriptedModel([write, start(), "ok", "ok"]), subagents=[about], backend=backend)
        async with agent:
            await agent.run("go", "t")
            (thread,) = agent.threads(prefix="t/bg/")
            async for _ in agent.follow(thread.thread_id):
                pass
        assert seen in worker.requests[1].messages[-1].text


async def test_limits_on_children_count_tasks_too():
    boss = Boss(Job(), limits=Limits(max_children=2))
    async with boss.agent:
        turn = await boss.turn([start(), start(), start()])
    assert ["has begun" in answer for answer in answers(turn)] == [True, True, False]
    assert "2 subagents" in answers(turn)[2]
    assert len(boss.notes) == 2


async def test_a_task_has_costs_of_its_own_and_spends_no_budget_of_its_parent():
    job = Job()
    job.let.set()
    boss = Boss(job)
    async with boss.agent:
        turn = await boss.turn(start(), "ok")
        await boss.until("ended")
    assert turn.costs.steps == 2
    assert boss.agent.get_state(boss.thread).costs.steps == 1


async def test_tasks_go_on_when_the_turn_that_began_them_is_cancelled():
    job = Job()
    boss = Boss(job)
    begun = asyncio.Event()

    async def waits(request):
        begun.set()
        await asyncio.Event().wait()

    async with boss.agent:
        boss._script = iter([start(), waits])
        turn = asyncio.ensure_future(boss.agent.run("go", "t"))
        await begun.wait()
        await boss.agent.cancel("t")
        assert (await turn).status == "cancelled"
        job.let.set()
        await boss.until("ended")


async def test_without_tasks_a_request_looks_nothing_up():
    class Counting(MemoryCheckpointer):
        reads = 0

        async def read(self, *ranges):
            self.reads += 1
            return await super().read(*ranges)

    async def reads(*script):
        store = Counting()
        boss = Boss(Job(), store=store)
        await boss.turn(*script)
        return store.reads

    assert await reads(ToolCall("ls"), ToolCall("ls"), "ok") == await reads("ok")


def test_a_subagent_cannot_begin_tasks():
    worker = sub("worker", ScriptedModel([]), background=True)
    with pytest.raises(ConfigError, match="'worker' is to work in the background of 'helper'"):
        create_deep_agent(ScriptedModel([]), subagents=[sub("helper", ScriptedModel([]), subagents=[worker])])
    with pytest.raises(ConfigError, match="'main' has the name of the main agent"):
        create_deep_agent(ScriptedModel([]), subagents=[sub("main", ScriptedModel([]), background=True)])


async def test_an_agent_that_a_tool_runs_cannot_begin_tasks():
    worker = Agent(ScriptedModel(["12 pens"]), name="worker")
    tasks = AsyncSubAgentMiddleware([(Subagent(name="worker", description="counts"), worker)])
    inner = Agent(ScriptedModel([start(), "no"]), middleware=[tasks], name="inner")

    @tool
    async def run_inner(ctx: ToolContext) -> str:
        """Run the inner agent."""
        turn = await ctx.run(inner, "go")
        return answers(turn)[0]

    agent = Agent(ScriptedModel([ToolCall("run_inner"), "ok"]), [run_inner])
    async with agent:
        turn = await agent.run("go", "t")
    assert answers(turn) == ["only the main agent of a thread can run tasks beside its turn; do this work yourself"]


async def test_a_bare_agent_has_tasks_by_the_middleware_and_its_verbs_reach_their_threads():
    worker = Agent(ScriptedModel(["12 pens", "13 pens"]))  # Its own name is `main`, too.
    tasks = AsyncSubAgentMiddleware([(Subagent(name="worker", description="counts"), worker)])
    agent = Agent(ScriptedModel([start(), "ok"]), middleware=[tasks])
    async with agent:
        await agent.run("go", "t")
        (id,) = agent.get_state("t").notes[OWNER]
        while (await agent.status(f"t/bg/{id}")).status != "ended":
            await asyncio.sleep(0)
        assert (await agent.run("again", f"t/bg/{id}")).text == "13 pens"
    assert agent.get_state(f"t/bg/{id}").agent == "worker"


async def test_a_replay_of_a_thread_with_tasks_says_the_same_and_begins_none():
    job = Job()
    boss = Boss(job)
    async with boss.agent:
        await boss.turn(start(), "running")
        id = boss.job
        job.let.set()
        await boss.until("ended")
        turn = await boss.turn(about("check_task", id), "12")
        assert "has ended" in turn.messages[1].text
        boss._script = iter([start(), "running", about("check_task", id), "12"])
        replay = await boss.agent.replay("t")
    assert replay.differences == []
    assert len(job.requests) == 1


async def test_another_process_that_shares_the_disk_sees_and_tells_a_running_task(tmp_path):
    job = Job(ToolCall("ping"), "12 pens")
    boss = Boss(job, store=DiskCheckpointer(tmp_path), tools=[ping])
    other = Boss(Job(), store=DiskCheckpointer(tmp_path), tools=[ping])
    async with boss.agent, other.agent:
        await boss.turn(start())
        await job.begun.wait()
        listed = answers(await other.turn(ToolCall("list_tasks")))
        assert re.fullmatch(r"\w{8} worker running: count the pens", listed[0])
        job.let.set()
        await boss.until("ended")
        turn = await other.turn(about("check_task", boss.job))
        assert "has ended" in turn.messages[1].text
        assert answers(turn) == ["12 pens"]


async def test_a_task_has_the_tags_and_the_decision_beforehand_of_the_turn_that_began_it():
    boss = Boss(ScriptedModel(pays), tools=[pay], middleware=[AskFirst("pay")])
    async with boss.agent:
        boss._script = iter([start()])
        await boss.agent.with_options(tags={"user": "ann"}, unattended=Approve()).run("go", "t")
        await boss.until("ended")
    assert [thread.thread_id for thread in boss.agent.threads(tags={"user": "ann"}, prefix="t/bg/")] == [boss.thread]


async def test_after_a_deploy_without_its_subagent_a_task_is_listed_and_says_so():
    job = Job()
    boss = Boss(job)
    async with boss.agent:
        await boss.turn(start())
        await job.begun.wait()
    other = sub("other", ScriptedModel([]), background=True)
    script = [ToolCall("list_tasks"), about("update_task", boss.job), about("check_task", boss.job), "ok"]
    newer = create_deep_agent(ScriptedModel(script), subagents=[other], checkpointer=boss.store)
    async with newer:
        listed, updated, checked = answers(await newer.run("go", "t"))
    assert listed == f"{boss.job} worker interrupted: count the pens"
    assert updated == "there is no subagent 'worker' any more, so nobody can go on with its tasks"
    assert "was cut short" in checked


async def test_the_permissions_of_the_main_agent_hold_in_its_tasks_and_for_beginning_them():
    write = ToolCall("write_file", {"file_path": "/secret/a", "content": "x"}, "w1")
    job = Job(write, ToolCall("write_file", {"file_path": "/open/a", "content": "x"}, "w2"), "written")
    job.let.set()
    kinds = [sub("worker", job.model, background=True), sub("other", ScriptedModel(hang), background=True)]
    rules = [Deny("task", "other"), Deny("write", "/secret/**"), Ask("write", "/open/**")]
    model = ScriptedModel([[start("other"), start("worker")], "ok", "ok"])
    agent = create_deep_agent(model, subagents=kinds, permissions=rules)
    async with agent:
        refused, begun = results(await agent.run("go", "t"))
        assert (refused.is_error, begun.is_error) == (True, False)
        (thread,) = agent.threads(prefix="t/bg/")
        async for _ in agent.follow(thread.thread_id):
            pass
        assert job.requests[1].messages[-1].is_error
        assert [wait.call_id for wait in agent.get_state(thread.thread_id).interrupts] == ["w2"]
        assert (await agent.resume(thread.thread_id, {"w2": Approve()})).text == "written"
    assert [*agent.get_state(thread.thread_id).files] == ["/open/a"]


async def test_where_redact_removes_the_notes_another_process_goes_on_without_the_tasks():
    def without_notes(event):
        return structs.replace(event, value="(gone)") if isinstance(event, Noted) else event

    store = MemoryCheckpointer()
    boss = Boss(ScriptedModel(["12 pens"]), store=store)
    boss.agent.redact = without_notes
    async with boss.agent:
        await boss.turn(start())
        later = Boss(ScriptedModel([]), store=store)
        turn = await later.turn(ToolCall("list_tasks"), about("check_task", "x"), "ok")
    assert answers(turn) == ["no tasks were begun", "no task has the id 'x'; `list_tasks` shows all tasks"]


async def test_the_thread_of_a_task_has_an_id_that_everybody_can_name():
    boss = Boss(ScriptedModel(["12 pens"]))
    async with boss.agent:
        await boss.turn(start(), thread="t" * 500)
        (info,) = boss.agent.threads(prefix="t" * 488 + "/bg/")
        assert (await boss.agent.status(info.thread_id)).thread_id == info.thread_id
