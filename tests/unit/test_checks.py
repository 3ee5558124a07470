"""Wrong arguments are refused with an error that names them, and unusual but correct ones are accepted."""

import enum
import inspect
import re
from itertools import count

import pytest

from minideep import (
    Agent,
    ConfigError,
    DiskCheckpointer,
    EncryptedCheckpointer,
    Limits,
    MemoryCheckpointer,
    Middleware,
    Subagent,
    ToolCall,
    create_deep_agent,
    tool,
)
from minideep.backends import LocalShellBackend
from minideep.mcp import MCPClient
from minideep.models import FallbackModel, OpenAI, RedactPII, ScriptedModel


@tool
async def ping(text: str = "pong") -> str:
    """Answer."""
    return text


class HalfAStore:
    """Has some of what a store has."""

    retention = MemoryCheckpointer().retention

    def append(self, *args):
        """Append."""


def model():
    return ScriptedModel(lambda request: "ok")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": 5}, "Agent: model must be text or a `Model`, not 5"),
        ({"model": ScriptedModel}, "pass an instance, ScriptedModel()"),
        ({"checkpointer": []}, "Agent: checkpointer must be a `Store`, or None, not []"),
        ({"checkpointer": MemoryCheckpointer}, "pass an instance, MemoryCheckpointer()"),
        ({"checkpointer": HalfAStore()}, "it has no 'open', 'read', 'heads', 'held', 'aclose'"),
        ({"middleware": [Middleware]}, "pass an instance, Middleware()"),
        ({"middleware": Middleware()}, "middleware must be a list, not <minideep.ports.Middleware object"),
        ({"tools": [ping, "ls"]}, "Agent: tools[1] must be a `Tool` or a function, not 'ls'"),
        ({"tools": iter([ping, "ls"])}, "Agent: tools[1] must be a `Tool` or a function, not 'ls'"),
        ({"tools": ping}, "Agent: tools must be a list, not Tool('ping'); write [Tool('ping')]"),
        ({"limits": Limits(steps="x")}, "limits.steps must be a whole number of 0 or more, or None, not 'x'"),
        ({"redact": model().complete}, "it is a coroutine function, and nobody would await it"),
        ({"system_prompt": b"x" * 500}, "system_prompt must be text, not b'xxx"),
    ],
)
def test_an_error_names_the_parameter_what_was_given_and_what_is_wanted(given, said):
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        Agent(**{"model": model()} | given)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "make",
    [
        lambda key: OpenAI("x", api_key=key.encode()),
        lambda key: RedactPII(model(), strategy="hash", secret=[key]),
        lambda key: EncryptedCheckpointer(MemoryCheckpointer(), key),
        lambda key: LocalShellBackend(".", env={"KEY": key.encode()}),
        lambda key: LocalShellBackend(".", env={"KEY": f"{key}\0"}),
        lambda key: MCPClient("https://example.com/mcp", headers=f"Authorization: {key}"),
        lambda key: MCPClient("https://example.com/mcp", headers=[("Authorization", key)]),
        lambda key: MCPClient(f"server --key '{key}"),
    ],
)
def test_no_error_shows_a_secret(make):
    with pytest.raises(ConfigError) as refused:
        make("sk-secret")
    assert "sk-secret" not in str(refused.value)


def test_what_to_do_about_a_wrong_secret_is_said_all_the_same():
    with pytest.raises(ConfigError, match=r"not a value of type bytes; write AESGCM\(key\)"):
        EncryptedCheckpointer(MemoryCheckpointer(), b"sk-secret")


class Words(str):
    __slots__ = ()


class Named(enum.StrEnum):
    OFFLINE = "offline:"


def test_a_subclass_of_a_plain_type_is_refused_early_because_it_cannot_be_stored():
    with pytest.raises(ConfigError, match=re.escape("must be text or a `Model`, not 'x'; convert it with str()")):
        Agent(Words("x"))
    with pytest.raises(ConfigError, match=r"input must be .*; convert it with str\(\)"):
        Agent(model()).run_sync(Words("x"))


def test_a_member_of_an_enum_stands_for_its_value():
    assert Agent(Named.OFFLINE, checkpointer=MemoryCheckpointer()).run_sync("go", "t").saved


def test_an_object_that_holds_a_wrong_part_is_refused_when_it_is_made():
    with pytest.raises(ConfigError, match="DiskCheckpointer: retention must be a `Retention`, or None, not 5"):
        DiskCheckpointer("state", retention=5)
    with pytest.raises(ConfigError, match=r"Subagent: tools\[0\] must be a `Tool` or a function, not 5"):
        Subagent(name="x", description="y", tools=[5])

    class Odd(Middleware):
        prompt = None

    with pytest.raises(ConfigError, match=r"Agent: middleware\[0\]\.prompt must be text, not None"):
        Agent(model(), middleware=[Odd()])


def test_signatures_and_docs_are_those_of_the_functions_themselves():
    assert list(inspect.signature(Agent).parameters)[:2] == ["model", "tools"]
    assert list(inspect.signature(Agent.run).parameters)[:4] == ["self", "input", "thread_id", "key"]
    assert Agent.run.__doc__.startswith("Run one turn")
    assert inspect.iscoroutinefunction(Agent.run)
    with pytest.raises(TypeError, match="unexpected keyword argument 'thread'"):
        Agent(model()).run_sync("go", thread="t")


def test_an_iterator_is_read_once_and_one_without_an_end_is_never_read_ahead():
    agent = Agent(
        (ScriptedModel(f"reply {number}" for number in count())), (one for one in [ping]), middleware=iter(())
    )
    assert [agent.run_sync("go", "t").text for _ in range(2)] == ["reply 0", "reply 1"]
    assert "ping" in agent.spec.tools
    assert FallbackModel(iter(["offline:"])).name


@pytest.mark.parametrize("prompt", ["system_prompt", "prompt"])
def test_a_subagent_may_be_a_dict_as_deepagents_writes_it(prompt):
    script = [ToolCall("task", {"description": "Judge", "subagent_type": "critic"}, "t1"), "Done."]
    mine = ScriptedModel([ToolCall("ping"), "Too long."])
    critic = {
        "name": "critic",
        "description": "finds faults",
        prompt: "You find faults.",
        "tools": [ping],
        "model": mine,
    }
    critic |= {"middleware": [], "interrupt_on": {"ping": False}, "skills": ["/skills/"]}
    turn = create_deep_agent(ScriptedModel(script), subagents=[critic]).run_sync("go")
    assert (turn.status, turn.messages[2].text) == ("ended", "Too long.")
    assert mine.requests[0].system.startswith("You find faults.")


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (
            {"graph_id": 5},
            "subagents[0]: 'graph_id' is not a key of a subagent; the keys are name, description, system_prompt, ",
        ),
        ({"runnable": 5}, "Subagent: agent must be None or an `Agent`, not 5"),
        ({"tools": 5}, "Subagent: tools must be a list, or None, not 5"),
        ({"interrupt_on": {"ping": {"allowed_decisions": ["approve"]}}}, "interrupt_on['ping'] must be True or False"),
        ({"prompt": "x", "system_prompt": "y"}, "subagents[0]: 'prompt' is not a key of a subagent"),
        ({"name": None}, "Subagent: name must be text, not None"),
        (
            {"subagents": [{"name": "z"}]},
            "subagents[0].subagents[0] must have a 'description', which is missing from {'name': 'z'}",
        ),
        ({"subagents": [5]}, "Subagent: subagents[0] must be a `Subagent`, not 5"),
    ],
)
def test_a_dict_that_is_no_subagent_is_refused_by_name(about, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        create_deep_agent(model(), subagents=[{"name": "x", "description": "y"} | about])
    with pytest.raises(ConfigError, match=re.escape("subagents[1] must have a 'description'")):
        create_deep_agent(model(), subagents=[Subagent(name="x", description="y"), {"name": "z"}])


@pytest.mark.parametrize(
    ("name", "wrong"), [("checkpointer", []), ("durability", "never"), ("redact", model().complete)]
)
async def test_what_is_set_later_is_refused_at_every_verb_and_nothing_is_done(name, wrong):
    agent = Agent(model(), checkpointer=MemoryCheckpointer())
    await agent.run("go", "t")
    right = getattr(agent, name)
    vars(agent)[name] = wrong
    for verb in (lambda: agent.run("go", "t"), lambda: agent.resume("t"), lambda: agent.save("t")):
        with pytest.raises(ConfigError, match=f"Agent: {name} must be "):
            await verb()
    with pytest.raises(ConfigError, match=f"Agent: {name} must be "):
        agent.get_state("t")
    vars(agent)[name] = right
    assert (await agent.run("go", "t")).status == "ended"
    assert len(agent.spec.model.requests) == 2


def test_a_dict_of_a_subagent_may_hold_dicts_of_those_below_it():
    below = {"name": "below", "description": "b", "subagents": [{"name": "lowest", "description": "c"}]}
    agent = create_deep_agent(model(), subagents=[below])
    assert "- below: b" in agent.spec.tools["task"].description


def test_an_attribute_that_a_property_misses_is_named_and_not_hidden():
    class Odd(Agent):
        @property
        def tools(self):
            return self.nothing

    with pytest.raises(AttributeError, match="'Odd' object has no attribute 'nothing'"):
        _ = Odd(model()).tools
    assert not hasattr(Agent(model()), "invoke")


@pytest.mark.parametrize("given", [-1.0, "-1", -0.5, "x"])
def test_a_remedy_is_a_value_that_would_be_accepted(given):
    for limits in (Limits(steps=given), Limits(cost=given)):
        with pytest.raises(ConfigError) as caught:
            Agent(ScriptedModel(["ok"]), limits=limits)
        assert "write" not in str(caught.value)
