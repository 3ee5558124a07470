"""Misspelt hooks are refused when the agent is built: such a method would never be called."""

import functools
import importlib

import pytest

from minideep import Agent, ConfigError, Middleware, create_deep_agent, middleware
from minideep.middleware import TodoListMiddleware
from minideep.models import ScriptedModel
from minideep.runtime.spec import HOOKS, check_hooks


def having(*names):
    """Middleware with methods of these names."""

    async def method(self, ctx, *rest):
        raise AssertionError("never called")

    return type("Odd", (Middleware,), dict.fromkeys(names, method))()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("before_tools", "before_tool"),
        ("after_model", ""),
        ("befor_tool", "before_tool"),
        ("beforeTool", "before_tool"),
        ("before_finnish", "before_finish"),
        ("abefore_model", "before_model"),
        ("wrap_model_call", ""),
        ("before_agent", ""),
    ],
)
@pytest.mark.parametrize("build", [Agent, create_deep_agent])
def test_a_misspelt_hook_is_refused_and_the_hooks_are_named(build, name, meant):
    with pytest.raises(
        ConfigError, match=rf"Odd\.{name} is not a hook; .*{meant}.*the hooks are before_model, wrap_model, "
    ) as refused:
        build(ScriptedModel([]), middleware=[having(name)])
    assert not meant or f"did you mean {meant}?" in str(refused.value)


def test_a_misspelt_hook_of_a_base_class_is_refused_too():
    kind = type("Below", (type(having("before_tools")),), {})
    with pytest.raises(ConfigError, match="before_tools"):
        Agent(ScriptedModel([]), middleware=[kind()])


def test_a_middleware_may_have_attributes_of_its_own():
    class Poster(Middleware):
        background = True

    agent = Agent(ScriptedModel(["one", "two"]), middleware=[Poster()])
    assert [agent.run_sync("go", "t").text for _ in range(2)] == ["one", "two"]


def test_a_middleware_may_have_other_methods():
    class Mine(TodoListMiddleware):
        before = after_noon = "no method"

        def look_up_model(self):
            """Look up."""

        async def tool_call(self):
            """Call."""

    assert (
        Agent(ScriptedModel(["ok"]), middleware=[Mine(), having("prepare", "finish", "model")]).run_sync("go").text
        == "ok"
    )


@pytest.mark.parametrize("hook", [lambda self, ctx, call: call, None, 5])
def test_a_hook_that_cannot_be_awaited_is_refused_when_the_agent_is_built(hook):
    part = type("Plain", (Middleware,), {"before_tool": hook})()
    with pytest.raises(ConfigError, match=r"^Plain\.before_tool must be an `async def`, as it is awaited$"):
        Agent(ScriptedModel([]), middleware=[part])


def test_a_plain_function_that_wraps_an_async_hook_is_accepted():
    async def before_finish(self, ctx):
        return None

    @functools.wraps(before_finish)
    def outer(self, ctx):
        return before_finish(self, ctx)

    part = type("Wrapped", (Middleware,), {"before_finish": outer})()
    assert Agent(ScriptedModel(["ok"]), middleware=[part]).run_sync("go").status == "ended"


def test_a_hook_that_is_set_on_the_object_is_refused():
    class Guard(Middleware):
        def __init__(self):
            self.before_tool = self.deny

        async def deny(self, ctx, call):
            raise AssertionError("never called")

    with pytest.raises(ConfigError, match=r"^Guard\.before_tool is set on the object"):
        Agent(ScriptedModel([]), middleware=[Guard()])


def test_a_hook_that_is_set_on_its_class_later_is_checked_again():
    class Mine(Middleware):
        async def before_model(self, ctx, request):
            return request

    Agent(ScriptedModel([]), middleware=[Mine()])
    Mine.before_model = lambda self, ctx, request: request
    with pytest.raises(ConfigError, match="must be an `async def`"):
        Agent(ScriptedModel([]), middleware=[Mine()])


def ours(kind):
    return [kind, *(one for below in kind.__subclasses__() if "minideep" in below.__module__ for one in ours(below))]


def test_the_hooks_of_our_own_classes_are_right():
    """They are not checked when an agent is built."""
    for module in ("blueprint.graph", "cli.approval", "evals.trajectory", "middleware.output"):
        importlib.import_module(f"minideep.{module}")
    kinds = {getattr(middleware, name) for name in middleware.__all__} & {*ours(Middleware)}
    assert len(kinds) >= 13  # Of which none was missed.
    for kind in ours(Middleware):
        check_hooks(kind, *[getattr(kind, hook) for hook in HOOKS])
