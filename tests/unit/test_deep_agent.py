"""`create_deep_agent`: its tools, and how users replace its middleware."""

import pytest
from harness.agents import ping

from minideep import (
    ConfigError,
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
