"""What is said differently to one model: the end of its prompt, and what its tools do."""

import json

import pytest
from harness.providers import Provider
from harness.wires import claude, ls, reply

from minideep import Agent, ConfigError, Subagent, ToolCall, create_deep_agent, tool
from minideep.models import Anthropic, FallbackModel, OpenAI, OpenAIChat, Profile, RateLimiter, ScriptedModel

PROFILE = Profile(suffix="Be brief.", descriptions={"ls": "Show a folder.", "task": "Delegate."})


def profiled(*replies, profile=PROFILE):
    model = ScriptedModel(replies)
    model.profile = profile
    return model


def told(request):
    return {tool.name: tool.description for tool in request.tools}


@tool
async def cat(path: str) -> str:
    """Show a file."""
    return f"in {path}"


async def test_the_suffix_ends_the_prompt_and_the_descriptions_are_those_of_the_profile():
    model = profiled(ToolCall("ls", {"path": "/"}), "done")
    turn = await Agent(model, [ls, cat], "You look.").run("go")
    assert {request.system for request in model.requests} == {"You look.\n\nBe brief."}
    assert told(model.requests[0]) == {"ls": "Show a folder.", "cat": "Show a file."}
    assert turn.messages[2].text == "in /"


def test_a_tool_that_another_model_uses_too_keeps_its_own_description():
    profiled_agent, plain = Agent(profiled(), [ls]), Agent(ScriptedModel([]), [ls])
    assert [agent.spec.tools["ls"].description for agent in (profiled_agent, plain)] == [
        "Show a folder.",
        "List a folder.",
    ]
    assert plain.spec.tools["ls"] is ls


def test_no_profile_changes_nothing():
    plain, empty = Agent(ScriptedModel([]), [ls], "You look."), Agent(profiled(profile=Profile()), [ls], "You look.")
    assert (plain.spec.system, plain.spec.tool_list) == (empty.spec.system, empty.spec.tool_list)


async def test_a_subagent_is_told_in_the_words_of_its_own_model():
    """It inherits those of its parent's with the model, whichever tools it has."""
    work = [ToolCall("task", {"description": "d", "subagent_type": name}) for name in ("own", "same")]
    main, own = profiled(*work, "read", "done"), profiled("read", profile=Profile("Think twice."))
    children = [Subagent(name="own", description="o", system_prompt="You read.", model=own),
                Subagent(name="same", description="s", system_prompt="You read.", tools=[cat])]  # fmt: skip
    turn = await create_deep_agent(main, subagents=children).run("go")
    first, _, child, last = main.requests
    assert turn.text == "done"
    assert [request.system.split("\n\n")[-2] for request in (first, child, *own.requests)] == [
        "Be brief.",
        "Be brief.",
        "Think twice.",
    ]
    assert (told(first)["task"], told(first)["ls"]) == ("Delegate.", "Show a folder.")
    assert "task" not in told(child)
    assert told(own.requests[0])["ls"] != "Show a folder."
    assert last.system is first.system
    assert last.tools is first.tools


async def test_the_prompt_that_never_changes_ends_with_the_suffix():
    """Memory, which changes, comes behind it."""
    model = profiled(ToolCall("write_file", {"file_path": "/AGENTS.md", "content": "Say please."}), "done")
    await create_deep_agent(model, memory=["/AGENTS.md"]).run("go")
    second = model.requests[1]
    assert second.system[: second.stable].rstrip().endswith("Be brief.")
    assert "Say please." in second.system[second.stable :]


@pytest.mark.parametrize("around", [RateLimiter, lambda model: FallbackModel([model, ScriptedModel([])])])
def test_what_stands_around_a_model_has_its_profile(around):
    assert Agent(around(profiled()), [ls], "You look.").spec.system == "You look.\n\nBe brief."
    assert Agent(around(ScriptedModel([])), [ls], "You look.").spec.system == "You look."


@pytest.mark.parametrize("kind", [Anthropic, OpenAI, OpenAIChat])
def test_the_models_of_providers_take_one(kind):
    assert kind("x", profile=PROFILE).profile is PROFILE
    assert kind("x").profile is None


async def test_it_is_no_setting_of_the_request():
    with Provider(reply("anthropic", text="done")) as provider:
        async with claude.connected(provider.url) as client:
            await Agent(Anthropic("claude-x", client=client, profile=PROFILE), [ls]).run("go")
    assert provider.bodies[0]["system"] == [{"type": "text", "text": "Be brief."}]
    assert provider.bodies[0]["tools"][0]["description"] == "Show a folder."
    assert "profile" not in json.dumps(provider.bodies)


def test_what_is_no_profile_is_refused():
    with pytest.raises(ConfigError, match="model 'scripted': profile must be a `Profile`, not 'brief'"):
        Agent(profiled(profile="brief"))


def test_a_description_of_a_tool_that_no_agent_has_is_refused():
    with pytest.raises(
        ConfigError, match="its profile describes 'taks', which no agent that uses it has; the tools are "
    ):
        create_deep_agent(profiled(profile=Profile(descriptions={"taks": "Delegate."})))
    other = profiled(profile=Profile(descriptions={"task": "Delegate."}))
    with pytest.raises(ConfigError, match="describes 'task'"):
        create_deep_agent(ScriptedModel([]), subagents=[Subagent(name="one", description="one", model=other)])
