"""`create_deep_agent`: its tools, and how users replace its middleware."""

import pytest
from harness.agents import ping

from minideep import (
    ConfigError,
    Middleware,
    Subagent,
    ToolCall,
    create_deep_agent,
)
from minideep.backends import StateBackend
from minideep.middleware import (
    MemoryMiddleware,
    OffloadMiddleware,
    PromptCachingMiddleware,
    SkillsMiddleware,
    SubAgentMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)
from minideep.models import Anthropic, OpenAI, OpenAIChat, ScriptedModel
from minideep.state import State


async def test_a_default_agent_shows_its_ten_tools_in_every_request():
    model = ScriptedModel([ToolCall("ls"), "ok"])
    await create_deep_agent(model, [ping]).run("go")
    names = [[item.name for item in request.tools] for request in model.requests]
    assert names[0] == names[1]
    assert names[0] == [
        "write_todos", "ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep", "task",
        "compact_conversation", "ping",
    ]  # fmt: skip


def whole(model, **options):
    """An agent of which every middleware is switched on."""
    return create_deep_agent(model, [ping], memory=["/AGENTS.md"], skills=["/skills"], **options)


class Mine:
    """Subclasses."""

    class Todos(TodoListMiddleware): ...

    class Offload(OffloadMiddleware): ...

    class Summarization(SummarizationMiddleware): ...

    class Caching(PromptCachingMiddleware): ...

    class Skills(SkillsMiddleware): ...

    class Memory(MemoryMiddleware): ...


FILES = StateBackend()


PARTS = [
    OffloadMiddleware(FILES, result_tokens=9),
    SummarizationMiddleware(ScriptedModel([]), FILES),
    PromptCachingMiddleware("1h"),
    SkillsMiddleware(["/mine"], FILES),
    MemoryMiddleware(["/MINE.md"], FILES),
    Mine.Offload(FILES),
    Mine.Summarization(ScriptedModel([]), FILES),
    Mine.Caching(),
    Mine.Skills(["/mine"], FILES),
    Mine.Memory(["/MINE.md"], FILES),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_middleware_of_a_built_in_class_or_a_subclass_replaces_the_built_in_one(part):
    usual = whole(ScriptedModel([])).spec
    spec = whole(ScriptedModel([]), middleware=[part]).spec
    (place,) = [index for index, built in enumerate(usual.before_model) if isinstance(part, type(built))]
    assert [index for index, one in enumerate(spec.before_model) if one is part] == [place]
    assert len(spec.before_model) == len(usual.before_model)
    assert list(spec.tools) == list(usual.tools)


def test_a_subclass_with_a_tool_replaces_the_built_in_one_in_subagents_too():
    child = Subagent(name="critic", description="finds faults", middleware=[Mine.Todos()])
    agent = create_deep_agent(ScriptedModel([]), middleware=[Mine.Todos()], subagents=[child])
    assert list(agent.spec.tools) == list(create_deep_agent(ScriptedModel([])).spec.tools)


def test_a_replaced_middleware_is_replaced_for_general_purpose_and_for_no_other_subagent():
    class Mine(TodoListMiddleware):
        prompt = "This list is mine."

    calls = [ToolCall("task", {"description": "d", "subagent_type": name}) for name in ("general-purpose", "other")]
    model = ScriptedModel([calls, "done", "done", "over"])
    agent = create_deep_agent(model, subagents=[Subagent(name="other", description="o")], middleware=[Mine()])
    assert agent.run_sync("go").status == "ended"
    assert ["This list is mine." in request.system for request in model.requests] == [True, True, False, True]


def names_of(agent):
    return [part.name.removesuffix("Middleware") for part in agent._middleware]


def test_the_middleware_stands_in_the_documented_order_with_the_users_behind_and_approvals_last():
    class Theirs(Middleware): ...

    worker = Subagent(name="worker", description="works", background=True)
    agent = whole(ScriptedModel([]), subagents=[worker], middleware=[Theirs()], interrupt_on={"ping": True})
    assert names_of(agent) == [
        "TodoList", "Filesystem", "Offload", "SubAgent", "AsyncSubAgent", "Summarization", "PromptCaching",
        "PatchToolCalls", "Skills", "Memory", "Environment", "Theirs", "HumanInTheLoop",
    ]  # fmt: skip


def subagent_of(agent, name):
    (part,) = [part for part in agent._middleware if isinstance(part, SubAgentMiddleware)]
    return part._agents[name][1]


def test_general_purpose_has_the_skills_of_the_main_agent_and_no_other_subagent_has():
    mine = Subagent(name="mine", description="has its own", skills=["/mine"])
    agent = whole(ScriptedModel([]), subagents=[mine, Subagent(name="other", description="o")])
    sources = {
        name: [part._sources for part in subagent_of(agent, name)._middleware if isinstance(part, SkillsMiddleware)]
        for name in ("general-purpose", "mine", "other")
    }
    assert {name: [list(one) for one in found] for name, found in sources.items()} == {
        "general-purpose": [["/skills"]], "mine": [["/mine"]], "other": [],
    }  # fmt: skip


async def test_a_general_purpose_of_the_users_takes_the_place_of_the_built_in_one():
    mine = Subagent(name="general-purpose", description="mine", model=ScriptedModel(["here I am"]))
    model = ScriptedModel([ToolCall("task", {"description": "d", "subagent_type": "general-purpose"}), "ok"])
    agent = create_deep_agent(model, subagents=[mine])
    assert (await agent.run("go")).messages[2].text == "here I am"
    assert agent.spec.tools["task"].description.count("general-purpose") == 1


async def test_the_public_state_of_a_thread_is_messages_todos_files_and_background_jobs():
    worker = Subagent(name="worker", description="works", background=True, model=ScriptedModel(["done"]))
    todo = ToolCall("write_todos", {"todos": [{"content": "begin", "status": "pending"}]})
    write = ToolCall("write_file", {"file_path": "/a", "content": "b"})
    start = ToolCall("start_task", {"description": "d", "subagent_type": "worker"}, "s1")
    agent = create_deep_agent(ScriptedModel([[todo, write, start], "ok"]), subagents=[worker])
    async with agent:
        await agent.run("go", "t")
    state = agent.get_state("t")
    assert (len(state.messages) >= 6, [one.content for one in state.todos], [*state.files]) == (True, ["begin"], ["/a"])
    (job,) = state.notes["async_subagent_jobs"].values()
    assert (job["agent"], job["call_id"]) == ("worker", "s1")


def test_the_notes_of_summarization_cannot_be_shared():
    with pytest.raises(ConfigError, match="shares 'summarization'"):
        create_deep_agent(ScriptedModel([]), subagents=[Subagent(name="x", description="x", share=["summarization"])])


def test_a_second_middleware_of_one_class_is_added():
    one, two = PromptCachingMiddleware("1h"), PromptCachingMiddleware("5m")
    assert whole(ScriptedModel([]), middleware=[one, two]).spec.before_model[-1] is two


@pytest.mark.parametrize("kind", [Anthropic, OpenAI, OpenAIChat])
def test_a_model_of_a_provider_has_the_window_that_it_is_given(kind):
    small, unknown = kind("some-model", window=32_000), kind("some-model")
    backend = StateBackend()
    meters = [SummarizationMiddleware(model, backend).meter for model in (small, unknown)]
    agent = whole(small)
    assert [meter(agent, State()).trigger for meter in meters] == [27_200, 170_000]
    assert "window" not in vars(small)["_settings"]
