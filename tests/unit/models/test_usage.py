"""Tokens and costs as providers say them, or fail to: what is not known is unknown, never nothing."""

import pytest
from harness.agents import ping
from harness.providers import Provider, json_answer, sse
from harness.wires import FORMATS, WIRES, chat, claude, connected

from minideep import (
    Agent,
    Limits,
    Usage,
)
from minideep.models import (
    Price,
)

GIVEN = Price(1, 10, 100)


def whole(kind, usage):
    """An answer of *kind* with *usage* as it is."""
    return WIRES[kind].said("hi") | {"usage": usage}


def streamed(kind, answer):
    events = WIRES[kind].events
    if kind != "anthropic":
        return sse(*events(answer))
    first, *rest = events(answer | {"usage": {"input_tokens": 7, "output_tokens": 3}})
    first = {**first, "message": {**first["message"], "usage": answer["usage"]}}
    rest = [event | {"usage": answer["usage"]} if event["type"] == "message_delta" else event for event in rest]
    return sse(first, *rest)


async def turns(kind, *answers, stream=False, price=GIVEN):
    """The turn that each answer leads to, by one client."""
    found = []
    with Provider(*answers) as provider:
        async with connected(kind, provider.url, "x", price=price) as model:
            agent = Agent(model)
            for _ in answers:
                turn = await (streaming(agent) if stream else agent.run("go"))
                assert (turn.status, turn.text) == ("ended", "hi"), turn.error
                found.append(turn)
        assert len(provider.bodies) == len(answers)
    return found


async def streaming(agent):
    stream = agent.stream("go")
    assert [event async for event in stream]
    return stream.turn


def took(turn):
    return turn.usage, turn.costs.money, turn.costs.unpriced


def names_of(kind):
    return ("prompt_tokens", "completion_tokens") if kind == "openai-chat" else ("input_tokens", "output_tokens")


def sent(kind, stream, *usages):
    """An answer with each of *usages*."""
    wholes = [whole(kind, usage) for usage in usages]
    return [streamed(kind, answer) if stream else json_answer(answer) for answer in wholes]


ODD = [None, {}, [], "free", 7, [7], {"input_tokens": {}, "prompt_tokens": [], "output_tokens": "3"}]


each_way = pytest.mark.parametrize(("kind", "stream"), [(kind, stream) for kind in FORMATS for stream in (False, True)])


@each_way
async def test_an_answer_without_counts_has_unknown_usage(kind, stream):
    for turn in await turns(kind, *sent(kind, stream, *ODD), stream=stream):
        assert took(turn) == (Usage(unknown=1), None, 1)


@each_way
async def test_a_malformed_count_makes_the_reply_unknown_and_keeps_the_other_count(kind, stream):
    taken, given = names_of(kind)
    usages = [{taken: 7, given: wrong} for wrong in (True, -1, 2**60, 1e300, "3", None)]
    for turn in await turns(kind, *sent(kind, stream, *usages), stream=stream):
        assert took(turn) == (Usage(7, 0, unknown=1), None, 1)


@each_way
async def test_counts_may_be_floats(kind, stream):
    taken, given = names_of(kind)
    fresh = 7.0 - 5.0 * (kind == "anthropic")
    cached = {"cache_read_input_tokens": 5.0, f"{taken}_details": {"cached_tokens": 5.0}}
    (turn,) = await turns(kind, *sent(kind, stream, {taken: fresh, given: 3.0, **cached}), stream=stream)
    assert took(turn) == (Usage(7, 3, 5), pytest.approx((2 * 1 + 5 * 100 + 3 * 10) / 1e6), 0)


ODD_DETAILS = [
    {"service_tier": {"name": "standard"}},
    {"service_tier": ["standard"]},
    {"cache_creation": "none", "output_tokens_details": 5},
    {"iterations": "three"},
    {"iterations": [None, "x", {"type": ["compaction"]}]},
    {"cache_creation": {"ephemeral_1h_input_tokens": "many"}},
]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_odd_detail_of_the_usage_does_not_lose_an_answer_of_claude(stream):
    usages = [{"input_tokens": 7, "output_tokens": 3} | odd for odd in ODD_DETAILS]
    for turn in await turns("anthropic", *sent("anthropic", stream, *usages), stream=stream):
        assert took(turn) == (Usage(7, 3), pytest.approx(37e-6), 0)


async def test_an_uncounted_compaction_of_claude_makes_the_cost_unknown():
    usage = {"input_tokens": 7, "output_tokens": 3, "iterations": [{"type": "compaction", "input_tokens": None}]}
    (turn,) = await turns("anthropic", *sent("anthropic", False, usage))
    assert took(turn) == (Usage(7, 3), None, 1)


async def test_the_output_tokens_at_the_beginning_of_a_stream_of_claude_are_not_the_final_ones():
    first, *rest = claude.events(claude.message(claude.text("hi"), input_tokens=7, output_tokens=300))
    rest = [event | {"usage": None} if event["type"] == "message_delta" else event for event in rest]
    (turn,) = await turns("anthropic", sse(first, *rest), stream=True)
    assert took(turn) == (Usage(7, 0, unknown=1), None, 1)


async def test_a_stream_that_ends_before_its_counts_has_unknown_usage():
    chunks = chat.events(chat.said("hi"))
    assert "usage" in chunks[-2]
    (turn,) = await turns("openai-chat", sse(*chunks[:-2], cut=True), stream=True)
    assert took(turn) == (Usage(unknown=1), None, 1)


CACHED = [
    {"prompt_tokens_details": {"cached_tokens": 5}},
    {"num_cached_tokens": 5},
    {"prompt_token_details": {"cached_tokens": 5}},
    {"prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 2},
    {"cached_tokens": 5},
    {"prompt_tokens_details": {"cached_tokens": 0}, "prompt_cache_hit_tokens": 5},
    {"prompt_tokens_details": {"cached_tokens": 5}, "cached_tokens": 5},
]


@pytest.mark.parametrize("stream", [False, True])
async def test_cached_tokens_are_found_wherever_a_server_puts_them(stream):
    usages = [{"prompt_tokens": 7, "completion_tokens": 3} | cached for cached in CACHED]
    for turn in await turns("openai-chat", *sent("openai-chat", stream, *usages), stream=stream):
        assert took(turn) == (Usage(7, 3, 5), pytest.approx((2 * 1 + 5 * 100 + 3 * 10) / 1e6), 0)


async def test_counts_are_found_where_kimi_and_groq_put_them_in_a_stream():
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_time": 0.25}
    begin, over, last = chat.chunk({"content": "hi"}), chat.chunk({}, "stop"), {"choices": []}
    groq = {"x_groq": {"id": "req_1"}}, {"x_groq": {"id": "req_1", "usage": usage}}
    kimi = sse(begin, chat.chunk({}, "stop", usage=usage), last, "[DONE]")
    answers = kimi, sse(begin | groq[0], over | groq[1], last | groq[0], "[DONE]")
    for turn in await turns("openai-chat", *answers, stream=True):
        assert took(turn) == (Usage(7, 3), pytest.approx(37e-6), 0)


@pytest.mark.parametrize(("price", "cost"), [(GIVEN, 37e-6), (None, None)])
async def test_a_malformed_cost_of_a_server_is_ignored(price, cost):
    wrong = [True, -0.5, "0.5", None, {"total": 1}, 1e300]
    usages = [{"prompt_tokens": 7, "completion_tokens": 3, "cost": said} for said in wrong]
    for turn in await turns("openai-chat", *sent("openai-chat", False, *usages), price=price):
        assert took(turn) == (Usage(7, 3), pytest.approx(cost), int(cost is None))


async def test_the_cost_that_a_server_states_is_known_though_the_tokens_are_not():
    (turn,) = await turns("openai-chat", *sent("openai-chat", False, {"cost": 0.125}), price=None)
    assert took(turn) == (Usage(unknown=1), 0.125, 0)


async def test_a_server_that_states_no_cost_exhausts_a_budget_of_money_at_its_first_reply():
    call = {"id": "a", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    answer = json_answer(chat.completion({"tool_calls": [call]}, "tool_calls"))
    with Provider(*[answer] * 9) as provider:
        async with connected("openai-chat", provider.url, "qwen3") as model:
            model.states_cost = True  # As of one that is made with a `base_url`.
            turn = await Agent(model, [ping], limits=DOLLAR).run("go")
    assert (turn.status, turn.reason, turn.costs.steps) == ("exhausted", "cost", 1)
    assert (turn.usage, turn.costs.money) == (Usage(7, 3), None)


DOLLAR = Limits(cost=1.0)
