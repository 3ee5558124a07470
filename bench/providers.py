"""Measure what an adapter takes of the CPU beside its provider's SDK: a long conversation, and a streamed delta.

    python bench/providers.py

The SDK is used as its own pages show it, so that it makes objects of what it sends and receives. The server is another
process; its time does not count.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time

from bounds import bound, verdict

sys.path.insert(0, str(Path(__file__).parent / "parts"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from harness.wires import WIRES
from providers_asked import RESOURCES, body_of, conversation, through_minideep, through_the_sdk

LONG, BEFORE, BEHIND = 1_001, 1_999, 2_001
DELTAS = 2_000
ROUNDS = 20


def best(runner: asyncio.Runner, ask: Callable[[], Awaitable[None]], rounds: int = ROUNDS) -> float:
    """Return the milliseconds of CPU that *ask* takes at best, after one time that does not count."""
    times: list[float] = []
    for _ in range(rounds + 1):
        begin = process_time()
        runner.run(ask())  # type: ignore[arg-type]
        times.append(process_time() - begin)
    return min(times[1:]) * 1000


def requests(runner: asyncio.Runner, kind: str, url: str) -> None:
    """Measure whole replies to long conversations."""
    client = WIRES[kind].connected(url)
    model, resource = WIRES[kind].model(client), RESOURCES[kind](client)
    times: dict[int, float] = {}
    for messages in (1, LONG, BEFORE, BEHIND):
        request = conversation(messages)
        times[messages] = best(runner, lambda request=request: through_minideep(model, request, False))
    body = runner.run(body_of(kind, conversation(LONG), False))
    sdk = best(runner, lambda: through_the_sdk(resource, body), 4)
    runner.run(client.close())
    shown = ", ".join(f"{messages:,}: {took:.1f} ms" for messages, took in times.items())
    print(f"{kind}, by messages: {shown}; the SDK with {LONG:,}: {sdk:.1f} ms")
    bound(f"{LONG:,} messages, to the SDK", times[LONG] / sdk, 0.4)
    bound(f"{BEHIND:,} messages to {BEFORE:,}", times[BEHIND] / times[BEFORE], 1.2)
    bound(f"{BEHIND:,} messages to {LONG:,}", times[BEHIND] / times[LONG], 2.2)


def deltas(runner: asyncio.Runner, kind: str, few: str, many: str) -> None:
    """Measure a delta: what a reply in many takes more than one in few, by their number."""
    took: dict[str, list[float]] = {}
    request = conversation(1)
    body = runner.run(body_of(kind, request, True))
    for url in (few, many):
        client = WIRES[kind].connected(url)
        model, resource = WIRES[kind].model(client), RESOURCES[kind](client)
        for name, ask in {
            "minideep": lambda model=model: through_minideep(model, request, True),
            "the SDK": lambda resource=resource: through_the_sdk(resource, body),
        }.items():
            took.setdefault(name, []).append(best(runner, ask))
        runner.run(client.close())
    each = {name: (late - early) / (DELTAS - 2) * 1000 for name, (early, late) in took.items()}
    print(f"{kind}, a delta: " + ", ".join(f"{name} {micros:.1f} µs" for name, micros in each.items()))
    bound("a streamed delta, to the SDK", each["minideep"] / each["the SDK"], 0.5)


def server(pieces: int) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    """Start the servers of each wire format, whose streams have as many *pieces*."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(Path(__file__).parent / "parts" / "wire_servers.py"), str(pieces)]
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    return process, json.loads(process.stdout.readline())


def main() -> int:
    (few, at_few), (many, at_many) = server(2), server(DELTAS)
    with few, many, asyncio.Runner() as runner:
        for kind in WIRES:
            requests(runner, kind, at_few[kind])
            deltas(runner, kind, at_few[kind], at_many[kind])
        for process in (few, many):
            assert process.stdin
            process.stdin.close()  # It ends then.
    return verdict()


if __name__ == "__main__":
    sys.exit(main())
