"""A request to a provider over its real SDK, to a server on loopback. The time is the CPU's, without the server's."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from harness.wires import WIRES
from providers_asked import (
    RESOURCES,
    as_extra_body,
    body_of,
    conversation,
    through_minideep,
    through_the_raw_sdk,
    through_the_sdk,
)
from work import counted

REQUESTS = 3


@pytest.fixture(scope="session")
def servers():
    """Return the address of a server for each wire format. They run in a process of their own."""
    command = [sys.executable, str(Path(__file__).with_name("wire_servers.py"))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}  # As pytest.ini has set it.
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield json.loads(process.stdout.readline())
        process.stdin.close()  # It ends then.


async def again(ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
    for _ in range(REQUESTS):
        await ask()


@pytest.mark.parametrize("through", ["the SDK", "the SDK unparsed", "minideep"])
@pytest.mark.parametrize("messages", [1, 201], ids=counted("message"))
@pytest.mark.parametrize("streamed", [False, True], ids=["one document", "200 pieces"])
@pytest.mark.parametrize("kind", WIRES, ids=lambda kind: kind.replace("-", " "))
def test_a_request(measure, runner, servers, kind, streamed, messages, through):
    """CPU time of a request over the real SDK, without its server's."""
    wire, request = WIRES[kind], conversation(messages)
    body = runner.run(body_of(kind, request, streamed))
    client = wire.connected(servers[kind])
    resource, model = RESOURCES[kind](client), wire.model(client)
    asks: dict[str, Callable[[], Any]] = {
        "the SDK": lambda: through_the_sdk(resource, body),
        "the SDK unparsed": lambda: through_the_raw_sdk(resource, as_extra_body(kind, body)),
        "minideep": lambda: through_minideep(model, request, streamed),
    }
    measure(lambda: runner.run(again(asks[through])), rounds=8, each=REQUESTS, clock=process_time, of=kind)
    runner.run(client.close())


@pytest.mark.parametrize("through", ["the SDK", "the SDK unparsed", "minideep"])
@pytest.mark.parametrize("messages", [1_001, 1_999, 2_001], ids=counted("message"))
@pytest.mark.parametrize("kind", WIRES, ids=lambda kind: kind.replace("-", " "))
def test_a_long_conversation(measure, runner, servers, kind, messages, through):
    """CPU time of a request with many messages over the real SDK, without its server's."""
    wire, request = WIRES[kind], conversation(messages)
    body = runner.run(body_of(kind, request, False))
    client = wire.connected(servers[kind])
    resource, model = RESOURCES[kind](client), wire.model(client)
    asks: dict[str, Callable[[], Any]] = {
        "the SDK": lambda: through_the_sdk(resource, body),
        "the SDK unparsed": lambda: through_the_raw_sdk(resource, as_extra_body(kind, body)),
        "minideep": lambda: through_minideep(model, request, False),
    }
    measure(lambda: runner.run(asks[through]()), rounds=3, clock=process_time, calls=False, of=kind)
    runner.run(client.close())
