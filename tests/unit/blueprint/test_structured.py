"""Questions to a part: a refused reply is answered in the same run, and what was done for it is not done again."""

import json
from pathlib import Path

from harness.blueprints import Parts, ask, asked, end, outcomes, plan, reader, refusal
from harness.stores import plain

from minideep import Approve, Limits, MemoryCheckpointer, ToolCall
from minideep.blueprint import STOCK_ROLES, Blueprint, Role
from minideep.checkpoint import head_key

OLD = Path(__file__).parents[2] / "frozen" / "threads" / "blueprint_second_try.json"


def too_short(content):
    if len(content) < 5:
        raise ValueError("say more")


def searcher(*, searches=10, good="long enough"):
    """A role that searches before it replies, and whose first reply is too short."""
    found = []

    def search(query: str) -> str:
        """Search the web."""
        found.append(query)
        return "a page"

    def reply(request):
        if len(found) < searches:
            return ToolCall("search", {"query": str(len(found))})
        return good if request.messages[-1].text.startswith("Your reply was refused") else "no"

    return found, reply, Role("worker", "You are a worker.", [search], validate=too_short)


def test_what_a_role_did_before_a_refused_reply_is_not_done_again():
    found, reply, role = searcher()
    parts = Parts([plan(("worker", "work", "a.md"))], [end("{{a.md}}")], reply)
    bp = Blueprint(parts, [*STOCK_ROLES, role])
    turn = bp.run_sync("g", "t")
    assert (turn.text, len(found)) == ("long enough", 10)
    assert refusal(parts.delegated[-1]) == ("no", "say more")
    assert [run.agent for run in bp.runs("t")] == ["planner", "worker", "reflection"]


def test_a_role_whose_limit_of_steps_leaves_no_second_reply_fails_its_subtask():
    _, reply, role = searcher(searches=0)
    bp = Blueprint(
        Parts([plan(("worker", "work", "a.md"))], [ask()], reply), [*STOCK_ROLES, role], limits=Limits(steps=1)
    )
    bp.run_sync("g", "t")
    assert outcomes(bp) == [("a.md", "failed", "it reached its limit of steps")]


def test_an_empty_reply_does_not_hide_behind_the_one_that_was_refused_before_it():
    _, reply, role = searcher(searches=0, good="")
    parts = Parts([plan(("worker", "work", "a.md"))], [ask()], reply)
    bp = Blueprint(parts, [*STOCK_ROLES, role])
    bp.run_sync("g", "t")
    assert outcomes(bp)[0][2] == "its reply was refused 2 times (ArtifactViolation)"


async def test_a_finished_run_is_read_from_the_log_when_its_call_is_started_again():
    """The wave waits for a person in one subtask, and is started again with the decision."""
    asked_for = []

    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    def reply(request):
        if "bank" in request.system:
            return "paid it" if request.messages[-1].role == "tool" else ToolCall("pay", {"amount": 5})
        asked_for.append(request)
        return "x" if len(asked_for) == 1 else "long enough"

    roles = [
        *STOCK_ROLES,
        Role("worker", "You are a worker.", validate=too_short),
        Role("bank", "You are a bank.", [pay], interrupt_on={"pay": True}),
    ]
    parts = Parts([plan(("worker", "work", "a.md"), ("bank", "pay", "b.md"))], [end("{{a.md}} {{b.md}}")], reply)
    store = MemoryCheckpointer()
    turn = await Blueprint(parts, roles, checkpointer=store).run("g", "t")
    assert turn.status == "paused"
    again = Blueprint(parts, roles, checkpointer=store)  # Which has nothing in memory.
    turn = await again.resume("t", {turn.interrupts[0].call_id: Approve()})
    assert (turn.text, len(asked_for)) == ("long enough paid it", 2)


async def test_a_thread_in_which_each_try_was_a_run_of_its_own_goes_on_with_the_second():
    """It was paused by an earlier version: the second try of a role waits for a person."""
    rows = {key: bytes.fromhex(value) for key, value in json.loads(OLD.read_text()).items()}
    store, paid = MemoryCheckpointer(), []
    plain(store).append("t", None, rows.pop(head_key("t")), rows)

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    (wait,) = reader(store).get_state("t").interrupts
    assert wait.path[0].endswith("-again-1")
    role = Role("worker", "You are a worker.", [pay], validate=too_short, interrupt_on={"pay": True})
    parts = Parts([], [end("{{a.md}}")], lambda request: f"I {request.messages[-1].text} it")
    turn = await Blueprint(parts, [*STOCK_ROLES, role], checkpointer=store).resume("t", {wait.call_id: Approve()})
    assert (turn.status, turn.text, paid, len(parts.delegated)) == ("ended", "I paid it", [5], 1)
    assert "## Your last reply\nno\n" in asked(parts.delegated[0])
