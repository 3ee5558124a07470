"""Calls that wait for a person, in any agent of a tree: each decision does what it says, and nothing runs twice."""

import asyncio
import json
import threading

import pytest
from harness.agents import pay as pay_tool, sub, task
from harness.office import Office, calls_of, edited, full, note, pay, plan, say, waiting, work, worker
from harness.processes import python
from harness.stores import InstrumentedStore, plain
from hypothesis import given, settings, strategies as st

from minideep import (
    Agent,
    Approve,
    ConfigError,
    DiskCheckpointer,
    Edit,
    MemoryCheckpointer,
    Middleware,
    Reject,
    Respond,
    ThreadConflict,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResult,
    create_deep_agent,
    tool,
)
from minideep.events import ToolStarted, TurnEscalated
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.models import ScriptedModel

# ---- one model for every agent: a message is a plan, a list of rounds, each a list of calls


@pytest.fixture(params=["one agent", "another agent"])
def anew(request):
    return request.param == "another agent"


@pytest.fixture
def office(store, anew):
    return Office(store, anew)


# ---- decisions on every level

MAIN = [[note(1), pay(2), note(3)]]
CHILD = [[note(0), work("a", *MAIN), note(4)]]
GRANDCHILD = [[work("b", *CHILD), note(5)]]
GREAT_GRANDCHILD = [[work("c", *GRANDCHILD)]]
PARALLEL = [[work("a", [pay(2)], [note(1)]), work("b", [note(3)]), work("c", [note(4), pay(5)])]]


ANSWERS = {"Approve": Approve(), "Edit": Edit({"n": 7}), "Reject": Reject("too dear"), "Respond": Respond("a gift")}
TOLD = {
    "Approve": "paid 2",
    "Edit": edited("paid 7", 7),
    "Reject": "a person rejected this call: too dear",
    "Respond": "a gift",
}


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize(
    ("rounds", "name", "said"),
    [
        (MAIN, "p2", "[noted 1] [{}] [noted 3]"),
        (CHILD, "a/p2", "[noted 0] [[noted 1] [{}] [noted 3]] [noted 4]"),
        (GRANDCHILD, "b/a/p2", "[[noted 0] [[noted 1] [{}] [noted 3]] [noted 4]] [noted 5]"),
        (GREAT_GRANDCHILD, "c/b/a/p2", "[[[noted 0] [[noted 1] [{}] [noted 3]] [noted 4]] [noted 5]]"),
    ],
    ids=["main", "child", "grandchild", "great-grandchild"],
)
async def test_a_call_of_any_agent_waits_and_each_decision_does_what_it_says(office, kind, rounds, name, said):
    turn = await office.run(*rounds)
    assert (turn.status, waiting(turn)) == ("paused", [name])
    assert (turn.interrupts[0].call.args, turn.interrupts[0].reason) == (
        {"n": 2},
        "pay runs only when a person has decided",
    )
    before = sorted(office.did)
    assert before == sorted(f"note {call[1]['n']}" for call in notes(rounds))
    turn = await office.resume({"p2": ANSWERS[kind]})
    assert (turn.status, turn.text) == ("ended", said.format(TOLD[kind]))
    assert office.did[len(before) :] == {"Approve": ["pay 2"], "Edit": ["pay 7"]}.get(kind, [])


def notes(rounds):
    return [call for call in calls_of(rounds) if call[0] == "note"]


async def test_a_rejection_is_an_error_result_and_a_response_is_not(office):
    await office.run([pay(1), pay(2)])
    turn = await office.resume({"p1": Reject(), "p2": Respond("a gift")})
    told = [(message.text, message.is_error) for message in turn.messages if isinstance(message, ToolMessage)]
    assert told == [("a person rejected this call", True), ("a gift", False)]


async def test_the_decision_is_in_the_log_of_the_run_that_owns_the_call(office):
    await office.run(*CHILD)
    await office.resume({"p2": Reject("no")})
    child = office.state().subagents["a"]
    assert [(m.call_id, m.text, m.is_error) for m in child.messages if isinstance(m, ToolMessage)] == [
        ("n1", "noted 1", False),
        ("p2", "a person rejected this call: no", True),
        ("n3", "noted 3", False),
    ]


# ---- siblings


async def test_finished_siblings_keep_their_results_while_a_call_waits(office):
    await office.run(*CHILD)
    state = office.state()
    kept = {name: entry.result and entry.result.text for name, entry in state.open.items()}
    assert (state.status, kept) == ("paused", {"n0": "noted 0", "a": None, "n4": "noted 4"})
    child = state.subagents["a"]
    kept = {name: entry.result and entry.result.text for name, entry in child.open.items()}
    assert (child.status, kept) == ("paused", {"n1": "noted 1", "p2": None, "n3": "noted 3"})


@pytest.mark.parametrize("order", [["p2", "p5"], ["p5", "p2"], ["p2 p5"]])
async def test_parallel_subagents_are_answered_together_or_one_by_one_and_finished_ones_do_not_run_again(office, order):
    turn = await office.run(*PARALLEL)
    assert waiting(turn) == ["a/p2", "c/p5"]
    assert {key: child.status for key, child in office.state().subagents.items()} == {
        "a": "paused",
        "b": "ended",
        "c": "paused",
    }
    for names in order:
        assert turn.status == "paused"
        turn = await office.resume({name: Approve() for name in names.split()})
    assert (turn.status, turn.text) == ("ended", "[[paid 2] [noted 1]] [[noted 3]] [[noted 4] [paid 5]]")
    assert sorted(office.did) == ["note 1", "note 3", "note 4", "pay 2", "pay 5"]


@pytest.mark.parametrize("order", ["123", "321", "213"])
async def test_waiting_calls_of_one_reply_are_answered_in_any_order(office, order):
    turn = await office.run([pay(1), note(0), pay(2), pay(3)])
    for number in order:
        assert turn.status == "paused"
        turn = await office.resume({f"p{number}": Approve()})
    assert turn.text == "[paid 1] [noted 0] [paid 2] [paid 3]"
    assert office.did == ["note 0", *(f"pay {number}" for number in order)]


async def test_without_a_checkpointer_a_call_that_waits_is_resumed_by_its_agent():
    """The thread lives as long as the agent: an approval never leads nowhere."""
    agent = create_deep_agent(
        ScriptedModel([ToolCall("pay", {}, "p1"), "done"]), [pay_tool], interrupt_on={"pay": True}
    )
    turn = await agent.run("go", "t")
    assert (turn.status, agent.checkpointer) == ("paused", None)
    turn = await agent.resume("t", {"p1": Approve()})
    assert (turn.status, turn.messages[-2].text) == ("ended", "paid")


async def test_a_later_reply_of_the_same_turn_may_wait_again(office):
    turn = await office.run([pay(1)], [work("a", [pay(2)], [pay(3)])])
    for number in (1, 2, 3):
        assert (turn.status, turn.interrupts[0].call_id) == ("paused", f"p{number}")
        turn = await office.resume({f"p{number}": Approve()})
    assert turn.text == "[paid 1] [[paid 2] [paid 3]]"
    assert office.did == ["pay 1", "pay 2", "pay 3"]


class Together(Office):
    """Two runs note at the same moment, so that both have made their calls before either waits."""

    def __init__(self, store, anew):
        super().__init__(store, anew)
        self.barrier = asyncio.Barrier(2)

    async def note(self, n: int) -> str:
        """Note a number, together with others."""
        await self.barrier.wait()
        return await super().note(n)


async def test_an_id_under_which_two_calls_wait_must_be_given_with_its_path(store, anew):
    office = Together(store, anew)
    turn = await office.run([work("a", [note(1), pay(1)]), work("b", [note(2), pay(1)])])
    assert waiting(turn) == ["a/p1", "b/p1"]
    before, did = office.state(), list(office.did)
    with pytest.raises(ConfigError, match="several pending calls are named 'p1'; pending: a/p1, b/p1"):
        await office.resume({"p1": Approve()})
    assert (office.state(), office.did) == (before, did)
    turn = await office.resume({"b/p1": Edit({"n": 2})})
    assert (waiting(turn), office.did[len(did) :]) == (["a/p1"], ["pay 2"])
    turn = await office.resume({"p1": Reject("no")})
    assert turn.text == f"[[noted 1] [a person rejected this call: no]] [[noted 2] [{edited('paid 2', 2)}]]"


async def test_a_call_whose_id_waits_already_gets_another_one(office):
    turn = await office.run([work("a", [pay(1)]), work("b", [pay(1)])])
    assert {wait.path for wait in turn.interrupts} == {("a",), ("b",)}
    first, second = turn.interrupts
    assert (first.call_id, first.call.args, second.call.args) == ("p1", {"n": 1}, {"n": 1})
    assert second.call_id != "p1"
    turn = await office.resume({"p1": Approve(), second.call_id: Reject()})
    assert (turn.text, office.did) == ("[[paid 1]] [[a person rejected this call]]", ["pay 1"])


async def test_only_calls_that_were_decided_start_again(office):
    await office.run([pay(1), note(2), work("a", [pay(3)]), work("b", [pay(4)])])
    stream = office.agent.resume_stream("t", {"p4": Approve()})
    started = [(event.path, event.call.id) async for event in stream if isinstance(event, ToolStarted)]
    assert started == [((), "b"), (("b",), "p4")]


# ---- decisions that do not fit


@pytest.mark.parametrize(
    ("decisions", "problem"),
    [
        ({"p9": Approve()}, "no pending call 'p9'; pending: a/p2"),
        ({"n1": Approve()}, "no pending call 'n1'"),
        ({"a": Approve()}, "no pending call 'a'"),
        ({"b/p2": Approve()}, "no pending call 'b/p2'"),
        ({"p2": Approve(), "p9": Approve()}, "no pending call 'p9'"),
        ({"p2": Approve(), "a/p2": Reject()}, "two decisions are for the pending call 'a/p2'"),
        (
            {"p2": "approve"},
            r"decisions\['p2'\] must be an `Approve`, an `Edit`, a `Reject` or a `Respond`, not 'approve'",
        ),
    ],
)
async def test_a_decision_for_nothing_that_waits_is_refused_and_changes_nothing(office, decisions, problem):
    await office.run(*CHILD)
    before, head, did = office.state(), plain(office.store).head("t"), list(office.did)
    with pytest.raises(ConfigError, match=problem):
        await office.resume(decisions)
    assert (office.state(), plain(office.store).head("t"), office.did) == (before, head, did)
    assert (await office.resume({"p2": Approve()})).status == "ended"


async def test_a_decision_cannot_be_given_twice(office):
    await office.run([pay(1), pay(2)])
    await office.resume({"p1": Approve()})
    with pytest.raises(ConfigError, match="no pending call 'p1'; pending: p2"):
        await office.resume({"p1": Approve()})
    await office.resume({"p2": Approve()})
    with pytest.raises(ConfigError, match="no pending call 'p2'; pending: none"):
        await office.resume({"p2": Approve()})
    assert office.did == ["pay 1", "pay 2"]


async def test_of_two_simultaneous_decisions_one_is_refused_and_the_call_runs_once(store):
    office, other = Office(store), Office(store)
    other.did = office.did
    await office.run(*MAIN)
    did = len(office.did)
    both = [house.resume({"p2": Approve()}) for house in (office, other)]
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ThreadBusy", "Turn"]
    assert office.did[did:] == ["pay 2"]


async def test_resume_without_a_decision_returns_the_pause_and_does_nothing(office):
    first = await office.run(*CHILD)
    head, did = plain(office.store).head("t"), list(office.did)
    turn = await office.resume()
    assert (turn.status, turn.interrupts) == ("paused", first.interrupts)
    assert (plain(office.store).head("t"), office.did) == (head, did)


async def test_the_model_is_told_what_is_wrong_with_arguments_that_a_person_gave(office):
    await office.run([pay(1)])
    turn = await office.resume({"p1": Edit({"amount": 1})})
    assert turn.status == "ended"
    assert turn.text.startswith("[pay: it takes no 'amount'; 'n' is missing; it takes n (integer)")
    assert office.did == []


# ---- another message instead


async def test_a_message_instead_of_a_decision_answers_the_call_and_cancels_paused_subagents(office):
    await office.run([pay(1), note(2), work("a", [work("b", [pay(3)])]), work("c", [note(4)])])
    turn = await office.run([note(5)])
    assert (turn.status, turn.text) == ("ended", "[noted 5]")
    state = office.state()
    told = {m.call_id: (m.text, m.is_error) for m in state.messages if isinstance(m, ToolMessage)}
    given_up = ("this call did not complete: the turn went on without its result", True)
    assert told == {
        "p1": given_up,
        "n2": ("noted 2", False),
        "a": given_up,
        "c": ("[noted 4]", False),
        "n5": ("noted 5", False),
    }
    children = state.subagents
    assert (children["a"].status, children["a"].subagents["b"].status) == ("cancelled", "cancelled")
    assert children["a"].number > children["a"].subagents["b"].number  # Leaves first.
    assert children["c"].status == "ended"
    assert "pay 1" not in office.did
    with pytest.raises(ConfigError, match="pending: none"):
        await office.resume({"p3": Approve()})


# ---- the cost of a pause


@pytest.mark.parametrize("rounds", [MAIN, GRANDCHILD, PARALLEL])
async def test_a_turn_appends_twice_and_twice_more_for_each_approved_call(anew, rounds):
    store = InstrumentedStore()
    office = Office(store, anew)
    turn = await office.run(*rounds)
    assert (turn.status, store.appends) == ("paused", 2)
    decided = waiting(turn)
    turn = await office.resume({name: Approve() for name in decided})
    assert (turn.status, store.appends) == ("ended", 4 + 2 * len(decided))


async def test_a_resumed_turn_repeats_no_model_call(store, anew):
    model = ScriptedModel(say)
    office = Office(store, anew, subagents=[worker(model=model)])
    await office.run([work("a", [note(1), pay(2)]), work("b", [note(3)])])
    asked = len(model.requests)
    turn = await office.resume({"p2": Approve()})
    assert (asked, len(model.requests), turn.costs.steps, turn.costs.tool_calls) == (3, 4, 2, 2)


# ---- another process


def test_another_process_decides_a_call_two_levels_down(tmp_path):
    async def ask():
        with DiskCheckpointer(tmp_path) as store:
            office = Office(store)
            return waiting(await office.run(*GRANDCHILD)), office.did

    names, did = asyncio.run(ask())
    code = """
        import asyncio, json, sys
        from harness.office import Office
        from minideep import DiskCheckpointer, Edit

        async def answer():
            with DiskCheckpointer(sys.argv[1]) as store:
                office = Office(store)
                turn = await office.resume({"b/a/p2": Edit({"n": 7})})
                print(json.dumps([turn.status, turn.text, office.did]))

        asyncio.run(answer())
    """
    assert (names, did) == (["b/a/p2"], ["note 5", "note 0", "note 4", "note 1", "note 3"])
    said = f"[[noted 0] [[noted 1] [{edited('paid 7', 7)}] [noted 3]] [noted 4]] [noted 5]"
    assert json.loads(python(code, tmp_path)) == ["ended", said, ["pay 7"]]


@pytest.mark.parametrize("durability", ["turn", "tool"])
def test_two_subagents_that_pause_beside_a_finished_one_go_on_by_one_resume_in_another_process(tmp_path, durability):
    async def ask():
        with DiskCheckpointer(tmp_path) as store:
            office = Office(store, durability=durability)
            return waiting(await office.run(*PARALLEL)), office.did

    names, did = asyncio.run(ask())
    assert (names, sorted(did)) == (["a/p2", "c/p5"], ["note 3", "note 4"])
    code = """
        import asyncio, json, sys
        from harness.office import Office
        from minideep import DiskCheckpointer, Approve

        async def answer():
            with DiskCheckpointer(sys.argv[1]) as store:
                office = Office(store)
                turn = await office.resume({"a/p2": Approve(), "c/p5": Approve()})
                print(json.dumps([turn.status, turn.text, sorted(office.did)]))

        asyncio.run(answer())
    """
    said = "[[paid 2] [noted 1]] [[noted 3]] [[noted 4] [paid 5]]"
    assert json.loads(python(code, tmp_path)) == ["ended", said, ["note 1", "pay 2", "pay 5"]]


# ---- any plan, answered in any pieces


def plans(depth):
    call = st.sampled_from(["note", "pay"])
    if depth:
        call = call | plans(depth - 1)
    return st.lists(st.lists(call, min_size=1, max_size=3), min_size=1, max_size=2)


def numbered(shape, counter):
    """A drawn shape as a plan whose calls all differ."""
    rounds = []
    for step in shape:
        rounds.append([])
        for call in step:
            number = next(counter)
            made = {"note": note, "pay": pay}[call](number) if isinstance(call, str) else None
            rounds[-1].append(made or work(f"w{number}", *numbered(call, counter)))
    return rounds


def told(rounds, decided):
    """Return the last text of the model of a plan."""
    return " ".join(f"[{answer(call, decided)}]" for step in rounds for call in step)


def answer(call, decided):
    if call[0] == "task":
        return told(json.loads(call[1]["description"]), decided)
    if call[0] == "note":
        return f"noted {call[1]['n']}"
    match decided[call[1]["n"]]:
        case Approve():
            return f"paid {call[1]['n']}"
        case Edit() as edit:
            return edited(f"paid {edit.args['n']}", edit.args["n"])
        case Respond(text):
            return text
        case _:
            return "a person rejected this call"


@settings(deadline=None, max_examples=60)
@given(plans(2), st.data())
def test_any_sequence_of_partial_answers_runs_each_call_once_and_keeps_every_result_in_call_order(shape, data):
    rounds = numbered(shape, iter(range(1000)))
    asyncio.run(obeys(Office(MemoryCheckpointer(), anew=data.draw(st.booleans())), rounds, data))


async def obeys(office, rounds, data):
    decided = {}
    turn = await office.run(*rounds)
    while turn.status == "paused":
        waits = {wait.call.args["n"]: wait for wait in turn.interrupts}
        assert not waits.keys() & decided.keys()
        chosen = data.draw(st.lists(st.sampled_from(sorted(waits)), min_size=1, unique=True))
        kinds = [Approve(), Edit({"n": 1000}), Reject(), Respond("a gift")]
        picked = {number: data.draw(st.sampled_from(kinds)) for number in chosen}
        picked = {n: Edit({"n": n + 1000}) if isinstance(kind, Edit) else kind for n, kind in picked.items()}
        decided |= picked
        turn = await office.resume({full(waits[number]): decision for number, decision in picked.items()})
    assert (turn.status, turn.error) == ("ended", None)
    assert office.state().text == told(rounds, decided)
    assert sorted(office.did) == sorted(done(rounds, decided))


def done(rounds, decided):
    """Yield everything that must have happened, each thing once."""
    for name, args, _ in calls_of(rounds):
        if name == "note":
            yield f"note {args['n']}"
        elif name == "pay" and isinstance(decided[args["n"]], Approve | Edit):
            yield f"pay {getattr(decided[args['n']], 'args', args)['n']}"


# ---- what `interrupt_on` says


@tool
async def rare() -> str:
    """Do something that only one subagent can do."""
    return "done"


class Law(Middleware):
    """Ten times what was asked for is paid, and nothing over 100."""

    async def before_tool(self, ctx, call):
        if call.name != "pay":
            return call
        amount = call.args["n"] * 10
        return ToolResult("too much", is_error=True) if amount > 100 else ToolCall("pay", {"n": amount}, call.id)


async def test_a_person_is_asked_about_what_would_run_and_cannot_allow_what_is_forbidden(office):
    office.more["middleware"] = [Law()]
    turn = await office.run([pay(1), pay(2), pay(30)])
    assert [wait.call.args["n"] for wait in turn.interrupts] == [10, 20]
    turn = await office.resume({"p1": Approve(), "p2": Edit({"n": 30})})
    assert (turn.text, office.did) == ("[paid 10] [too much] [too much]", ["pay 10"])


# ---- tools that run children themselves


async def test_children_of_one_call_pause_together_and_finished_ones_are_not_run_again(store, anew):
    did = []

    @tool
    async def pay(n: int) -> str:
        did.append(n)
        return f"paid {n}"

    def agent():
        helper = Agent(ScriptedModel(say), [pay], middleware=[HumanInTheLoopMiddleware({"pay": True})], name="helper")

        @tool
        async def team(ctx: ToolContext) -> str:
            turns = await asyncio.gather(*(ctx.run(helper, plan([["pay", {"n": n}, f"p{n}"]]), f"{n}") for n in (1, 2)))
            return " ".join(turn.text for turn in turns)

        return Agent(ScriptedModel(say), [team], checkpointer=store)

    first = agent()
    turn = await first.run(plan([["team", {}, "c"]]), "t")
    assert waiting(turn) == ["c/1/p1", "c/2/p2"]
    turn = await (agent() if anew else first).resume("t", {"p2": Approve()})
    assert (waiting(turn), did) == (["c/1/p1"], [2])
    turn = await (agent() if anew else first).resume("t", {"p1": Approve()})
    assert (turn.text, did) == ("[[paid 1] [paid 2]]", [2, 1])


# ---- a call that is decided, and what happens then


async def test_an_approved_task_is_not_asked_about_again_when_its_subagent_waits(office):
    office.more["interrupt_on"] = {"pay": True, "task": True}
    assert waiting(await office.run([work("a", [note(1), pay(2)])])) == ["a"]
    turn = await office.resume({"a": Edit(work("a", [note(3), pay(4)])[1])})
    assert waiting(turn) == ["a/p4"]
    turn = await office.resume({"p4": Approve()})
    assert turn.text.startswith("[[noted 3] [paid 4]\n[A person changed this call; its arguments")
    assert office.did == ["note 3", "pay 4"]


async def test_after_tool_sees_results_and_no_pause(office):
    seen = []

    class Spy(Middleware):
        async def after_tool(self, ctx, call, result):
            seen.append((call.name, result.text))
            return result

    office.more["middleware"] = [Spy()]
    await office.run([work("a", [pay(2)])])
    assert seen == []
    await office.resume({"p2": Approve()})
    assert seen == [("pay", "paid 2"), ("task", "[paid 2]")]


async def test_the_ledger_does_not_count_children_that_did_not_run():
    helper = Agent(ScriptedModel(say), [rare], middleware=[HumanInTheLoopMiddleware({"rare": True})], name="helper")

    @tool
    async def team(ctx: ToolContext) -> str:
        for key in "ab":
            await ctx.run(helper, plan([["rare", {}, f"r{key}"]]), key)
        return "done"

    agent = Agent(ScriptedModel(say), [team])
    await agent.run(plan([["team", {}, "c"]]), "t")
    await agent.resume("t", {"ra": Approve()})
    costs = (await agent.resume("t", {"rb": Approve()})).costs
    assert (costs.steps, costs.tool_calls) == (2, 2)


@tool
async def ask(ctx: ToolContext) -> str:
    """Ask something."""
    ctx.record(TurnEscalated(1.0, "red or blue?"))
    return "asked"


class Asks(Middleware):
    tools = (ask,)


async def test_a_call_may_wait_beside_one_that_asks(office):
    office.more["middleware"] = [Asks()]
    turn = await office.run([["ask", {}, "q"], pay(1), work("a", [pay(2)])])
    assert (turn.status, turn.question, waiting(turn)) == ("escalated", "red or blue?", ["p1", "a/p2"])
    turn = await office.run([note(3)])
    assert (turn.text, office.did, office.state().subagents["a"].status) == ("[noted 3]", ["note 3"], "cancelled")


async def test_a_hook_that_fails_beside_a_call_that_asks_fails_the_turn():
    class Bad(Middleware):
        async def before_tool(self, ctx, call):
            if call.name == "note":
                await asyncio.sleep(0)
                raise KeyError("oops")
            return call

    turn = await Office(MemoryCheckpointer(), middleware=[Asks(), Bad()]).run([["ask", {}, "q"], note(1)])
    assert (turn.status, str(turn.error)) == ("failed", "Bad.before_tool raised KeyError: 'oops'")


@pytest.mark.parametrize("raw", [b"{bad", b"[1]", b'"x"', b"\xff", b""])
async def test_an_edit_whose_arguments_are_not_a_mapping_is_refused(office, raw):
    await office.run([pay(1)])
    with pytest.raises(ConfigError, match="'p1': an Edit takes the call's arguments as a mapping, not b"):
        await office.resume({"p1": Edit(raw)})
    assert office.state().status == "paused"


@pytest.mark.parametrize(("rounds", "path"), [(MAIN, []), (GRANDCHILD, ["b", "a"])])
def test_an_approved_call_whose_process_was_killed_waits_again_and_says_so(tmp_path, rounds, path):
    code = """
        import asyncio, json, os, sys
        from harness.office import Office
        from minideep import Approve, DiskCheckpointer

        class Dying(Office):
            async def pay(self, n: int) -> str:
                print("dies", flush=True)
                os._exit(0)

        async def go():
            office = Dying(DiskCheckpointer(sys.argv[1]))
            await office.run(*json.loads(sys.argv[2]))
            await office.resume({"p2": Approve()})

        asyncio.run(go())
    """
    assert python(code, tmp_path, json.dumps(rounds)) == "dies\n"
    with DiskCheckpointer(tmp_path) as store:
        office = Office(store, anew=True)
        turn = asyncio.run(office.resume())
        assert (turn.status, waiting(turn), office.did) == ("paused", ["/".join([*path, "p2"])], [])
        reason = "a person let it run, and it had begun when the turn was cut short; it may have taken effect"
        assert turn.interrupts[0].reason == reason
        assert asyncio.run(office.resume({"p2": Approve()})).status == "ended"
        assert office.did == ["pay 2"]


def offer(office, function):
    """Give the agents another tool, calls of which wait."""
    part = type("Offer", (Middleware,), {"tools": (tool(function),)})()
    office.more |= {"interrupt_on": {function.__name__: True}, "middleware": [part]}


async def test_an_edited_call_that_was_cancelled_says_what_had_begun(office):
    started = asyncio.Event()

    async def slow(n: int) -> str:
        office.did.append(n)
        started.set()
        await asyncio.sleep(60 if len(office.did) == 1 else 0)
        return ""

    offer(office, slow)
    await office.run([["slow", {"n": 1}, "s"]])
    turn = asyncio.ensure_future(office.resume({"s": Edit({"n": 2})}))
    await started.wait()
    turn.cancel()
    await asyncio.wait([turn])
    (wait,) = (await office.resume()).interrupts
    assert wait.call.args == {"n": 1}
    assert wait.reason.endswith('it may have taken effect; it began with other arguments, which a person gave: {"n":2}')
    await office.resume({"s": Approve()})
    assert office.did == [2, 1]


async def test_an_approved_call_that_was_cancelled_waits_again(office):
    started = asyncio.Event()

    async def slow() -> str:
        office.did.append("slow")
        started.set()
        await asyncio.sleep(60 if office.did == ["slow"] else 0)
        return ""

    offer(office, slow)
    await office.run([["slow", {}, "s"]])
    turn = asyncio.ensure_future(office.resume({"s": Approve()}))
    await started.wait()
    turn.cancel()
    await asyncio.wait([turn])
    turn = await office.resume()
    assert (turn.status, waiting(turn), office.did) == ("paused", ["s"], ["slow"])


async def test_a_subagents_log_that_changes_while_it_is_read_is_a_conflict_and_not_damage():
    store = InstrumentedStore()
    store.locks = False
    first, second = Office(store), Office(store)
    await first.run(*CHILD)

    def let_the_other_go_first(operation, *args):
        if operation == "rows" and args[0].startswith("log/t/a/"):
            store.before = None
            other = threading.Thread(target=asyncio.run, args=(first.resume({"p2": Approve()}),))
            other.start()
            other.join()

    store.before = let_the_other_go_first
    with pytest.raises(ThreadConflict):
        await second.resume({"p2": Approve()})
    assert (first.did[4:], second.did, first.state().status) == (["pay 2"], [], "ended")


async def test_every_interrupt_has_a_key_that_a_decision_can_be_given_under():
    ask = ToolCall("pay", {"amount": 1}, "p1")
    clerk = sub("clerk", ScriptedModel([ask, "paid"]))
    agent = create_deep_agent(ScriptedModel([[task("clerk", "t1"), ask], "done"]), [pay_tool], subagents=[clerk],
                              interrupt_on={"pay": True})  # fmt: skip
    turn = await agent.run("go", "t")
    assert sorted(wait.key for wait in turn.interrupts) == ["/p1", "/t1/p1"]
    turn = await agent.resume("t", {wait.key: Approve() for wait in turn.interrupts})
    assert (turn.status, turn.text) == ("ended", "done")
