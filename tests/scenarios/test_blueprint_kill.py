"""A blueprint may be killed at any moment: it leaves a whole thread, and another process finishes it.

    cd tests
    python -m scenarios.test_blueprint_kill questions [every=1]
    python -m scenarios.test_blueprint_kill appends [every=1]
    python -m scenarios.test_blueprint_kill random [threads=100] [seed]

The thread has two turns, with waves, a question to a person, a large artifact, and an artifact that is evicted and
restored. For each durability it is killed before and after each request to a model, before and after each append, or at
random moments, again and again. After each kill it must be a beginning of the thread that nobody disturbed. Then
another process continues and repeats nothing that was stored.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from random import Random

import pytest
from harness import killing
from harness.blueprints import (
    CODE,
    DEFECTS,
    Parts,
    ask,
    asked,
    end,
    is_planner,
    is_reflection,
    plan,
    replan,
    research,
    sections,
)
from harness.killing import THREAD, Life, expect
from msgspec import structs

from minideep import DiskCheckpointer, MemoryCheckpointer, UnknownThread
from minideep.blueprint import STOCK_ROLES, Blueprint
from minideep.checkpoint import open_store
from minideep.checkpoint.replay import read_consistently
from minideep.models import ScriptedModel

DURABILITIES = ("turn", "step", "tool")
PLANS = [
    plan(research("a.md", task="long"), ("code-writer", "b", "b.py"), research("c.md", task="c"),
         research("d.md", "a.md", "b.py", task="d")),
    plan(research("e.md", task="e"), ("critic", "f", "f.json", ["d.md"]), research("g.md", task="g")),
    plan(research("h.md", "a.md", "e.md", task="h")),
]  # fmt: skip

# ---- what is said


def said(request):
    """The reply of each part: a function of the request alone."""
    if is_planner(request):
        told = sections(request)
        return PLANS[2 if "The user said since" in told else 1 if "Current plan" in told else 0]
    if is_reflection(request):
        told = sections(request)
        if "The user said since" in told:
            return end("{{h.md}}, {{d.md}}")
        return replan() if "look 1" in told["Step"] else ask("which colour?")
    if "code writer" in request.system:
        return CODE
    task = asked(request)
    if "critic" in request.system:  # Asked again, it saves what the others of its wave have said meanwhile.
        return DEFECTS if len(request.messages) > 1 else "a typo"
    return task[-200:] if not task.endswith("long") else "long " * 40_000


def name_of(part, question):
    return f"{part}-{sha256(question.encode()).hexdigest()[:8]}"


def part_of(request):
    if is_planner(request) or is_reflection(request):
        return "planner" if is_planner(request) else "reflection"
    return next(role.name for role in STOCK_ROLES if role.prompt == request.system)


def worker(store, durability, diary, pause):
    async def say(request):
        name = name_of(part_of(request), asked(request))
        diary(f"model+ {name}")
        await asyncio.sleep(pause())
        diary(f"model- {name}")
        return said(request)

    return Blueprint(ScriptedModel(say), checkpointer=store, durability=durability)


async def live(agent):
    """Continue the thread, wherever it is, to the end of its second turn."""
    while True:
        try:
            status = agent.get_state(THREAD).status
        except UnknownThread:
            status = "unknown"
        if status == "ended":
            return
        turn = await {
            "unknown": lambda: agent.run("paint it", THREAD),
            "escalated": lambda: agent.run("blue", THREAD),
            "running": lambda: agent.resume(THREAD),
        }[status]()
        expect(turn.saved and turn.status in ("escalated", "ended"), f"a turn came back {turn.status}: {turn.error!r}")


def to_the_end(durability, seed, store, diary):
    random = Random(seed)
    with store(diary) as opened:
        asyncio.run(live(worker(opened, durability, diary, lambda: random.uniform(0, 0.002))))


# ---- what is left


def timeless(ledger):
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in ledger]


def what_is_whole():
    """The same as `left`, of a thread that nobody disturbs."""
    agent = worker(MemoryCheckpointer(), "turn", lambda _: None, lambda: 0)
    asyncio.run(live(agent))
    return left(agent)


def left(agent):
    """Board, texts, contents of all files ever written, and boundaries, without clocks."""
    board = agent.board(THREAD)
    files = {entry["file"]: agent.artifact(THREAD, entry["file"]) for entry in board.ledger if "file" in entry}
    texts = [message.text for message in agent.transcript(THREAD)]
    entries = {path: (entry.sha256, entry.written_at_step) for path, entry in board.files.items()}
    plain = structs.asdict(structs.replace(board, ledger=timeless(board.ledger), messages=[], files=entries))
    return plain, texts, files, [one.status for one in agent.history(THREAD)]


def examine(directory, whole):
    """Check that the thread is a beginning of the *whole*.

    Returns the names of the requests whose replies are stored, and whether the thread is at its end.
    """
    with DiskCheckpointer(directory) as store:
        agent = Blueprint(Parts([]), checkpointer=store)
        if not agent.threads():
            return set(), False
        read_consistently(open_store(store), THREAD, killing.without_holes)
        found = board, texts, files, boundaries = left(agent)
        last, all_texts, all_files, all_boundaries = whole
        expect(board["ledger"] == last["ledger"][: len(board["ledger"])], f"the ledger is {board['ledger']}")
        expect(timeless(map(json.loads, agent.trace(THREAD))) == board["ledger"], "the trace is not the ledger")
        expect(texts == all_texts[: len(texts)], f"it said {texts}")
        expect(boundaries == all_boundaries[: len(boundaries)], f"its boundaries are {boundaries}")
        expect(files.items() <= all_files.items(), f"files {[*files]} do not hold what they must")
        done = agent.get_state(THREAD).status == "ended"
        expect(not done or found == whole, "the thread is at its end, and not whole")
        return answered(agent), done


def answered(agent):
    """The names of the requests to models whose replies are stored."""
    runs = ((run.agent, agent.transcript(THREAD, run.path)) for run in agent.runs(THREAD))
    return {
        name_of(part, "\n".join(message.text for message in said[:place]))
        for part, said in runs
        for place, message in enumerate(said)
        if message.role == "assistant"
    }


# ---- lives and deaths


def one_life(folder, act, kill, stored, whole):
    """Continue the thread in a process until *kill* ends it. Returns what `examine` does."""
    life = Life(act)
    kill(life)
    ended = life.end()
    again = killing.begun(life.told, "model") & stored
    expect(not again, f"{again} were asked again, though their answers were stored")
    if not Path(folder, "state").exists():
        return set(), False
    copy = shutil.copytree(
        f"{folder}/state", f"{folder}/copy", ignore=shutil.ignore_patterns("live")
    )  # Whoever goes on finds what the kill left.
    stored, done = examine(copy, whole)
    shutil.rmtree(copy)
    expect(done or not ended, "a worker has ended before its thread")
    return stored, done


def one_thread(durability, whole, deaths=(), point=0):
    """Bring a thread to its end and return how many processes that took.

    *deaths* kill the first ones, in order, or the first one kills itself at its store's *point*; nobody kills the last.
    """
    lives, stored, done, deaths = 0, set(), False, iter(deaths)
    with tempfile.TemporaryDirectory() as folder:
        while not done:
            store = partial(killing.Fatal, f"{folder}/state", 0 if lives else point, True)
            act = partial(to_the_end, durability, lives, store)
            stored, done = one_life(folder, act, next(deaths, lambda life: None), stored, whole)
            lives += 1
    return lives


def at_question(number):
    """Return a kill after so many requests have begun or ended."""

    def kill(life):
        left = number
        while left and (line := life.listen()):
            left -= line.startswith("model")
        if not left:
            life.kill()

    return kill


def questions(every=1):
    """Kill before and after each request to a model."""
    whole = what_is_whole()
    for durability in DURABILITIES:
        numbers = range(1, 100, every)
        reached = next(n for n in numbers if one_thread(durability, whole, [at_question(n)]) == 1)
        print(f"{durability:8} killed at moments 1 to {reached - 1}, every {every}")


def appends(every=1):
    """Kill before and after each append."""
    whole = what_is_whole()
    for durability in DURABILITIES:
        for point in count(1, every):
            if one_thread(durability, whole, point=point) == 1:
                break
        print(f"{durability:8} killed at points 1 to {point}, every {every}")


def at_random(threads=100, seed=None):
    """Kill at random moments, each thread several times."""
    random, whole = Random(seed or time.time_ns()), what_is_whole()
    for durability in DURABILITIES:
        lives = 0
        for _ in range(-(-threads // len(DURABILITIES))):
            deaths = [partial(after, random.uniform(0, 0.06)) for _ in range(random.randint(1, 4))]
            lives += one_thread(durability, whole, deaths)
        print(f"{durability:8} {lives} lives")


def after(seconds, life):
    life.listen()
    time.sleep(seconds)
    life.kill()


@pytest.mark.parametrize("what", [("questions", "9"), ("appends", "24"), ("random", "4")], ids=lambda what: what[0])
def test_a_killed_blueprint_leaves_a_whole_beginning_and_another_process_repeats_nothing_that_was_stored(what):
    done = subprocess.run(
        [sys.executable, "-m", "scenarios.test_blueprint_kill", *what],
        cwd=Path(__file__).parents[1], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    {"questions": questions, "appends": appends, "random": at_random}[sys.argv[1]](*map(int, sys.argv[2:]))
