"""The catalog, and money: what a reply costs by it, by one's own price, or as the provider says; never by a guess."""

import math
import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from harness.providers import Provider, json_answer, sse
from harness.wires import FORMATS, chat, claude, connected, responses
from hypothesis import given, strategies as st

from minideep import Agent, ConfigError, Limits, Subagent, ToolCall, Usage, create_deep_agent, tool
from minideep.backends import StateBackend
from minideep.cli.render import summary
from minideep.events import ModelReplied
from minideep.middleware import SummarizationMiddleware
from minideep.models import (
    Anthropic,
    ModelInfo,
    OpenAI,
    OpenAIChat,
    Price,
    ScriptedModel,
    add_model_info,
    model_info,
)
from minideep.models.catalog import Tariff, _listed

MILLION = 1_000_000
LISTED_MODELS = _listed()
KINDS = Price(1, 10, 100, 1000, 10_000)


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


# ---- arithmetic


@pytest.mark.parametrize(
    ("usage", "long_writes", "cost"),
    [
        (Usage(MILLION), 0, 1),
        (Usage(0, MILLION), 0, 10),
        (Usage(0, MILLION, reasoning=MILLION), 0, 10),
        (Usage(MILLION, cache_read=MILLION), 0, 100),
        (Usage(MILLION, cache_write=MILLION), 0, 1000),
        (Usage(MILLION, cache_write=MILLION), MILLION, 10_000),
        (Usage(4 * MILLION, MILLION, MILLION, 2 * MILLION), MILLION, 1 + 10 + 100 + 1000 + 10_000),
        (Usage(), 0, 0),
    ],
)
def test_each_kind_of_token_has_its_price(usage, long_writes, cost):
    assert KINDS.of(usage, long_writes) == pytest.approx(cost)


counts = st.integers(0, 10**6)


@given(counts, counts, counts, counts, counts)
def test_no_token_is_billed_twice_and_none_is_left_out(fresh, read, write, kept_long, output):
    usage = Usage(fresh + read + write + kept_long, output, read, write + kept_long, output // 2)
    assert Price(1, 1, 1, 1, 1).of(usage, kept_long) == pytest.approx(usage.total / 1e6)
    by_kind = [fresh * 1, output * 10, read * 100, write * 1000, kept_long * 10_000]
    assert KINDS.of(usage, kept_long) == pytest.approx(sum(by_kind) / 1e6)


def test_a_price_without_a_cache_bills_it_as_input_and_does_not_guess_what_keeping_it_longer_costs():
    plain = Price(2, 10)
    assert plain.of(Usage(3 * MILLION, 0, MILLION, MILLION)) == pytest.approx(6)
    assert plain.of(Usage(MILLION, 0, 0, MILLION), long_writes=1) is None


def test_a_long_request_is_billed_by_its_own_price_as_a_whole():
    price = Price(1, 1, beyond=(100, Price(5, 5)))
    assert price.of(Usage(100, 50)) == pytest.approx(150e-6)
    assert price.of(Usage(101, 50, 60)) == pytest.approx(5 * 151e-6)


@pytest.mark.parametrize("wrong", [{"input": -1}, {"output": math.nan}, {"cache_read": "1"}, {"cache_write": math.inf}])
def test_a_price_that_is_no_amount_is_refused(wrong):
    with pytest.raises(
        ConfigError, match=f"Price: {next(iter(wrong))} must be US dollars for a million tokens, 0 or more"
    ):
        Price(**{"input": 1, "output": 1} | wrong)


def test_a_model_of_the_list_may_be_named_with_its_date_and_another_has_no_price():
    usage = Usage(MILLION, MILLION)
    assert Tariff("claude-sonnet-4-6", None).cost(usage) == pytest.approx(18)
    assert Tariff("claude-haiku-4-5-20251001", None).cost(usage) == pytest.approx(6)
    assert Tariff("gpt-6.1-sol-2026-09-29", None).cost(Usage(100_000, 100_000)) == pytest.approx(1.2)
    for unknown in ("claude-sonnet-4-7", "my-claude-sonnet-4-6", "gpt-6.1", ""):
        assert Tariff(unknown, None).cost(usage) is None
        assert Tariff(unknown, Price(1, 1)).cost(usage) == pytest.approx(2)


def test_the_figures_of_the_catalog_are_plausible_and_each_has_a_dated_source():
    for name, info in LISTED_MODELS.items():
        assert re.search(r" \(2026-\d\d-\d\d\)$", info.source), name
        assert info.window is None or 1_000 < info.output <= info.window <= 2_000_000, name
        prices = [price for price in (info.price, info.price and info.price.beyond and info.price.beyond[1]) if price]
        for price in prices:
            assert 0 < price.input < price.output, name
            assert price.cache_read is None or price.cache_read < price.input, name
            assert price.cache_write is None or price.input < price.cache_write < price.output, name
            assert price.cache_write_long is None or price.cache_write < price.cache_write_long, name
    assert model_info("gpt-6-luna").price.of(Usage(272_001, 0, 0, 272_001)) == pytest.approx(272_001 * 0.25e-6)
    haiku = model_info("claude-haiku-5-5").price
    assert haiku.of(Usage(100_001, 10)) == pytest.approx(100_001 * 0.5e-6 + 10 * 2.5e-6)


def literals(*modules):
    """The names of models in the types of the SDKs, whose import would take a second."""
    site = Path(find_spec("msgspec").origin).parents[1]
    for module in modules:
        text = site.joinpath(module).read_text().split("Deprecated values")[0]
        yield from re.findall(r'^ +"([^"]+)",$', text, re.MULTILINE)


UNSOURCED = {
    "claude-mythos-preview",
    "gpt-5.1-mini",
    "o1-preview",
    "o1-mini",
    "gpt-4o-audio-preview",
    "gpt-4o-mini-audio-preview",
    "gpt-4o-search-preview",
    "gpt-4o-mini-search-preview",
    "chatgpt-4o-latest",
    "codex-mini-latest",
    "gpt-4-0125-preview",
    "gpt-4-turbo-preview",
    "gpt-4-vision-preview",
    "gpt-4-0314",
    "gpt-4-32k",
    "gpt-4-32k-0314",
    "gpt-4-32k-0613",
    "gpt-3.5-turbo-0301",
    "gpt-3.5-turbo-0613",
    "gpt-3.5-turbo-16k-0613",
    "gpt-daybreak-red-latest",
    "gpt-5.6-cyber",
    "gpt-6-cyber",
    "gpt-6.2-astra-law",
}
"""Models of the SDKs that are not in the catalog: withdrawn, or with figures on which the sources differ."""


def test_the_catalog_has_every_model_of_both_sdks_but_those_without_a_source():
    if (version("anthropic"), version("openai")) != ("2.12.0", "3.54.0"):
        pytest.skip("the catalog was made for other versions of the SDKs")
    shared = "openai/types/shared/"
    named = {*literals("anthropic/types/model.py", f"{shared}chat_model.py", f"{shared}responses_model.py")}
    assert len(named) > 100
    missing = {re.sub(r"-(\d{8}|\d{4}-\d\d-\d\d)$", "", name) for name in named if model_info(name) is None}
    assert missing == set(UNSOURCED)


def test_a_dated_version_has_the_figures_of_its_model_unless_it_has_its_own():
    assert model_info("claude-sonnet-4-5-20250929") is model_info("claude-sonnet-4-5")
    assert model_info("gpt-4o-2024-11-20") is model_info("gpt-4o")
    assert model_info("gpt-4o-2024-05-13").price == Price(5, 15)
    assert model_info("claude-sonnet-4-5-2025") is None


def test_a_user_adds_a_model_to_the_catalog_and_corrects_one():
    info = ModelInfo(window=32_000, output=4_000, price=Price(1, 2), source="my invoice")
    assert model_info("test-catalog-mine") is None
    add_model_info("test-catalog-mine", info)
    assert model_info("test-catalog-mine-20260101") is info
    model = OpenAI("test-catalog-mine")
    assert (model.window, model.states_cost) == (32_000, True)
    add_model_info("test-catalog-mine", ModelInfo(window=64_000))
    assert model_info("test-catalog-mine").window == 64_000
    add_model_info("o1-pro", info)  # One that no other test asks for.
    assert model_info("o1-pro") is info
    with pytest.raises(ConfigError, match="add_model_info: info must be a `ModelInfo`, not 32000"):
        add_model_info("test-catalog-mine", 32_000)
    with pytest.raises(ConfigError, match="ModelInfo: window must be a whole number above 0, or None, not -1"):
        ModelInfo(window=-1)


@pytest.mark.parametrize("make", [Anthropic, OpenAI, OpenAIChat])
def test_a_model_has_the_window_of_the_catalog_unless_its_user_gives_another(make):
    assert make("gpt-4o").window == 128_000
    assert make("gpt-4o", window=64_000).window == 64_000
    assert make("unlisted").window is None


def test_the_window_of_the_catalog_is_what_a_conversation_is_compacted_for():
    assert SummarizationMiddleware("openai:gpt-4o", StateBackend())._trigger == int(0.85 * 128_000)
    assert SummarizationMiddleware("openai:gpt-6-sol", StateBackend())._trigger == 170_000


async def test_a_reply_of_claude_is_limited_to_what_the_model_can_write():
    add_model_info("test-catalog-short", ModelInfo(output=4_096))
    with Provider(*[answer("anthropic", stream=True)] * 3) as provider:
        for name, given in (("test-catalog-short", None), ("claude-opus-5-5", None), ("claude-opus-5-5", 50_000)):
            async with connected("anthropic", provider.url, name, max_tokens=given) as model:
                async for _ in Agent(model).stream("go"):
                    pass
    assert [body["max_tokens"] for body in provider.bodies] == [4_096, 16_000, 50_000]


async def test_an_unknown_model_is_reported_once_with_what_to_do(caplog):
    asked = [
        ("test-unheard", {}),
        ("test-unheard", {}),
        ("test-unheard-2", {"price": KINDS}),
        ("test-unheard-3", {"price": KINDS, "window": 9}),
        ("gpt-5", {}),
    ]
    with Provider(*[answer("openai")] * len(asked)) as provider:
        for name, settings in asked:
            async with connected("openai", provider.url, name, **settings) as model:
                await Agent(model).run("go")
    assert [record.getMessage() for record in caplog.records if record.name == "minideep"] == [
        "model 'test-unheard': its window and price are unknown; give it `window=` and `price=`, "
        "or describe it with `minideep.models.add_model_info`",
        "model 'test-unheard-2': its window is unknown; give it `window=`, "
        "or describe it with `minideep.models.add_model_info`",
    ]


def test_the_catalog_is_read_when_the_first_model_is_made():
    code = """
from minideep.models import Price, ScriptedModel, model_info
from minideep.models.catalog import _listed
ScriptedModel([])
print(_listed.cache_info().currsize, model_info("gpt-5") and _listed.cache_info().currsize)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "0 1\n"


@pytest.mark.parametrize("make", [Anthropic, OpenAI, OpenAIChat])
def test_a_price_that_is_none_is_refused_when_the_model_is_made(make):
    with pytest.raises(ConfigError, match=r"price must be a `Price`, or None, not \{'input': 1\}"):
        make("x", price={"input": 1})


# ---- over the real SDKs


def answer(kind, *, stream=False, longer=0, tier=None, **more):
    """One reply of *kind*: 6,000 tokens of input, of which 3,000 were read and 2,000 written, and 500 of output."""
    if kind == "anthropic":
        read, write = {"cache_read_input_tokens": 3000}, {"cache_creation_input_tokens": 2000}
        creation = {"ephemeral_5m_input_tokens": 2000 - longer, "ephemeral_1h_input_tokens": longer}
        counts = {"input_tokens": 1000, "output_tokens": 500, "cache_creation": creation, "service_tier": tier}
        whole = claude.message(claude.text("hi"), **counts, **read, **write, **more)
        return claude.answer(whole, stream)
    lives = {"ttl_12h_tokens": longer, "ttl_30m_tokens": 2000 - longer}
    details = {"cached_tokens": 3000, "cache_write_tokens": 2000, "cache_write_tokens_details": lives}
    if kind == "openai":
        usage = {"input_tokens": 6000, "output_tokens": 500, "input_tokens_details": details} | more
        whole = responses.response(responses.message("hi"), usage=usage, service_tier=tier)
        return responses.answer(whole, stream)
    usage = {"prompt_tokens": 6000, "completion_tokens": 500, "prompt_tokens_details": details} | more
    whole = chat.completion({"content": "hi"}, usage=usage, service_tier=tier)
    return sse({"choices": [], "service_tier": tier}, *chat.events(whole)) if stream else json_answer(whole)


async def cost(kind, name, *, stream=False, price=None, **more):
    """What a turn of one reply costs."""
    with Provider(answer(kind, stream=stream, **more)) as provider:
        async with connected(kind, provider.url, name, price=price) as model:
            agent = Agent(model)
            if not stream:
                return (await agent.run("go")).costs.money
            told = [event.cost async for event in agent.stream("go") if isinstance(event, ModelReplied)]
            return told[0]


LISTED = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-6.1-sol", "openai-chat": "gpt-6.1-sol"}
LIST_COST = (1000 * 2 + 3000 * 0.10 + 2000 * 2.50 + 500 * 10) / 1e6  # All three cost the same.


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", FORMATS)
async def test_a_reply_costs_what_the_list_says_of_its_tokens(kind, stream):
    assert await cost(kind, LISTED[kind], stream=stream) == pytest.approx(LIST_COST)
    assert await cost(kind, "unheard-of", stream=stream) is None
    assert await cost(kind, "unheard-of", stream=stream, price=KINDS) == pytest.approx(
        (1000 * 1 + 3000 * 100 + 2000 * 1000 + 500 * 10) / 1e6
    )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("kind", "tier"),
    [("anthropic", "priority"), ("openai", "scale"), ("openai", "priority"), ("openai-chat", "priority")],
)
async def test_a_reply_that_the_list_is_not_for_has_no_price_but_ones_own(kind, tier, stream):
    assert await cost(kind, LISTED[kind], stream=stream, tier=tier) is None
    assert await cost(kind, LISTED[kind], stream=stream, tier=tier, price=Price(1, 1)) == pytest.approx(6500e-6)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("kind", "tier"), [("anthropic", "batch"), ("openai", "flex"), ("openai-chat", "flex")])
async def test_a_tier_at_half_the_price_costs_half_but_a_given_price_is_the_tiers_own(kind, tier, stream):
    assert await cost(kind, LISTED[kind], stream=stream, tier=tier) == pytest.approx(LIST_COST / 2)
    assert await cost(kind, LISTED[kind], stream=stream, tier=tier, price=Price(1, 1)) == pytest.approx(6500e-6)


@pytest.mark.parametrize("told", [{"speed": "fast"}, {"inference_geo": "us"}])
async def test_a_claude_that_is_faster_or_stays_in_a_country_has_no_listed_price(told):
    assert await cost("anthropic", "claude-opus-5-5", **told) is None


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cache_that_is_kept_for_longer_costs_what_that_costs_or_nobody_knows(stream):
    long = LIST_COST + 1500 * (4 - 2.50) / 1e6
    assert await cost("anthropic", "claude-sonnet-5-5", stream=stream, longer=1500) == pytest.approx(long)
    long = LIST_COST + 1500 * (5 - 2.50) / 1e6
    assert await cost("openai", "gpt-6.1-sol", stream=stream, longer=1500) == pytest.approx(long)
    assert await cost("openai", "gpt-6.1-sol", stream=stream, longer=1500, price=Price(2, 10)) is None


@pytest.mark.parametrize("kind", ["openai", "openai-chat"])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_server_says_goes_before_every_list(kind, stream):
    assert await cost(kind, "gpt-6.1-sol", stream=stream, price=Price(9, 9), cost=0.125) == 0.125


# ---- where it is told


async def test_a_budget_of_dollars_stops_at_listed_prices():
    call = {"type": "tool_use", "id": "a", "name": "ping", "input": {}}
    dear = json_answer(claude.message(call, input_tokens=100_000, output_tokens=0))
    with Provider(*[dear] * 9) as provider:
        async with connected("anthropic", provider.url, "claude-sonnet-5-5") as model:
            turn = await Agent(model, [ping], limits=Limits(cost=0.5)).run("go")
    assert (turn.status, turn.reason, turn.costs.steps) == ("exhausted", "cost", 3)
    assert turn.costs.money == pytest.approx(0.6)
    assert "300,000 tokens in, 0 out · $0.6000 ·" in summary(turn.costs)


async def test_a_script_costs_nothing_and_is_not_stopped_by_a_budget_of_dollars():
    agent = Agent(ScriptedModel([ToolCall("ping"), "done"]), [ping], limits=Limits(cost=0.0001))
    turn = await agent.run("go")
    assert (turn.status, turn.costs.money) == ("ended", 0.0)
    assert "· $0.0000 ·" in summary(turn.costs)


async def test_money_is_told_of_each_run_and_of_the_turn():
    task = ToolCall("task", {"description": "do it", "subagent_type": "critic"}, "t1")
    with Provider(answer("anthropic"), answer("anthropic")) as provider:
        async with connected("anthropic", provider.url, "claude-sonnet-5-5") as model:
            child = Subagent(name="critic", description="does it", model=model)
            agent = create_deep_agent(ScriptedModel([task, "ok"]), subagents=[child])
            turn = await agent.run("go", "t")
    (run,) = agent.runs("t")
    tree = agent.get_state("t", subagents=True)
    assert (turn.costs.money, run.cost) == (pytest.approx(LIST_COST), pytest.approx(LIST_COST))
    assert (tree.cost, tree.subagents["t1"].cost) == (0.0, pytest.approx(LIST_COST))
    assert tree.subagents["t1"].usage == Usage(6000, 500, 3000, 2000)
    agent.fork("t", thread_id="u")
    assert [one.cost for one in agent.runs("u")] == [run.cost]
