"""What the adapters share: clients, converted messages, JSON that can be sent, amounts, and errors."""

import asyncio
import gc
import time
import weakref

import pytest

from minideep.errors import ContextOverflow, ModelError, RateLimited
from minideep.models.adapter import sendable
from minideep.models.amounts import dollars, token_count
from minideep.models.clients import Client
from minideep.models.failures import BadReply, StreamBroke, model_error
from minideep.plain_json import from_json, to_json


class Made:
    """A client."""


def test_a_client_lives_as_long_as_its_event_loop():
    made: list[int] = []
    client = Client(None, lambda: made.append(1) or Made())

    async def twice():
        return weakref.ref(await client.get()), weakref.ref(await client.get())

    (first, again), (second, _) = asyncio.run(twice()), asyncio.run(twice())
    until = time.monotonic() + 10  # The thread that has made it lets go of it when it gets to run again.
    while first() is not None and time.monotonic() < until:
        gc.collect()
        time.sleep(0.001)
    assert (first(), again(), type(second()), len(made)) == (None, None, Made, 2)


def test_what_json_cannot_carry_is_written_so_that_it_can():
    raw = to_json({"a": ["\ud800", float("nan"), float("-inf")], "b": 10**30, "c": "é"})
    assert sendable(raw) == {"a": ["?", "NaN", "-Infinity"], "b": 10**30, "c": "é"}
    assert from_json(raw)["b"] == 10**30


@pytest.mark.parametrize("value", [None, "7", True, -1, float("nan"), float("inf"), 2**60, [7], {}])
def test_what_is_no_amount_is_unknown(value):
    assert token_count({"in": {"cached": value}}, "in", "cached") is None
    assert dollars({"cost": value}, "cost") is None


def test_a_count_may_be_a_float_and_stand_inside_another_object():
    assert token_count({"in": {"cached": 7.0}}, "in", "cached") == 7
    assert token_count({"in": None}, "in", "cached") is None
    assert token_count("none", "in") is None


def error_of(exc: Exception) -> ModelError:
    return model_error("m", exc, key_variable="KEY", secrets=["0123456789"])


class Answered(Exception):
    """An error of an SDK."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__("no")
        self.status_code = status
        self.response = type("Response", (), {"headers": headers})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0.0),
    ],
)
def test_an_error_says_when_to_ask_again(headers, seconds):
    error = error_of(Answered(429, headers))
    assert (type(error), error.retry_after, error.code, error.transient) == (RateLimited, seconds, "429", True)


@pytest.mark.parametrize(
    ("exc", "transient"),
    [
        (Answered(500, {}), True),
        (Answered(408, {}), True),
        (Answered(404, {}), False),
        (StreamBroke("ended"), True),
        (BadReply("no", {"type": "api_error"}), True),
        (BadReply("no"), False),
    ],
)
def test_an_error_of_the_server_or_of_the_connection_may_pass(exc, transient):
    error = error_of(exc)
    assert (type(error), error.transient) == (ModelError, transient)


def test_words_are_only_read_where_the_status_says_nothing_better():
    assert type(error_of(BadReply("Prompt is too long, by far"))) is ContextOverflow
    assert type(error_of(BadReply("prompt is too long", {"code": "rate_limit_exceeded"}))) is RateLimited
    assert "by ***" in str(error_of(BadReply("no, by 0123456789")))
