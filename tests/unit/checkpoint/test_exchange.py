"""Questions to the process that runs a turn: real sockets, real processes, some of them killed."""

import asyncio
import contextlib
import gc
import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from harness.processes import TESTS, python

from minideep import Agent, DiskCheckpointer, MemoryCheckpointer
from minideep.models import ScriptedModel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")
if sys.platform != "win32":
    from minideep.checkpoint.addresses import LOOKED_AT, MAX_PATH, link_name
    from minideep.checkpoint.exchange import MAX_ANSWER, MAX_QUESTION, SocketExchange
    from minideep.checkpoint.frames import END, SIZE

RUNNER = """
import asyncio, os, sys
from minideep.checkpoint.exchange import SocketExchange

async def answer(question):
    yield str(os.getpid()).encode()
    if question == b"wait":
        await asyncio.Event().wait()

async def main():
    exchange = SocketExchange(sys.argv[1])
    for thread in sys.argv[2:]:
        exchange.announce(thread, answer)
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Runner:
    """Another process that runs turns, and answers with its number."""

    def __init__(self, folder, *threads, code=RUNNER):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder), *threads],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=env,
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"
        self.name = str(self.process.pid).encode()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.kill()

    def kill(self):
        self.process.kill()
        if not self.process.stdout.closed:
            self.process.communicate()


async def echo(question):
    yield question


async def asked(exchange, thread="t", question=b"?"):
    """Every answer; None if nobody is there."""
    answers = exchange.ask(thread, question)
    return None if answers is None else [answer async for answer in answers]


def links(folder):
    return sorted(path.name for path in Path(folder, "live").glob("*") if path.is_symlink())


def sockets(folder):
    return sorted(path.name for path in Path(folder, "live").glob("*") if path.is_socket() and not path.is_symlink())


def descriptors():
    return len(list(Path("/dev/fd").iterdir()))


async def until(condition):
    """Let the other tasks go on until something holds; a test that waits in vain is ended by pytest's own limit."""
    while not condition():
        await asyncio.sleep(0.001)


# ---- asking


async def test_a_question_is_answered_by_the_process_that_announced_the_thread(tmp_path):
    exchange = SocketExchange(str(tmp_path))
    with Runner(tmp_path, "t", "u") as one, Runner(tmp_path, "v") as other:
        assert [await asked(exchange, thread) for thread in "tuvw"] == [[one.name], [one.name], [other.name], None]


async def test_answers_come_in_order_and_whole_whatever_their_size(tmp_path):
    async def answer(question):
        for size in (0, 1, 300_000, 2_000_000, 3):
            yield bytes([size % 251]) * size
        yield question

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    question = os.urandom(MAX_QUESTION)
    found = await asked(exchange, "t", question)
    assert [len(one) for one in found] == [0, 1, 300_000, 2_000_000, 3, MAX_QUESTION]
    assert found[-1] == question
    assert found[3] == bytes([2_000_000 % 251]) * 2_000_000


async def test_nobody_answers_for_a_turn_that_has_ended(tmp_path):
    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", echo)
    answers = exchange.ask("t", b"?")
    exchange.withdraw("t")
    exchange.withdraw("t")
    assert [answer async for answer in answers] == []  # It came too late, and ends.
    assert await asked(exchange) is None
    assert links(tmp_path) == []


async def test_answers_under_way_go_on_when_the_turn_ends(tmp_path):
    go = asyncio.Event()

    async def answer(question):
        yield b"1"
        await go.wait()
        yield b"2"

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    answers = exchange.ask("t", b"?")
    assert await anext(answers) == b"1"
    exchange.withdraw("t")
    go.set()
    assert [one async for one in answers] == [b"2"]


async def test_threads_of_any_name_are_found(tmp_path):
    exchange = SocketExchange(str(tmp_path))
    names = ["", ".", "../t", "a/b", "ä\x00😀", "x" * 100_000, "X" * 100_000]
    for name in names:
        exchange.announce(name, echo)
    assert [await asked(exchange, name, name.encode()) for name in names] == [[name.encode()] for name in names]
    for name in names:
        exchange.withdraw(name)
    assert links(tmp_path) == []


async def test_a_wait_for_an_answer_that_was_cancelled_can_be_repeated(tmp_path):
    go = asyncio.Event()

    async def answer(question):
        for number in range(5):
            await go.wait()
            go.clear()
            yield bytes([number]) * 500_000

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    answers, found = exchange.ask("t", b"?"), []
    while len(found) < 5:
        waiting = asyncio.ensure_future(anext(answers))
        for turns in range(40):
            if waiting.done():
                break
            await asyncio.sleep(0)
            if turns == 20:
                go.set()
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            found.append(await waiting)
    assert [(one[0], len(one)) for one in found] == [(number, 500_000) for number in range(5)]
    await answers.aclose()


async def test_another_task_may_end_the_wait_for_an_answer(tmp_path):
    async def answer(question):
        yield b"1"
        await asyncio.Event().wait()

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    answers = exchange.ask("t", b"?")
    assert await anext(answers) == b"1"
    waiting = asyncio.ensure_future(anext(answers, None))
    await asyncio.sleep(0.01)
    await answers.aclose()
    for _ in range(10):
        await asyncio.sleep(0)
    assert waiting.done()
    assert await waiting is None
    assert await anext(answers, None) is None


async def test_hundreds_of_askers_at_once_are_all_answered(tmp_path):
    exchange = SocketExchange(str(tmp_path))
    with Runner(tmp_path, "t") as runner:
        found = await asyncio.gather(*(asked(exchange) for _ in range(400)))
        assert found == [[runner.name]] * 400


async def test_a_runner_whose_backlog_is_full_is_waited_for_and_not_taken_for_dead(tmp_path):
    exchange = SocketExchange(str(tmp_path))
    exchange.announce("u", echo)
    with socket.socket(socket.AF_UNIX) as busy, contextlib.ExitStack() as crowd:
        busy.bind(str(tmp_path / "live" / "busy"))
        busy.listen(0)
        (tmp_path / "live" / link_name("t")).symlink_to("busy")
        with contextlib.suppress(BlockingIOError):
            while True:
                one = crowd.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(str(tmp_path / "live" / "busy"))
        answers = exchange.ask("t", b"?")
        waiting = asyncio.ensure_future(anext(answers, "the end"))
        await asyncio.sleep(0.03)
        busy.setblocking(False)
        taken = []
        while not waiting.done():
            with contextlib.suppress(BlockingIOError):
                taken.append(crowd.enter_context(busy.accept()[0]))
                with contextlib.suppress(OSError):
                    taken[-1].sendall(END)
            await asyncio.sleep(0.001)
        assert await waiting == "the end"


def test_a_question_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at most 1,048,576"):
        SocketExchange(str(tmp_path)).ask("t", bytes(MAX_QUESTION + 1))


# ---- the runner is not disturbed


async def test_a_follower_that_does_not_read_stops_its_answers_and_nobody_elses(tmp_path):
    made = []

    async def answer(question):
        for number in range(1000):
            made.append(number)
            yield bytes(10_000)

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    exchange.announce("u", echo)
    slow = exchange.ask("t", b"?")
    await until(lambda: made)
    assert await asked(exchange, "u", b"hello") == [b"hello"]
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(made) < 200
    assert len([one async for one in slow]) == 1000


async def test_a_follower_that_leaves_ends_an_answer_that_waits_for_something(tmp_path):
    ended = []

    async def answer(question):
        try:
            yield b"1"
            await asyncio.Event().wait()
        finally:
            ended.append(question)

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    answers = exchange.ask("t", b"closed")
    await anext(answers)
    await answers.aclose()
    await until(lambda: ended)
    answers = exchange.ask("t", b"dropped")
    await anext(answers)
    del answers
    await until(lambda: len(ended) == 2)
    assert ended == [b"closed", b"dropped"]


async def test_a_follower_that_leaves_ends_an_answer_that_waits_for_room(tmp_path):
    ended = []

    async def answer(question):
        try:
            while True:
                yield bytes(100_000)
        finally:
            ended.append(True)

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    answers = exchange.ask("t", b"?")
    await anext(answers)
    await answers.aclose()
    await until(lambda: ended)


async def test_answers_that_never_wait_leave_the_loop_to_others(tmp_path):
    async def answer(question):
        for _ in range(10_000):
            yield b"."

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(other())
    assert len(await asked(exchange)) == 10_000
    beside.cancel()
    assert turns > 100


async def test_an_answer_that_fails_is_logged_and_cuts_its_connection_only(tmp_path, caplog):
    async def answer(question):
        if question == b"fail":
            yield b"1"
            raise KeyError("oops")
        yield bytes(MAX_ANSWER + 1) if question == b"long" else b"fine"

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    for question, problem in {b"fail": "oops", b"long": "too long"}.items():
        caplog.clear()
        with pytest.raises(ConnectionError):
            await asked(exchange, "t", question)
        assert problem in caplog.text
    assert await asked(exchange) == [b"fine"]


async def test_what_an_answer_raises_before_its_first_item_is_logged_too(tmp_path, caplog):
    def answer(question):
        raise RuntimeError("at once")

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    with pytest.raises(ConnectionError):
        await asked(exchange)
    assert "at once" in caplog.text


async def test_an_answer_that_is_cancelled_from_within_cuts_nobody_else(tmp_path):
    async def answer(question):
        yield b"1"
        if question == b"cancelled":
            raise asyncio.CancelledError
        await go.wait()
        yield b"2"

    go = asyncio.Event()
    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    other = exchange.ask("t", b"?")
    assert await anext(other) == b"1"
    with pytest.raises(ConnectionError):
        await asked(exchange, "t", b"cancelled")
    go.set()
    assert await anext(other) == b"2"
    assert await asked(exchange) == [b"1", b"2"]
    await other.aclose()


async def test_strangers_that_send_nonsense_or_nothing_are_cut_off(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "minideep")
    exchange = SocketExchange(str(tmp_path), question_seconds=0.05)
    exchange.announce("t", echo)
    (name,) = sockets(tmp_path)
    whole = SIZE.pack(17) + bytes.fromhex(link_name("t")) + b"?"
    sent = {
        "nothing": b"", "a byte": b"x", "half": whole[:-1], "no digest": SIZE.pack(3) + b"abc",
        "too long": SIZE.pack(2**31) + b"x" * 1000, "the end": END, "text": b"GET / HTTP/1.1\r\n\r\n",
    }  # fmt: skip
    for kind, data in sent.items():
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "live" / name))
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() in (b"", END), kind
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert await asked(exchange) == [b"?"]
    assert not caplog.records


async def test_a_stranger_that_goes_on_talking_after_its_question_is_cut_off(tmp_path):
    ended = []

    async def answer(question):
        try:
            yield b"1"
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", answer)
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "live" / sockets(tmp_path)[0]))
    writer.write(SIZE.pack(17) + bytes.fromhex(link_name("t")) + b"?")
    assert await reader.readexactly(5) == SIZE.pack(1) + b"1"
    writer.write(b"more")
    await until(lambda: ended)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def test_a_full_table_of_descriptors_delays_questions_and_does_not_spin_the_loop(tmp_path):
    pytest.importorskip("resource")
    code = """
        import asyncio, logging, os, resource, sys
        from minideep.checkpoint.exchange import SocketExchange

        warnings = []
        logging.getLogger("minideep").addFilter(lambda record: warnings.append(record.getMessage()))

        async def echo(question):
            yield question

        async def main():
            exchange = SocketExchange(sys.argv[1])
            exchange.announce("t", echo)
            answers = exchange.ask("t", b"hello")
            full = os.open("/dev/null", os.O_RDONLY)
            most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (full + 1, most[1]))
            turns = 0
            while not warnings:
                await asyncio.sleep(0)
            for _ in range(1000):
                await asyncio.sleep(0)
            try:
                exchange.ask("t", b"hello")
            except OSError as exc:
                print(exc.errno)
            print(len(warnings), "Too many open files" in warnings[0])
            resource.setrlimit(resource.RLIMIT_NOFILE, most)
            print([answer async for answer in answers])

        asyncio.run(main())
    """
    assert python(code, tmp_path) == "24\n1 True\n[b'hello']\n"


# ---- processes that end


async def test_a_killed_runner_cuts_its_answers_and_its_files_are_removed(tmp_path):
    exchange = SocketExchange(str(tmp_path))
    with Runner(tmp_path, "t", "u") as runner:
        answers = exchange.ask("t", b"wait")
        assert await anext(answers) == runner.name
        runner.kill()
        with pytest.raises(ConnectionError, match="ended"):
            await anext(answers)
        assert await anext(answers, "nothing more") == "nothing more"
    assert len(links(tmp_path)) == 2
    assert len(sockets(tmp_path)) == 1
    assert exchange.ask("t", b"?") is None
    assert links(tmp_path) == [link_name("u")]
    assert sockets(tmp_path) == []
    assert exchange.ask("u", b"?") is None
    assert links(tmp_path) == []


async def test_the_next_runner_replaces_the_link_of_a_killed_one(tmp_path):
    exchange = SocketExchange(str(tmp_path))
    with Runner(tmp_path, "t") as killed:
        killed.kill()
        with Runner(tmp_path, "t") as runner:
            assert await asked(exchange) == [runner.name]


async def test_who_withdraws_late_leaves_the_link_of_the_next_runner(tmp_path):
    late, exchange = SocketExchange(str(tmp_path)), SocketExchange(str(tmp_path))
    late.announce("t", echo)
    with Runner(tmp_path, "t") as runner:
        late.withdraw("t")
        assert await asked(exchange) == [runner.name]


async def test_askers_that_remove_links_of_the_dead_never_remove_one_that_was_replaced_meanwhile(tmp_path):
    exchange, stop = SocketExchange(str(tmp_path)), threading.Event()

    def ask_all_the_time():
        mine = SocketExchange(str(tmp_path))
        while not stop.is_set():
            mine.ask("t", b"?")  # Dropped, and so closed.

    exchange.announce("u", echo)
    askers = [threading.Thread(target=ask_all_the_time) for _ in range(2)]
    for asker in askers:
        asker.start()
    try:
        for number in range(50):
            dead = tmp_path / "live" / f"dead{number}"
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(dead))
            link = tmp_path / "live" / link_name("t")
            with contextlib.suppress(FileExistsError):
                link.symlink_to(dead.name)
            exchange.announce("t", echo)
            await asyncio.sleep(0.0005)
            assert link.is_symlink()
            exchange.withdraw("t")
    finally:
        stop.set()
        for asker in askers:
            asker.join()


def test_files_of_dead_processes_are_removed_when_a_socket_is_opened(tmp_path):
    live = tmp_path / "live"
    live.mkdir(mode=0o700)
    for number in range(5):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(live / f"dead{number}"))
        (live / f"link{number}").symlink_to(f"dead{number}")
        if number:
            os.utime(live / f"dead{number}", (time.time() - 3600,) * 2)
    (live / "elsewhere").symlink_to("/nowhere/socket")

    async def main():
        SocketExchange(str(tmp_path)).announce("t", echo)
        assert set(links(tmp_path)) == {"link0", "elsewhere", link_name("t")}
        assert "dead0" in sockets(tmp_path)  # So young that it may be about to listen.
        assert len(sockets(tmp_path)) == 2

    asyncio.run(main())


def test_opening_a_socket_looks_at_a_bounded_number_of_files(tmp_path):
    live = tmp_path / "live"
    live.mkdir(mode=0o700)
    for number in range(LOOKED_AT + 50):
        (live / f"link{number}").symlink_to("gone")

    async def main():
        SocketExchange(str(tmp_path)).announce("t", echo)
        assert 50 <= len(links(tmp_path)) <= 52

    asyncio.run(main())


# ---- event loops


def test_turns_need_no_descriptors_of_their_own_and_a_loop_opens_one_socket(tmp_path):
    exchange = SocketExchange(str(tmp_path))

    async def turn(number, go):
        exchange.announce(str(number), echo)
        await go.wait()
        exchange.withdraw(str(number))

    async def main():
        before, go = descriptors(), asyncio.Event()
        async with asyncio.TaskGroup() as turns:
            for number in range(1000):
                turns.create_task(turn(number, go))
            await until(lambda: len(links(tmp_path)) == 1000)
            assert descriptors() - before == 2  # The socket and its folder.
            assert len(sockets(tmp_path)) == 1
            assert await asked(exchange, "999") == [b"?"]
            go.set()
        assert links(tmp_path) == []
        assert len(sockets(tmp_path)) == 1

    asyncio.run(main())
    assert sockets(tmp_path) == []


def test_two_loops_in_two_threads_answer_for_their_own_turns(tmp_path):
    exchange, gate = SocketExchange(str(tmp_path)), threading.Barrier(2)

    async def answer(question):
        yield threading.current_thread().name.encode()

    async def main(mine, other):
        exchange.announce(mine, answer)
        gate.wait()
        assert await asked(exchange, other) == [other.encode()]
        while not all(done):
            done[mine == "a"] = True
            await asyncio.sleep(0.001)
        exchange.withdraw(mine)

    done = [False, False]
    threads = [
        threading.Thread(target=lambda mine=mine, other=other: asyncio.run(main(mine, other)), name=mine)
        for mine, other in ("ab", "ba")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True, True]
    assert links(tmp_path) == sockets(tmp_path) == []


def test_a_closed_loop_leaves_no_socket_and_its_links_are_taken_for_dead(tmp_path):
    exchange, before = SocketExchange(str(tmp_path)), descriptors()

    async def main():
        exchange.announce("t", echo)

    asyncio.run(main())
    gc.collect()
    assert sockets(tmp_path) == []
    assert links(tmp_path) == [link_name("t")]
    assert exchange.ask("t", b"?") is None
    assert links(tmp_path) == []
    assert descriptors() == before
    exchange.withdraw("t")


async def test_a_program_that_ends_while_it_answers_says_nothing_and_cuts_the_answers(tmp_path):
    code = """
import asyncio, os, sys
from minideep.checkpoint.exchange import SocketExchange

async def forever(question):
    yield b"1"
    await asyncio.Event().wait()

async def main():
    exchange = SocketExchange(sys.argv[1])
    exchange.announce("t", forever)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main(), debug=True)
"""
    with Runner(tmp_path, code=code) as runner:
        answers = SocketExchange(str(tmp_path)).ask("t", b"?")
        assert await anext(answers) == b"1"
        runner.process.stdin.write("end\n")
        runner.process.stdin.flush()
        with pytest.raises(ConnectionError):
            await anext(answers)
        assert runner.process.communicate(timeout=30) == ("", "")
    assert sockets(tmp_path) == []


def test_a_loop_that_ends_while_others_keep_asking_says_nothing(tmp_path):
    code = """
        import asyncio, sys, threading, time
        from minideep.checkpoint.exchange import SocketExchange

        async def forever(question):
            yield b"1"
            await asyncio.Event().wait()

        async def main():
            exchange = SocketExchange(sys.argv[1])
            exchange.announce("t", forever)
            for _ in range(20):
                await asyncio.sleep(0.0005)

        def ask():
            while not over.is_set():
                answers.append(SocketExchange(sys.argv[1]).ask("t", b"?"))
                del answers[:-10]
                time.sleep(0.0002)

        over, answers = threading.Event(), []
        asker = threading.Thread(target=ask)
        asker.start()
        for _ in range(10):
            asyncio.run(main())
        over.set()
        asker.join()
    """
    assert python(code, tmp_path) == ""
    assert sockets(tmp_path) == []


def test_a_program_that_just_ends_removes_its_socket(tmp_path):
    code = """
        import asyncio, sys
        from minideep.checkpoint.exchange import SocketExchange
        loop = asyncio.new_event_loop()
        exchange = SocketExchange(sys.argv[1])
        async def main():
            exchange.announce("t", None)
            exchange.withdraw("t")
        loop.run_until_complete(main())
        print("over")
    """
    assert python(code, tmp_path) == "over\n"
    assert sockets(tmp_path) == []


async def test_a_loop_that_runs_no_more_keeps_nobody_waiting_for_a_turn_that_ended(tmp_path):
    """As after `loop.run_until_complete(agent.run(...))`: the loop exists, and may never run again."""
    exchange = SocketExchange(str(tmp_path), silence_seconds=0.05)
    loop = asyncio.new_event_loop()

    async def announce():
        exchange.announce("t", echo)

    await asyncio.to_thread(loop.run_until_complete, announce())
    answers = exchange.ask("t", b"?")
    waiting = asyncio.ensure_future(anext(answers))
    await asyncio.sleep(0.2)
    assert not waiting.done()  # The turn may be in a long tool that blocks the loop.
    exchange.withdraw("t")
    with pytest.raises(ConnectionError):
        await waiting
    loop.close()


async def test_a_loop_without_turns_closes_its_socket_after_a_while_and_opens_another(tmp_path):
    exchange, before = SocketExchange(str(tmp_path), idle_seconds=0.01), descriptors()
    exchange.announce("t", echo)
    await asyncio.sleep(0.05)
    assert await asked(exchange) == [b"?"]
    exchange.withdraw("t")
    await until(lambda: not sockets(tmp_path))
    assert descriptors() == before
    exchange.announce("t", echo)
    assert await asked(exchange) == [b"?"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_neither_answers_for_its_parent_nor_removes_its_files(tmp_path):
    code = """
        import asyncio, atexit, os, sys
        from minideep.checkpoint.exchange import SocketExchange

        async def name(question):
            yield str(os.getpid()).encode()
            if question == b"wait":
                await asyncio.Event().wait()

        async def ask(thread):
            answers = exchange.ask(thread, b"?")
            return answers and [int(answer) async for answer in answers]

        async def in_child():
            parent = os.getppid()
            exchange.withdraw("t")
            assert await ask("t") == [parent]
            exchange.announce("u", name)
            assert await ask("u") == [os.getpid()]
            exchange.withdraw("u")

        async def main():
            exchange.announce("t", name)
            answers = exchange.ask("t", b"wait")
            await anext(answers)
            child = await asyncio.to_thread(forked)
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                await asyncio.sleep(0.01)
            assert await ask("t") == [os.getpid()]
            exchange.announce("v", name)
            assert await ask("v") == [os.getpid()]
            waiting = asyncio.ensure_future(anext(answers))
            await asyncio.sleep(0.01)
            assert not waiting.done()  # The child has cut nothing.
            waiting.cancel()

        def forked():
            child = os.fork()
            if child == 0:
                asyncio.run(in_child())
                print("child", flush=True)
                atexit._run_exitfuncs()  # What is done when a program ends.
                os._exit(0)
            return child

        exchange = SocketExchange(sys.argv[1])
        asyncio.run(main())
        print("parent")
    """
    assert python(code, tmp_path, warns=sys.version_info >= (3, 12)) == "child\nparent\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
async def test_a_forked_process_does_not_keep_the_connections_of_a_killed_parent_open(tmp_path):
    code = RUNNER.replace(
        'print("ready", flush=True)',
        'print("ready", flush=True)\n'
        "    await asyncio.to_thread(sys.stdin.readline)\n"
        "    print(os.fork() or (__import__('time').sleep(60), os._exit(0)), flush=True)",
    )
    exchange = SocketExchange(str(tmp_path))
    with Runner(tmp_path, "t", code=code) as runner:
        answers = exchange.ask("t", b"wait")
        assert await anext(answers) == runner.name
        runner.process.stdin.write("fork\n")
        runner.process.stdin.flush()
        child = int(await asyncio.to_thread(runner.process.stdout.readline))
        try:
            runner.process.kill()
            runner.process.wait()
            with pytest.raises(ConnectionError):
                await anext(answers)
            assert exchange.ask("t", b"?") is None
        finally:
            os.kill(child, signal.SIGKILL)


# ---- folders


async def test_only_this_user_can_enter_the_folder_of_the_sockets(tmp_path):
    live = tmp_path / "live"
    live.mkdir(mode=0o755)
    live.chmod(0o755)
    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", echo)
    assert stat.S_IMODE(live.stat().st_mode) == 0o700
    live.chmod(0o770)
    assert exchange.ask("t", b"?") is None  # Anybody could have put the link there.
    live.chmod(0o700)
    assert await asked(exchange) == [b"?"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
async def test_the_folder_of_another_user_is_not_trusted(tmp_path, caplog):
    live = tmp_path / "live"
    live.mkdir(mode=0o700)
    os.chown(live, 12345, 12345)
    exchange = SocketExchange(str(tmp_path))
    for thread in "tu":
        exchange.announce(thread, echo)
        assert exchange.ask(thread, b"?") is None
    assert [record.message.count("belongs to another user") for record in caplog.records] == [1]
    assert not list(live.iterdir())
    exchange.withdraw("t")


async def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path, caplog):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "live").symlink_to("elsewhere")
    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", echo)
    assert "cannot be reached" in caplog.text
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_socket_of_a_store_with_a_long_path_lies_in_a_private_folder_for_temporary_files(tmp_path):
    code = """
        import asyncio, os, stat, sys
        from minideep.checkpoint.exchange import SocketExchange

        async def echo(question):
            yield question

        async def main():
            exchange = SocketExchange(sys.argv[1])
            exchange.announce("t", echo)
            print([answer async for answer in exchange.ask("t", b"hello")])
            home = os.path.join(sys.argv[2], f"minideep-{os.geteuid()}")
            print(oct(stat.S_IMODE(os.stat(home).st_mode)), len(os.listdir(home)))
            os.chmod(home, 0o777)
            print(exchange.ask("t", b"hello"))
            os.chmod(home, 0o700)
            exchange.withdraw("t")

        asyncio.run(main())
        print(os.listdir(os.path.join(sys.argv[2], f"minideep-{os.geteuid()}")))
    """
    place = tmp_path / ("x" * 200)
    temporary = Path(shutil.os.path.realpath("/tmp"), f"mdx{os.getpid()}")
    temporary.mkdir(mode=0o700)
    try:
        env = {"TMPDIR": str(temporary)}
        assert python(code, place, temporary, env=env) == "[b'hello']\n0o700 1\nNone\n[]\n"
    finally:
        shutil.rmtree(temporary)


async def test_where_no_socket_can_be_opened_the_turn_goes_on(tmp_path, caplog):
    (tmp_path / "file").touch()
    exchange = SocketExchange(str(tmp_path / "file"))
    for _ in range(3):
        exchange.announce("t", echo)
        assert exchange.ask("t", b"?") is None
        exchange.withdraw("t")
    assert len(caplog.records) == 1


async def test_a_store_whose_directory_was_removed_is_reached_again_by_its_next_turn(tmp_path):
    exchange = SocketExchange(str(tmp_path / "store"))
    exchange.announce("t", echo)
    shutil.rmtree(tmp_path / "store")
    assert exchange.ask("t", b"?") is None
    exchange.announce("u", echo)
    assert await asked(exchange, "u") == [b"?"]
    exchange.withdraw("t")
    exchange.withdraw("u")
    assert links(tmp_path / "store") == []


async def test_iterators_that_nobody_reads_are_dropped_without_a_warning(tmp_path):
    exchange = SocketExchange(str(tmp_path))
    exchange.announce("t", echo)
    before = descriptors()
    for _ in range(10):
        exchange.ask("t", b"?")
    gc.collect()
    await until(lambda: descriptors() == before)


# ---- the store


async def test_two_stores_on_a_directory_reach_each_other_and_a_third_elsewhere_does_not(tmp_path):
    one, two, other = (DiskCheckpointer(tmp_path / name) for name in ("a", "a", "b"))
    one.exchange.announce("t", echo)
    assert await asked(two.exchange) == [b"?"]
    assert await asked(other.exchange) is None
    assert one.exchange is one.exchange
    assert getattr(MemoryCheckpointer(), "exchange", None) is None
    one.exchange.withdraw("t")


async def test_a_store_that_is_closed_keeps_the_socket_of_its_running_turns_only(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        store.exchange.announce("t", echo)
    await asyncio.sleep(0)
    assert await asked(store.exchange) == [b"?"]
    store.exchange.withdraw("t")
    store.close()
    await until(lambda: not sockets(tmp_path))
    store.exchange.announce("t", echo)
    assert await asked(store.exchange) == [b"?"]
    store.exchange.withdraw("t")


async def test_a_store_with_running_turns_is_verified_backed_up_and_deleted_as_any_other(tmp_path):
    store = DiskCheckpointer(tmp_path / "store")
    agent = Agent(ScriptedModel(["Hello."]), checkpointer=store)
    assert (await agent.run("Hi.", "t")).saved
    size = store.size()
    store.exchange.announce("u", echo)
    assert store.verify() == []
    assert store.size() == size
    store.backup(tmp_path / "copy")
    assert not (tmp_path / "copy" / "live").exists()
    agent.delete("t")
    assert agent.threads() == []
    store.close()
    shutil.rmtree(tmp_path / "store")


def test_the_longest_path_is_the_one_that_the_system_takes(tmp_path):
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(OSError, match="too long"):
        sock.bind("x" * (MAX_PATH + 1))
