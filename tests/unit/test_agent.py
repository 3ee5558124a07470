"""`Agent`: its threads, who may run one, its inputs, and how it is built."""

import asyncio
import pickle

import pytest
from harness.agents import hang, ok, pay, ping, sub, task
from harness.media import PNG
from harness.middleware import AskFirst
from harness.processes import python
from harness.stores import InstrumentedStore, plain

from minideep import (
    Agent,
    Approve,
    CheckpointError,
    ConfigError,
    DiskCheckpointer,
    Image,
    MemoryCheckpointer,
    Middleware,
    MinideepError,
    Subagent,
    Text,
    ThreadBusy,
    ThreadConflict,
    Todo,
    ToolCall,
    ToolContext,
    UnknownThread,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.backends import FilesystemBackend
from minideep.blueprint import Blueprint
from minideep.events import Compacted
from minideep.models import Anthropic, FallbackModel, OpenAI, OpenAIChat, ScriptedModel


async def test_a_thread_remembers_its_earlier_turns(store):
    model = ScriptedModel(["one", "two"])
    agent = Agent(model, checkpointer=store)
    await agent.run("first", "t")
    turn = await agent.run("second", "t")
    assert [message.text for message in model.requests[1].messages] == ["first", "one", "second"]
    assert [message.text for message in turn.messages] == ["second", "two"]
    assert agent.get_state("t").turn == 2


async def test_another_process_finds_the_same_messages_todos_and_files(tmp_path):
    script = [
        ToolCall("write_todos", {"todos": [{"content": "a", "status": "in_progress"}]}, "c1"),
        ToolCall("write_file", {"file_path": "/a.txt", "content": "héllo"}, "c2"),
        "done",
    ]
    with DiskCheckpointer(tmp_path) as store:
        agent = create_deep_agent(ScriptedModel(script), checkpointer=store)
        await agent.run("go", "t/1 ü")
        state = agent.get_state("t/1 ü")
    code = """
        import pickle, sys
        from minideep import Agent, DiskCheckpointer

        state = Agent("offline:", checkpointer=DiskCheckpointer(sys.argv[1])).get_state("t/1 ü")
        print(pickle.dumps(state).hex())
    """
    assert pickle.loads(bytes.fromhex(python(code, tmp_path))) == state
    assert (state.todos, state.files["/a.txt"].content) == ([Todo("a", "in_progress")], "héllo")


def unlocked():
    """A store on which everybody gets hold of every thread."""
    store = InstrumentedStore()
    store.locks = False
    return store


async def test_a_second_runner_is_refused_before_it_does_anything(store):
    slow, other = asyncio.Event(), ScriptedModel(["never"])

    async def wait(request):
        await slow.wait()
        return "mine"

    first = Agent(ScriptedModel(wait), checkpointer=store)
    running = asyncio.ensure_future(first.run("first", "t"))
    while plain(store).head("t") is None:
        await asyncio.sleep(0.01)
    for act in (Agent(other, checkpointer=store).run("second", "t"), first.run("second", "t"), first.resume("t")):
        with pytest.raises(ThreadBusy, match="thread 't' is being run; wait for it with `wait=True`"):
            await act
    with pytest.raises(ThreadBusy):
        first.delete("t")
    slow.set()
    assert ((await running).text, (await running).saved, other.requests) == ("mine", True, [])
    assert [message.text for message in first.get_state("t").messages] == ["first", "mine"]


async def test_a_second_runner_waits_with_wait_true(store):
    model = ScriptedModel(lambda request: f"{len(request.messages)}")
    agents = [Agent(model, checkpointer=store) for _ in range(4)]
    turns = await asyncio.gather(*(agent.run("go", "t", wait=True) for agent in agents))
    assert sorted(turn.text for turn in turns) == ["1", "3", "5", "7"]


async def test_of_several_runners_on_one_thread_one_runs_and_the_others_call_no_model(store):
    async def slow(request):
        await asyncio.sleep(0.02)
        return "ok"

    model = ScriptedModel(slow)
    agents = [Agent(model, checkpointer=store) for _ in range(4)]
    outcomes = await asyncio.gather(*(agent.run("go", "t") for agent in agents), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ThreadBusy"] * 3 + ["Turn"]
    assert len(model.requests) == 1
    assert len(agents[0].get_state("t").messages) == 2


async def test_without_locks_the_losers_of_a_race_get_a_conflict_and_nothing_saved_is_lost():
    store, model = unlocked(), ScriptedModel(lambda request: "ok")
    agents = [Agent(model, checkpointer=store) for _ in range(4)]
    outcomes = await asyncio.gather(*(agent.run("go", "t") for agent in agents), return_exceptions=True)
    turns = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    assert all(isinstance(outcome, ThreadConflict) for outcome in outcomes if outcome not in turns)
    assert all(isinstance(turn.error, ThreadConflict) for turn in turns if not turn.saved)
    assert len(turns) == len(model.requests)
    answers = [message for message in agents[0].get_state("t").messages if message.role == "assistant"]
    assert len(answers) == sum(turn.saved for turn in turns) > 0


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_a_turn_that_lost_its_thread_fails_stops_its_tools_and_keeps_what_the_other_wrote(depth):
    store, stopped, models = unlocked(), [], []

    @tool
    async def slow() -> str:
        """Wait."""
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            stopped.append("slow")
            raise
        return "never"

    @tool
    async def lose() -> str:
        """Let another runner go on with the thread."""
        await Agent(ScriptedModel(["theirs"]), checkpointer=store, name="level 0").run("other", "t")
        return "lost"

    def losing(level):
        below = lose if level == depth else delegate(losing(level + 1))
        models.append(ScriptedModel([[ToolCall("slow"), ToolCall(below.name)], "never"]))
        return Agent(models[-1], [slow, below], checkpointer=store, durability="tool", name=f"level {level}")

    def delegate(agent):
        @tool
        async def below(ctx: ToolContext) -> str:
            """Have it done."""
            try:
                return (await ctx.run(agent, "go")).text
            except Exception:
                return "whatever"

        return below

    turn = await losing(0).run("go", "t")
    assert (turn.status, turn.reason, turn.saved) == ("failed", "ThreadConflict", False)
    assert stopped == ["slow"] * (depth + 1)
    assert isinstance(turn.error, ThreadConflict)
    assert [len(model.requests) for model in models] == [1] * (depth + 1)
    assert Agent(models[0], checkpointer=store).get_state("t").text == "theirs"


@pytest.mark.parametrize("swallowed", [False, True])
async def test_a_conflict_in_a_child_stops_its_parent(swallowed):
    store, stopped = unlocked(), []

    @tool
    async def lose() -> str:
        """Let another runner go on with the thread."""
        await Agent(ScriptedModel(["theirs"]), checkpointer=store).run("other", "t")
        return "lost"

    @tool
    async def slow(ctx: ToolContext) -> str:
        """Wait for the other child, and then too long."""
        await ctx.run(asking, "go")
        try:
            await asyncio.sleep(0 if swallowed else 3)
        except asyncio.CancelledError:
            stopped.append("slow")
            raise
        return "slept"

    @tool
    async def below(ctx: ToolContext) -> str:
        """Have it done."""
        try:
            return (await ctx.run(child, "go")).text
        except Exception:
            if swallowed:
                return "whatever"
            raise

    asking = Agent(
        ScriptedModel([ToolCall("ok", {}, "q"), "yes"]), [tool(name="ok")(ping.function)], middleware=[AskFirst()]
    )
    child = Agent(ScriptedModel([ToolCall("lose", {}, "p"), "never"]), [lose], middleware=[AskFirst()], name="child")
    model = ScriptedModel([[ToolCall("slow"), ToolCall("below")], "never"])
    agent = Agent(model, [below, slow], checkpointer=store)
    assert (await agent.run("go", "t")).status == "paused"
    turn = await agent.resume("t", {"p": Approve(), "q": Approve()})
    assert (turn.status, turn.reason, turn.saved) == ("failed", "ThreadConflict", False)
    assert stopped == ([] if swallowed else ["slow"])
    assert (len(model.requests), len(child.spec.model.requests)) == (1, 1)


async def test_a_conflict_at_the_end_of_a_turn_returns_the_answer_unsaved():
    store = unlocked()

    async def answer(request):
        await Agent(ScriptedModel(["theirs"]), checkpointer=store).run("second", "t")
        return "mine"

    turn = await Agent(ScriptedModel(answer), checkpointer=store).run("first", "t")
    assert (turn.status, turn.text, turn.saved) == ("failed", "mine", False)
    assert isinstance(turn.error, ThreadConflict)


async def test_different_threads_run_side_by_side(store):
    agent = Agent(ScriptedModel(lambda request: request.messages[-1].text.upper()), checkpointer=store)
    turns = await asyncio.gather(*(agent.run(f"m{n}", f"t{n}") for n in range(8)))
    assert [turn.text for turn in turns] == [f"M{n}" for n in range(8)]
    assert len(agent.threads()) == 8


async def test_a_killed_turn_goes_on_from_its_input():
    store = unlocked()
    agent = Agent(ScriptedModel(["unreachable"]), checkpointer=store)
    hanging = asyncio.ensure_future(Agent(ScriptedModel(hang), checkpointer=store).run("go", "t"))
    while plain(store).head("t") is None:
        await asyncio.sleep(0.01)
    assert agent.get_state("t").status == "running"
    turn = await Agent(ScriptedModel(["done"]), checkpointer=store).resume("t")
    assert (turn.status, turn.text) == ("ended", "done")
    hanging.cancel()
    await asyncio.wait([hanging])
    assert agent.get_state("t").text == "done"


async def test_resume_of_an_ended_thread_returns_its_turn_and_calls_nothing(store):
    await Agent(ScriptedModel(["one"]), checkpointer=store).run("first", "t")
    turn = await Agent(ScriptedModel([]), checkpointer=store).resume("t")
    assert (turn.status, turn.text) == ("ended", "one")


async def test_an_unknown_thread_is_refused():
    agent = Agent(ScriptedModel([]))
    with pytest.raises(UnknownThread, match="no thread 'x'; `threads"):
        await agent.resume("x")
    with pytest.raises(UnknownThread, match="no thread 'x'; `threads"):
        agent.get_state("x")


@pytest.mark.parametrize("thread_id", ["", "  ", 7, "x" * 501, "\ud800"])
async def test_a_thread_id_must_be_usable_text(thread_id):
    with pytest.raises(ConfigError, match=r"Agent\.run: thread_id must be text of 1 to 500 characters, or None, not "):
        await Agent(ScriptedModel(["ok"])).run("go", thread_id)


async def test_threads_whose_names_contain_each_other_stay_apart(store):
    agent = Agent(ScriptedModel(lambda request: request.messages[-1].text), checkpointer=store)
    names = ["a", "a/", "a/b", "a,b", "a%2Fb", "A", "a0", "ä"]
    for name in names:
        await agent.run(name, name)
    assert {name: agent.get_state(name).text for name in names} == {name: name for name in names}
    assert sorted(info.thread_id for info in agent.threads()) == sorted(names)


async def test_threads_lists_the_last_used_first(store):
    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store, name="me")
    await agent.run("first goal", "a")
    await agent.run("other goal", "b")
    await agent.run("again", "a")
    lines = [(info.thread_id, info.agent, info.status, info.turns, info.title) for info in agent.threads()]
    assert lines == [("a", "me", "ended", 2, "first goal"), ("b", "me", "ended", 1, "other goal")]


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ("text", "text"),
        ([Text("a"), Image(PNG)], (Text("a"), Image(PNG))),
        (UserMessage("m"), "m"),
        ("\ud800", "\\ud800"),
    ],
)
async def test_an_input_is_text_blocks_or_a_message(given, content):
    turn = await Agent(ScriptedModel(["ok"])).run(given)
    assert turn.messages[0] == UserMessage(content)


@pytest.mark.parametrize("given", ["", " \n", [], 7, ["text"], None])
async def test_an_empty_or_wrong_input_is_refused_before_any_model_is_asked(given):
    model = ScriptedModel(["ok"])
    with pytest.raises(ConfigError, match=r"the input is empty|Agent\.run: input(\[0\])? must be "):
        await Agent(model).run(given)
    assert model.requests == []


@pytest.mark.parametrize("verb", ["run", "run_sync", "start", "stream"])
async def test_the_context_of_a_turn_reaches_the_tools_and_hooks_of_every_run_and_is_never_recorded(store, verb):
    seen = []

    class Watch(Middleware):
        inherit = True

        async def before_model(self, ctx, request):
            seen.append((ctx.context, ctx.path))
            return request

    @tool
    async def whoami(ctx: ToolContext) -> str:
        """Say who asks."""
        seen.append((ctx.context, ctx.path))
        return "known"

    user = object()  # It could not be stored.
    script = [task("helper", "t1"), "done"]
    child = sub("helper", ScriptedModel([ToolCall("whoami"), "asked"]), tools=[whoami])
    agent = create_deep_agent(ScriptedModel(script), subagents=[child], middleware=[Watch()], checkpointer=store)
    match verb:
        case "run":
            await agent.run("go", "t", context=user)
        case "run_sync":
            await asyncio.to_thread(agent.run_sync, "go", "t", context=user)
        case "start":
            await (await agent.start("go", "t", context=user))
        case "stream":
            assert [event async for event in agent.stream("go", "t", context=user)]
    assert seen == [(user, path) for path in [(), ("t1",), ("t1",), ("t1",), ()]]
    assert "object at" not in "".join(agent.export("t"))


async def test_a_thread_without_an_id_gets_one_that_can_be_used_again():
    agent = Agent(ScriptedModel(["one", "two"]))
    turn = await agent.run("go")
    assert len((await agent.run("go on", turn.thread_id)).messages) == 2
    assert len(agent.get_state(turn.thread_id).messages) == 4


async def test_a_turn_and_a_state_do_not_change_after_they_were_returned():
    agent = Agent(ScriptedModel(["one", "two"]))
    turn = await agent.run("go", "t")
    state = agent.get_state("t")
    before = pickle.dumps((turn.messages, state))
    await agent.run("go on", "t")
    assert pickle.dumps((turn.messages, state)) == before


# ---- construction


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"checkpointer": "state/"}, "Agent: checkpointer must be a `Store`, or None, not 'state/'"),
        ({"durability": "never"}, "Agent: durability must be 'turn', 'step' or 'tool', not 'never'"),
        ({"redact": "me"}, "Agent: redact must be a plain function, or None, not 'me'"),
    ],
)
async def test_a_setting_that_was_set_later_is_checked_before_a_turn_begins(change, problem):
    agent = Agent(ScriptedModel(["never"]))
    vars(agent).update(change)
    with pytest.raises(ConfigError, match=problem):
        await agent.run("go", "t")
    assert agent.spec.model.requests == []


async def test_decisions_that_are_not_a_mapping_are_refused(store):
    agent = Agent(ScriptedModel(["one"]), checkpointer=store)
    await agent.run("go", "t")
    with pytest.raises(ConfigError, match=r"Agent\.resume: decisions must be a mapping, or None, not \['x'\]"):
        await agent.resume("t", ["x"])


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("gpt-5", "unknown model 'gpt-5'; write `provider:model`, the provider one of anthropic:"),
        ("mystery:large", "unknown model 'mystery:large'"),
        ("anthropic:", "model 'anthropic:' names no model"),
        (7, "Agent: model must be text or a `Model`, not 7"),
    ],
)
def test_a_wrong_model_is_refused_at_once(model, problem):
    with pytest.raises(ConfigError, match=problem):
        Agent(model)


def test_preload_imports_the_sdk_of_a_model_and_nothing_else_does():
    code = """
import asyncio, sys
from minideep import Agent
from minideep.models import ScriptedModel
agent = Agent("openai:gpt-x")
print("openai" in sys.modules)
asyncio.run(agent.preload())
print("openai" in sys.modules)
asyncio.run(Agent(ScriptedModel([])).preload())
"""
    assert python(code, env={"OPENAI_API_KEY": "x"}) == "False\nTrue\n"


async def test_a_conflict_is_a_checkpoint_error_and_that_an_error_of_the_package():
    assert issubclass(CheckpointError, MinideepError)
    assert issubclass(ThreadConflict, CheckpointError)


@pytest.mark.parametrize("name", ["model", "tools", "system_prompt", "middleware", "limits", "name", "version"])
@pytest.mark.parametrize("make", [Agent, create_deep_agent, Blueprint])
def test_the_parts_of_an_agent_cannot_be_set_afterwards(make, name):
    agent = make(ScriptedModel([]))
    with pytest.raises(ConfigError, match=rf"agent\.{name} cannot be changed"):
        setattr(agent, name, "other")


def test_the_settings_that_a_turn_reads_when_it_begins_can_be_set():
    agent = Agent(ScriptedModel(["so"]))
    agent.checkpointer, agent.durability, agent.redact = MemoryCheckpointer(), "step", None
    assert agent.run_sync("go").saved


@pytest.mark.parametrize("wrong", [None, 5, b"t", "", "x\ud800"])
@pytest.mark.parametrize("verb", ["get_state", "history", "transcript", "export", "runs", "delete", "fork"])
def test_every_verb_refuses_a_wrong_thread_id(verb, wrong):
    agent = Agent(ScriptedModel(ok))
    agent.run_sync("go", "t")
    with pytest.raises(ConfigError, match=r"(thread_id|source) must be text of 1 to 500 characters"):
        getattr(agent, verb)(wrong)
    assert agent.get_state("t").turn == 1


async def test_no_name_of_a_thread_gets_in_the_way_of_another_thread():
    gate = asyncio.Event()

    async def wait(request):
        await gate.wait()
        return "ok"

    agent = Agent(ScriptedModel(wait), checkpointer=MemoryCheckpointer())
    turns = [asyncio.ensure_future(agent.run("go", name)) for name in ("a\0upkeep", "a")]
    await asyncio.sleep(0.01)
    with pytest.raises(ThreadBusy):
        await asyncio.wait_for(agent.run("go", "a"), 1)
    gate.set()
    await asyncio.gather(*turns)


async def test_a_turn_has_all_its_messages_though_it_was_compacted_meanwhile():
    class Compacting(Middleware):
        async def before_model(self, ctx, request):
            if ctx.state.step == 2:
                ctx.record(Compacted(UserMessage("so far"), len(ctx.state.messages)))
            return request

    agent = Agent(ScriptedModel([ToolCall("pay"), ToolCall("pay"), "end"]), [pay], middleware=[Compacting()])
    turn = await agent.run("go", "t")
    assert list(turn.messages) == agent.transcript("t")


def test_a_model_needs_a_name():
    class Nameless:
        async def complete(self, request, emit): ...

    with pytest.raises(ConfigError, match=r"model must be text or a `Model`, not .*; it has no 'name'"):
        Agent(Nameless())


@pytest.mark.parametrize("given", [[Text(5)], [Image("no bytes")]])
async def test_an_input_with_a_field_of_the_wrong_type_is_refused(given):
    with pytest.raises(ConfigError, match=r"Agent\.run: input\[0\]\.(text must be text, not 5|data must be bytes)"):
        await Agent(ScriptedModel(["ok"])).run(given)


def test_the_repr_of_an_agent_and_of_its_parts_shows_what_they_are_and_no_secret(tmp_path):
    clerk = Subagent(name="clerk", description="pays")
    with DiskCheckpointer(tmp_path / "state") as store:
        agent = Agent(ScriptedModel([]), [pay], name="boss", checkpointer=store)
        assert (
            repr(agent) == f"<Agent 'boss', model: scripted, tools: pay, store: DiskCheckpointer('{tmp_path}/state')>"
        )
        agent = create_deep_agent(ScriptedModel([]), subagents=[clerk], checkpointer=MemoryCheckpointer())
    assert ", subagents: general-purpose clerk, store: MemoryCheckpointer()>" in repr(agent)
    assert " SubAgentMiddleware " in repr(agent)
    assert "\n" not in repr(agent)
    secret = {"extra_headers": {"Authorization": "k-1"}}
    models = [Anthropic("claude", **secret), OpenAI("gpt", **secret), OpenAIChat("qwen", **secret)]
    assert [*map(repr, models)] == ["Anthropic('claude')", "OpenAI('gpt')", "OpenAIChat('qwen')"]
    assert repr(FallbackModel(models[:2])) == "FallbackModel(Anthropic('claude'), OpenAI('gpt'))"
    assert repr(FilesystemBackend(tmp_path)) == f"FilesystemBackend({str(tmp_path)!r})"
