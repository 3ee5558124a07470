"""Whole lives of threads: after any operations in any order, what was saved is stored, and nothing else."""

import asyncio
import contextlib
from collections import defaultdict

import pytest
from harness.histories import TURNS, agent_on, ask_back, cut, fail, join_all, task as delegate, whole
from harness.stores import FaultyStore, plain
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    CheckpointError,
    ConfigError,
    DiskCheckpointer,
    Edit,
    HistoryCut,
    Limits,
    MemoryCheckpointer,
    Reject,
    Respond,
    ThreadBusy,
    ThreadConflict,
    ToolCall,
    ToolContext,
    UnknownThread,
    tool,
)
from minideep.checkpoint import layout as names, open_store
from minideep.events import FileWritten, Noted, ToolReturned
from minideep.ports import Retention

LIVES, LENGTH = 25, 16
"""The number of lives in a run of the tests, and the most operations of each; 5,000 lives of 40 are a long campaign."""

KINDS = TURNS | {
    "hush": [ToolCall("write_file", {"file_path": "/h", "content": "hush " * 3000}),
             [ToolCall("edit_file", {"file_path": "/h", "old_string": "hush hush", "new_string": "b", "replace_all": True}),
              ToolCall("ping", {"text": "hush " * 40})], "ok"],
    "grow": [ToolCall("edit_file", {"file_path": "/large", "old_string": "large large", "new_string": "l", "replace_all": True}),
             "ok"],
    "many": [[ToolCall("pay"), delegate("payer"), delegate("helper"), ToolCall("pay")], [delegate("payer")], "ok"],
    "long": [ToolCall("ping")] * 6,
    "nested fail": [[delegate("forgetful"), ToolCall("fail")], "ok"],
}  # fmt: skip


def hushed(event):
    """Return the event with every `hush` redacted."""
    if isinstance(event, ToolReturned):
        return structs.replace(event, content=masked(event.content)) if isinstance(event.content, str) else event
    if isinstance(event, FileWritten) and isinstance(event.content, str):
        return structs.replace(event, content=masked(event.content))
    return event


def masked(text):
    return text.replace("hush", "----")


def told(messages):
    """Messages as they can be compared: what closes the calls of a turn that a person went past is told by no turn."""
    kept = []
    for message in messages:
        while message.role == "user" and kept and kept[-1].role == "tool":
            kept.pop()
        kept.append(message)
    return [masked(str(message)) for message in kept]


class Known:
    """The part of a thread that must never change."""

    def __init__(self):
        self.said, self.ends, self.seen = [], {}, {}
        self.first, self.settled, self.sure = 1, 0, True
        """The number of messages that saved turns returned, and whether these are all."""

    def until(self, at):
        """Return the part that a fork at this boundary must have."""
        known = Known()
        known.said = self.said[: self.ends[at]]
        known.ends = {n: end for n, end in self.ends.items() if n <= at}
        known.seen = {n: seen for n, seen in self.seen.items() if n <= at}
        known.first, known.settled = self.first, len(known.said)
        return known


class Life:
    """Two agents on two stores, and three threads."""

    def __init__(self, make):
        self.healthy = [make(0), make(1)]
        self.stores = [FaultyStore(store) for store in self.healthy]
        self.on, self.known, self.faults, self.now = [0, 0], {}, [], (0, "")
        self.loose = defaultdict(list)  # What an agent holds of a thread that is not saved.
        self.redacted = False
        self.agents = [self.agent("turn"), self.agent("turn")]

    def agent(self, durability, redact=None, on=0):
        @tool
        async def ping(text: str = "pong") -> str:
            await asyncio.sleep(0)
            return text

        @tool
        async def pay(ctx: ToolContext, amount: int = 1) -> str:
            self.audit(ctx)
            await asyncio.sleep(0)
            ctx.record(Noted("ledger", "paid", ctx.call_id, "append"))
            return f"paid {amount}"

        return agent_on(
            self.stores[on],
            [ping, ask_back, pay, fail],
            KINDS,
            durability=durability,
            redact=redact,
            limits=Limits(steps=4),
        )

    def audit(self, ctx):
        """A call that is run was let run, the store knows that it begins, and does not know what it returned."""
        state = self.auditor(self.now).get_state(self.now[1], subagents=True)
        for step in ctx.path:
            state = state.subagents[step]
        entry = state.open.get(ctx.call_id)
        if entry is None or not entry.started or entry.result is not None:
            self.faults.append(("ran", ctx.path, ctx.call_id, entry))

    def auditor(self, key):
        return Agent("offline:", checkpointer=self.healthy[key[0]])

    async def do(self, deed, who, thread, *args):
        self.now = (self.on[who], thread)
        await getattr(self, deed)(who, self.now, *args)
        assert self.faults == []
        for store in self.stores:
            store.close()  # What is done behind the answer's back is done.
        for key in list(self.known):
            self.look(key)

    # ---- deeds

    async def run(self, who, key, kind, fault, cancel):
        turn = await self.turn(who, key, lambda agent: agent.run(kind, key[1]), fault, cancel)
        if turn is not None:
            self.account(who, key, turn)

    async def resume(self, who, key, answers, fault, cancel):
        try:
            state = self.auditor(key).get_state(key[1])
        except UnknownThread:
            state = None
        waits = state.interrupts if state and state.status == "paused" else ()
        before = None if state is None else (state.status, len(self.known[key].said), bool(self.loose.get((who, key))))
        decisions = {"/".join((*wait.path, wait.call_id)): answer for wait, answer in zip(waits, answers, strict=False)}
        turn = await self.turn(who, key, lambda agent: agent.resume(key[1], decisions), fault, cancel)
        if turn is None:
            return
        if before and before[0] in ("ended", "escalated", "paused") and not decisions and not before[2]:
            self.stores[key[0]].close()
            known = self.known[key]
            assert self.first(key) != known.first or len(self.auditor(key).transcript(key[1])) == before[1]
        else:
            self.known[key].sure = False  # A reply that nobody got is told again.
            self.account(who, key, turn)

    async def turn(self, who, key, start, fault, cancel):
        """The turn, or None; whatever is raised has a reason."""
        store, loose = self.stores[key[0]], bool(self.loose.get((who, key)))
        known = self.known.setdefault(key, Known())
        if fault:
            store.fail(fault[0], fault[1], fault[2])
        task = asyncio.ensure_future(start(self.agents[who]))
        if cancel is not None:
            for _ in range(cancel):
                await asyncio.sleep(0)
            task.cancel()
        turn = error = None
        try:
            turn = await task
        except (asyncio.CancelledError, CheckpointError, ThreadConflict, UnknownThread, ConfigError) as exc:
            error = exc
        failed = store.heal() if fault else False
        if isinstance(error, asyncio.CancelledError):
            assert cancel is not None
            known.sure = False
            self.loose[who, key].append(None)
        elif isinstance(error, ThreadConflict):
            assert loose or failed, error
            self.loose.pop((who, key), None)
        elif isinstance(error, UnknownThread):
            assert not known.said, error
        elif isinstance(error, ConfigError):
            assert loose, error  # What this agent has of the thread waits for something else.
        elif isinstance(error, CheckpointError):
            assert failed, error
            known.sure = False
        else:
            assert turn.saved or failed or (loose and isinstance(turn.error, ThreadConflict)), turn.error
            assert turn.status != "failed" or turn.error is not None
        return turn

    def account(self, who, key, turn):
        """A saved turn says what is new in the store, together with what this agent could not save before."""
        known = self.known[key]
        if self.loose.get((1 - who, key)):  # Of which the store may have a part.
            known.sure = False
        if not turn.saved:
            self.loose[who, key].append(turn.messages)
            if isinstance(turn.error, ThreadConflict):
                self.loose.pop((who, key))
            known.sure = known.sure and turn.error is not None and (who, key) in self.loose
            return
        loose = self.loose.pop((who, key), [])
        self.stores[key[0]].close()
        said, mine = self.auditor(key).transcript(key[1]), told(turn.messages)
        if self.first(key) != known.first:
            known.sure = False
        elif known.sure and None not in loose:
            told_now = [message for messages in loose for message in messages]
            assert told(said[known.settled :]) == told([*told_now, *turn.messages])
        else:
            both = min(len(mine), len(told(said)))
            assert not both or told(said)[-both:] == mine[-both:]
        for other in (0, 1):
            if other != who and self.loose.get((other, key)):
                self.loose[other, key].append(None)
        state = self.auditor(key).get_state(key[1], subagents=True)
        assert state.status == turn.status
        live = self.agents[who]._turns._kept[open_store(self.stores[key[0]]), key[1]].root
        if not self.redacted:
            ours, theirs = (whole(one, self.healthy[key[0]]) for one in (live, state))
            assert {**ours, "subagents": 0} == {**theirs, "subagents": 0}
        known.settled, known.sure = -1, True

    def first(self, key):
        """The first boundary that retention has left."""
        head = plain(self.healthy[key[0]]).head(key[1])
        cut = names.read_head(key[1], head).truncation if head else None
        return cut.turn if cut else 1

    async def together(self, who, key, kinds, target, ticks, wait):
        """Both agents at once, and whatever else may be done to a thread that is being run."""
        if any(self.loose.get((one, key)) for one in (0, 1)) or self.on[0] != self.on[1]:
            return
        self.known.setdefault(key, Known()).sure = False
        first = asyncio.ensure_future(self.agents[who].run(kinds[0], key[1]))
        for _ in range(ticks):
            await asyncio.sleep(0)
        second = asyncio.ensure_future(self.agents[1 - who].run(kinds[1], key[1], wait=wait))
        await asyncio.sleep(0)
        with contextlib.suppress(UnknownThread, ConfigError):
            self.agents[who].fork(key[1], thread_id=target)
            self.known[key[0], target] = Known()
            self.known[key[0], target].first = self.first((key[0], target))
            self.known[key[0], target].sure = False
        if not first.done() and ticks > 2 and plain(self.healthy[key[0]]).head(key[1]) is not None:
            with pytest.raises(ThreadBusy):
                self.agents[1 - who].delete(key[1])
        turns = await asyncio.gather(first, second, return_exceptions=True)
        assert [turn.saved for turn in turns if not isinstance(turn, ThreadBusy)] == [True] * (1 + wait) or not wait
        assert any(not isinstance(turn, ThreadBusy) for turn in turns)

    async def save(self, who, key):
        loose = (who, key) in self.loose
        try:
            await self.agents[who].save(key[1])
        except ThreadConflict:
            assert loose
        except UnknownThread:
            assert key not in self.known or not self.known[key].said
        if loose:
            self.known.setdefault(key, Known()).sure = False
            del self.loose[who, key]

    async def fork(self, who, key, target, part):
        known, there = self.known.get(key, Known()), (key[0], target)
        at = sorted(known.ends)[int(part * len(known.ends))] if known.ends else 1
        try:
            self.agents[who].fork(key[1], at=at, thread_id=target)
        except UnknownThread:
            assert not known.said
        except ConfigError:
            assert there in self.known or not known.seen
        else:
            self.known[there] = known.until(at)

    async def delete(self, who, key):
        there = plain(self.healthy[key[0]]).head(key[1]) is not None
        try:
            self.agents[who].delete(key[1])
        except UnknownThread:
            assert not there
        else:
            self.loose.pop((who, key), None)
        self.known.pop(key, None)
        for (_, one), messages in self.loose.items():
            if one == key:
                messages.append(None)

    async def keep(self, who, key, boundaries, now):
        for store in (*self.healthy, *self.stores):
            store.retention = Retention(boundaries=boundaries)
        if now:
            cut(self.healthy[key[0]], boundaries, key[1])

    async def join(self, who, key):
        join_all(self.healthy[key[0]], key[1])

    async def restart(self, who, key, durability, redact):
        """Another process, which has nothing but the store."""
        self.redacted |= redact
        self.agents[who] = self.agent(durability, hushed if redact else None, self.on[who])
        for one in [one for one in self.loose if one[0] == who]:
            del self.loose[one]
            if one[1] in self.known:
                self.known[one[1]].sure = False

    async def change(self, who, key, durability, redact):
        self.redacted |= redact
        self.agents[who].durability, self.agents[who].redact = durability, hushed if redact else None

    async def swap(self, who, key):
        self.on[who] = 1 - self.on[who]
        self.agents[who].checkpointer = self.stores[self.on[who]]

    # ---- what must be so, always

    def look(self, key):
        known, store, agent = self.known[key], self.healthy[key[0]], self.auditor(key)
        if plain(store).head(key[1]) is None:
            assert not known.said
            return
        said, first = [str(message) for message in agent.transcript(key[1])], self.first(key)
        if first != known.first:
            self.cut(key, said, first)
        assert said[: len(known.said)] == known.said
        lines = [line.at for line in agent.history(key[1])]
        assert lines == list(range(first, first + len(lines)))
        assert set(known.seen) <= set(lines)
        for at, seen in known.seen.items():
            now = whole(agent.get_state(key[1], at=at, subagents=True), store)
            assert {**now, "subagents": 0} == {**seen, "subagents": 0}
            assert now["subagents"].items() <= seen["subagents"].items()
            assert first > 1 or now == seen
        known.said = said
        for at in [at for at in lines if at not in known.seen]:
            state, now = agent.get_state(key[1], at=at, subagents=True), agent.get_state(key[1])
            if state.status == "escalated" and state.open and at == lines[-1]:
                continue  # The calls beside the one that asked still belong to it.
            known.seen[at] = whole(state, store)
            if now.turn == at and now.status != "running":
                known.ends[at] = len(said)
        if known.settled < 0:
            known.settled = len(said)
        agent.runs(key[1]), agent.export(key[1])

    def cut(self, key, said, first):
        """Forget what retention removed from a thread that begins with a later boundary now."""
        known, agent = self.known[key], self.auditor(key)
        for at in [at for at in known.seen if at < first]:
            with pytest.raises(HistoryCut):
                agent.get_state(key[1], at=at)
            del known.seen[at]
        known.first = first
        if first not in known.ends:  # It came and became the first at once.
            known.said, known.ends, known.settled, known.sure = [], {}, 0, False
            return
        end = len(agent.get_state(key[1], at=first).messages)
        shift = end - known.ends[first]
        known.said = said[:end] + known.said[known.ends[first] :]
        known.ends = {at: length + shift for at, length in known.ends.items() if at >= first}
        known.sure, known.settled = known.sure and known.settled + shift >= end, max(0, known.settled + shift)

    def over(self):
        for number, store in enumerate(self.healthy):
            store.retention = Retention()
            assert store.verify() == []
            blobs = {key.split("/")[1] for key in plain(store).keys("blob/", "blob0")}
            assert blobs == {key.split("/")[1] for key in plain(store).keys("ref/", "ref0")}
            for info in self.auditor((number, "")).threads():
                self.auditor((number, "")).delete(info.thread_id)
            store.close()
            assert plain(store).keys("", "\x7f") == []


WHO, THREAD = st.sampled_from([0, 1]), st.sampled_from("aaabc")
FAULT = (
    st.none()
    | st.none()
    | st.none()
    | st.tuples(st.integers(1, 14), st.sampled_from([OSError, TimeoutError]), st.booleans())
)
CANCEL = st.none() | st.none() | st.none() | st.integers(0, 60)
ANSWERS = st.lists(st.sampled_from([Approve(), Edit({"amount": 7}), Reject("no"), Respond("paid")]), max_size=4)
DURABILITY = st.sampled_from(["turn", "step", "tool"])


def deed(name, *args):
    return st.tuples(st.just(name), WHO, THREAD, *args)


KIND = st.sampled_from([*sorted(KINDS), "large", "large", "grow", "compact", "payer", "many", "forgetful"])
RUN = deed("run", KIND, FAULT, CANCEL)
RESUME = deed("resume", ANSWERS, FAULT, CANCEL)
DEEDS = st.one_of(
    RUN, RUN, RUN, RUN, RESUME, RESUME, RESUME, deed("save"), deed("fork", THREAD, st.floats(0, 0.99)),
    deed("delete"), deed("keep", st.none() | st.integers(1, 4), st.booleans()), deed("join"),
    deed("together", st.tuples(KIND, KIND), THREAD, st.integers(0, 40), st.booleans()),
    deed("restart", DURABILITY, st.booleans()), deed("change", DURABILITY, st.booleans()), deed("swap"),
)  # fmt: skip


async def lived(make, deeds):
    life = Life(make)
    try:
        for one in deeds:
            await life.do(*one)
        life.over()
    finally:
        for store in life.stores:
            store.close()


@settings(max_examples=LIVES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(DEEDS, min_size=1, max_size=LENGTH))
def test_after_any_operations_what_was_saved_is_stored_and_nothing_else(deeds):
    asyncio.run(lived(lambda n: MemoryCheckpointer(), deeds))


@settings(max_examples=LIVES // 10, deadline=None, suppress_health_check=list(HealthCheck))
@given(deeds=st.lists(DEEDS, min_size=1, max_size=LENGTH))
def test_after_any_operations_on_a_disk_what_was_saved_is_stored_and_nothing_else(tmp_path_factory, deeds):
    folder = tmp_path_factory.mktemp("life")
    asyncio.run(lived(lambda n: DiskCheckpointer(folder / str(n)), deeds))
