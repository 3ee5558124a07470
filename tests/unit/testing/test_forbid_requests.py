"""`forbid_requests`: no adapter asks its provider, whatever wraps it, and the turn says so."""

import subprocess
import sys
from pathlib import Path

import pytest
from harness.blueprints import plan
from harness.providers import Provider
from harness.wires import FORMATS, connected, reply

import minideep
from minideep import Agent, ConfigError, MiddlewareError, ModelError, ToolCall, create_deep_agent, tool
from minideep.backends import StateBackend
from minideep.blueprint import Blueprint
from minideep.middleware import SummarizationMiddleware
from minideep.models import Anthropic, FallbackModel, OfflineModel, RateLimiter, ScriptedModel
from minideep.testing import forbid_requests

ROOT = str(Path(minideep.__file__).parent.parent)
FORBIDDEN = (
    r"model 'claude-x' was asked, but minideep\.testing\.forbid_requests\(\) forbids requests to real models; .*"
)
FORBIDDEN += r"`with agent\.override\(model=ScriptedModel\(\[\.\.\.\]\)\):`"


class Busy:
    name = "busy"

    async def complete(self, request, emit):
        raise ModelError("busy: try again")


def busy():
    """A model that is asked first, and always fails in a way that another one may mend."""
    model = Busy()
    error = ModelError("busy")
    error.transient = True

    async def complete(request, emit):
        raise error

    model.complete = complete
    return model


@pytest.mark.parametrize("kind", FORMATS)
async def test_no_provider_is_asked_inside_and_each_is_asked_outside(kind):
    with Provider(reply(kind, text="real")) as provider:
        async with connected(kind, provider.url) as model:
            with forbid_requests():
                turn = await Agent(model).run("go")
            assert (turn.status, turn.reason, provider.bodies) == ("failed", "ConfigError", [])
            with pytest.raises(ConfigError, match="forbids requests to real models"):
                turn.raise_for_status()
            assert (await Agent(model).run("go")).text == "real"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_fails_with_the_sentence_whatever_wraps_the_model(stream):
    real = Anthropic("claude-x")
    spare = ScriptedModel(["never"])
    for model in (RateLimiter(real), FallbackModel([real, spare]), FallbackModel([busy(), real, spare])):
        with forbid_requests():
            agent = Agent(model)
            if stream:
                events = agent.stream("go")
                async for _ in events:
                    pass
                turn = events.turn
            else:
                turn = await agent.run("go")
        with pytest.raises(ConfigError, match=FORBIDDEN):
            turn.raise_for_status()
    assert spare.requests == []


async def test_a_summarizer_that_is_real_fails_the_turn_and_is_not_passed_over():
    @tool
    async def look() -> str:
        """Look at something large."""
        return "word " * 500

    real = Anthropic("claude-x")
    parts = [SummarizationMiddleware(ScriptedModel([]), StateBackend(), summarizer=real, trigger=1_000, keep=1)]
    agent = Agent(ScriptedModel([ToolCall("look")] * 9), [look], middleware=parts)
    with forbid_requests():
        turn = await agent.run("go")
    with pytest.raises(MiddlewareError, match=FORBIDDEN):
        turn.raise_for_status()


async def test_a_blueprint_with_a_real_part_fails_with_the_sentence():
    blueprint = Blueprint(Anthropic("claude-x"))
    with forbid_requests():
        turn = await blueprint.run("go")
        assert turn.status == "failed"
        assert "forbids requests to real models" in str(turn.error)
        with blueprint.agents["planner"].override(model=ScriptedModel([plan(("critic", "write", "out.md"))])):
            turn = await blueprint.run("go")
        assert (turn.status, turn.text) != ("ended", "done")


async def test_models_that_ask_no_provider_are_allowed_and_an_override_helps():
    agent = create_deep_agent("anthropic:claude-x")
    with forbid_requests():
        assert (await Agent(OfflineModel()).run("hello")).status == "ended"
        with agent.override(model=ScriptedModel(["scripted"])):
            assert (await agent.run("go")).text == "scripted"


async def test_preload_loads_nothing_and_does_not_fail():
    agent = Agent("anthropic:claude-x")
    with forbid_requests():
        await agent.preload()


def test_blocks_nest_and_a_plain_call_holds_for_the_process():
    code = """
import asyncio, sys
from minideep import Agent
from minideep.models.forbidden import are_forbidden
from minideep.testing import forbid_requests

def status():
    turn = asyncio.run(Agent("openai:gpt-5").run("go"))
    return turn.reason, "forbids" in str(turn.error)

switch = forbid_requests()
with forbid_requests():
    with forbid_requests():
        pass
    assert status() == ("ConfigError", True)
assert status() == ("ConfigError", True)
assert not {"openai", "anthropic"} & set(sys.modules)
with switch:
    pass
print(are_forbidden())
"""
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ROOT}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert (run.stdout, run.stderr) == ("False\n", "")


@pytest.mark.parametrize(("value", "forbidden"), [("1", True), ("", False), ("0", False)])
def test_an_environment_variable_forbids_requests_in_a_process_and_those_below_it(value, forbidden):
    code = """
from minideep.models.forbidden import check_allowed
check_allowed("x")
"""
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ROOT, "MINIDEEP_FORBID_REQUESTS": value}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert ("the environment variable MINIDEEP_FORBID_REQUESTS forbids requests" in run.stderr) == forbidden
    assert (run.returncode == 0) != forbidden
