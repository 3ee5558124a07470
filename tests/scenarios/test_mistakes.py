"""Mistakes that people make in their first week: each gives one sentence with the remedy."""

import ast
import asyncio
import contextlib
import inspect
import logging
import warnings

import pytest

from minideep import (
    AuthenticationFailed,
    ConfigError,
    LimitExceeded,
    MiddlewareError,
    ModelError,
    ThreadBusy,
    ToolError,
    UnknownThread,
)

LONGEST = 400
"""Characters of a sentence: Python's own list of what a `Blueprint` takes is that long."""
SECRET = "sk-verysecretkey"

PRELUDE = '''
import asyncio
from pathlib import Path
from minideep import *
from minideep.backends import FilesystemBackend, StateBackend
from minideep.blueprint import Blueprint, Role
from minideep.cli import main
from minideep.evals import Golden, evaluate, load
from minideep.middleware import TodoListMiddleware
from minideep.models import Anthropic, FallbackModel, OpenAI, Price, RateLimiter, ScriptedModel

model = ScriptedModel(lambda request: "Done.")

@tool
def pay(amount: int) -> str:
    """Pay an invoice."""
    return f"paid {amount}"

async def waiting():
    """An agent whose thread "t" waits for a decision about the call "p1"."""
    script = ScriptedModel([ToolCall("pay", {"amount": 1}, "p1"), "Paid."])
    agent = create_deep_agent(script, [pay], interrupt_on={"pay": True})
    await agent.run("Pay.", "t")
    return agent

def ended():
    """An agent whose thread "t" has ended."""
    agent = Agent(model)
    agent.run_sync("Hello", "t")
    return agent

def read(function):
    """Raise what the model reads when it calls *function*."""
    agent = Agent(ScriptedModel([ToolCall(tool(function).name), "Done."]), [function])
    raise ToolError(agent.run_sync("Go.").messages[2].text)

def wearing(part):
    """Run a turn with one call, and a middleware."""
    script = ScriptedModel([ToolCall("pay", {"amount": 1}), "Done."])
    Agent(script, [pay], middleware=[part]).run_sync("Go.").raise_for_status()

class Log(Middleware):
    """Does nothing."""
'''
"""What every program begins with. A program is what stands in the cell of a notebook: it may `await`."""

IN_AN_AGENT = "create_deep_agent(model, {})"
IN_A_MIDDLEWARE = """
class Log(Middleware):
    {}
wearing(Log())
"""

MISTAKES = [
    # ---- keys and models
    (
        "no key of Anthropic",
        "turn = await Agent('anthropic:claude-sonnet-4-6').run('Hello')\nturn.raise_for_status()",
        AuthenticationFailed,
        ["claude-sonnet-4-6: ", "set ANTHROPIC_API_KEY to a key"],
    ),
    (
        "no key of OpenAI",
        "Agent('openai:gpt-5').run_sync('Hello').raise_for_status()",
        AuthenticationFailed,
        ["gpt-5: ", "set OPENAI_API_KEY to a key"],
    ),
    (
        "a key beside a client",
        f"import anthropic\nAnthropic('claude-sonnet-4-6', client=anthropic.AsyncAnthropic(api_key='k'), api_key={SECRET!r})",
        ConfigError,
        ["model 'claude-sonnet-4-6' takes an api_key or a client, not both; give it to the client"],
    ),
    (
        "a setting mistyped",
        "Anthropic('claude-sonnet-4-6', thinkin={'type': 'adaptive'})",
        ConfigError,
        ["Anthropic: the anthropic SDK knows no setting 'thinkin'; did you mean 'thinking'?"],
    ),
    (
        "a key as an argument of the agent",
        f"Agent('openai:gpt-5', api_key={SECRET!r})",
        TypeError,
        ["Agent() got an unexpected keyword argument 'api_key'", "it takes model, tools, system_prompt"],
    ),
    (
        "a model without its provider",
        "Agent('gpt-5')",
        ConfigError,
        ["unknown model 'gpt-5'", "write `provider:model`, the provider one of anthropic:, openai:"],
    ),
    (
        "a provider with a slash",
        "Agent('openai/gpt-5')",
        ConfigError,
        ["unknown model 'openai/gpt-5'", "write `provider:model`"],
    ),
    (
        "a provider mistyped",
        "Agent('antropic:claude-sonnet-4-6')",
        ConfigError,
        ["unknown model 'antropic:claude-sonnet-4-6'", "did you mean 'anthropic:'?"],
    ),
    (
        "a provider in capitals",
        "Agent('OpenAI:gpt-5')",
        ConfigError,
        ["unknown model 'OpenAI:gpt-5'", "did you mean 'openai:'?"],
    ),
    (
        "a provider without a model",
        "Agent('anthropic:')",
        ConfigError,
        ["model 'anthropic:' names no model", "write for example `anthropic:MODEL`"],
    ),
    (
        "a provider in the name of a model",
        "Anthropic('anthropic:claude-sonnet-4-6')",
        ConfigError,
        ["Anthropic: the model's name must be without its provider", "write Anthropic('claude-sonnet-4-6')"],
    ),
    (
        "a client in place of a model",
        f"import openai\nAgent(openai.AsyncOpenAI(api_key={SECRET!r}))",
        ConfigError,
        ["Agent: model must be text or a `Model`, not <openai.AsyncOpenAI object>", "or OpenAI(name, client=...)"],
    ),
    (
        "a synchronous client",
        f"import openai\nOpenAI('gpt-5', client=openai.OpenAI(api_key={SECRET!r}))",
        ConfigError,
        ["OpenAI: client must be an `openai.AsyncOpenAI`, or None, not <openai.OpenAI object>"],
    ),
    (
        "another library's model",
        "class ChatAnthropic:\n    def invoke(self, messages): ...\ncreate_deep_agent(ChatAnthropic())",
        ConfigError,
        ["create_deep_agent: model must be text or a `Model`", "write a string such as 'anthropic:claude-sonnet-4-6'"],
    ),
    (
        "the class of a model",
        "Agent(Anthropic)",
        ConfigError,
        ["Agent: model must be text or a `Model`, not <class", "pass an instance, Anthropic()"],
    ),
    (
        "None as a model",
        "create_deep_agent(None)",
        ConfigError,
        ["create_deep_agent: model must be text or a `Model`, not None", "write a string such as"],
    ),
    (
        "a function as a model",
        "Agent(lambda request: 'Hello')",
        ConfigError,
        ["Agent: model must be text or a `Model`, not <function <lambda>>", "write a string such as"],
    ),
    ("no model", "create_deep_agent()", TypeError, ["create_deep_agent() missing 1 required", "argument: 'model'"]),
    (
        "tools in place of the model",
        "create_deep_agent([pay], 'You help.')",
        ConfigError,
        ["create_deep_agent: model must be text or a `Model`, not [Tool('pay')]", "write a string such as"],
    ),
    (
        "instructions in place of system_prompt",
        "create_deep_agent(model, [pay], instructions='You help.')",
        TypeError,
        [
            "create_deep_agent() got an unexpected keyword argument 'instructions'",
            "it takes model, tools, system_prompt",
        ],
    ),
    (
        "a script of one text",
        "ScriptedModel('Done.')",
        ConfigError,
        ["ScriptedModel: replies must be a list or a function, not 'Done.'", "write ['Done.']"],
    ),
    (
        "a script that is too short",
        "agent = Agent(ScriptedModel(['One.']))\nagent.run_sync('1', 't')\nagent.run_sync('2', 't').raise_for_status()",
        ModelError,
        ["scripted: the script has 1 reply and was asked for one more"],
    ),
    (
        "a price as a tuple",
        "Anthropic('claude-sonnet-4-6', price=(3, 15))",
        ConfigError,
        ["Anthropic: price must be a `Price`, or None, not (3, 15)", "write Price(input=..., output=...)"],
    ),
    (
        "a number as text",
        "RateLimiter(model, max_concurrency='5')",
        ConfigError,
        ["RateLimiter: max_concurrency must be a whole number above 0, not '5'", "write 5"],
    ),
    # ---- what must be awaited
    (
        "run not awaited",
        "agent = Agent(model)\nagent.run('Hello')",
        RuntimeWarning,
        ["coroutine 'Agent.run' was never awaited"],
    ),
    (
        "resume not awaited",
        "turn = Agent(model).resume('t')\nturn.text",
        AttributeError,
        ["'coroutine' object has no attribute 'text'"],
    ),
    (
        "evaluate not awaited",
        "evaluate(Agent(model), [Golden('Hello')])",
        RuntimeWarning,
        ["coroutine 'evaluate' was never awaited"],
    ),
    (
        "a handle not awaited",
        "handle = await Agent(model).start('Hello')\nhandle.text",
        AttributeError,
        ["'Handle' object has no attribute 'text'", "await it first: `turn = await handle`"],
    ),
    (
        "events followed in a plain for",
        "for event in ended().follow('t'): print(event)",
        TypeError,
        ["'async_generator' object is not iterable"],
    ),
    (
        "run_sync in a tool",
        "async def act() -> str:\n    'Act.'\n    return Agent(model).run_sync('Hello').text\nread(act)",
        ToolError,
        ["act failed: ConfigError: `run_sync` was called by a coroutine", "`await agent.run(...)` there"],
    ),
    # ---- tools
    (
        "a tool without a description",
        "def act(path: str) -> str:\n    return path\nAgent(model, [act])",
        UserWarning,
        ["tool 'act' has no description", "give its function a docstring"],
    ),
    (
        "a tool without type hints",
        "def act(path):\n    'Act.'\nAgent(model, [act])",
        ConfigError,
        ["tool 'act': parameter 'path' of its function has no type hint", "write `ctx: ToolContext` or", "`text: str`"],
    ),
    (
        "a tool with *args",
        "def act(*paths: str):\n    'Act.'\nAgent(model, [act])",
        ConfigError,
        ["tool 'act': parameter '*paths' of its function cannot be passed by name", "take a list"],
    ),
    (
        "a tool with **kwargs",
        "def act(**options: str):\n    'Act.'\nAgent(model, [act])",
        ConfigError,
        ["tool 'act': parameter '**options' of its function cannot be passed by name", "take a list or a dict"],
    ),
    (
        "a tool that takes an object",
        "class Shop: ...\ndef act(shop: Shop):\n    'Act.'\nAgent(model, [act])",
        ConfigError,
        ["tool 'act': its function has a parameter of a type that JSON cannot express", "objects from `ctx.context`"],
    ),
    (
        "a tool with a misspelt annotation",
        "def act(ctx: 'Toolcontext') -> str:\n    'Act.'\nAgent(model, [act])",
        ConfigError,
        ["tool 'act': its signature cannot be read", "name 'Toolcontext' is not defined"],
    ),
    (
        "a tool made inside a class",
        "class Shop:\n    @tool\n    def pay(self, amount: int) -> str:\n        'Pay.'",
        ConfigError,
        ["tool 'pay': parameter 'self' of its function has no type hint", "make the tool of an object's method"],
    ),
    (
        "a name with spaces",
        "@tool(name='pay an invoice')\ndef act() -> str:\n    'Act.'",
        ConfigError,
        ["tool 'pay an invoice': its name must be 1 to 128 letters", "`@tool(name=...)` gives another name"],
    ),
    (
        "a name in the decorator",
        "@tool('act')\ndef other() -> str:\n    'Act.'",
        ConfigError,
        ["tool: function must be a function, and its name given by `name=`"],
    ),
    (
        "a description in the decorator",
        "@tool(describe='Act.')\ndef act() -> str: ...",
        TypeError,
        ["tool() got an unexpected keyword argument 'describe'", "it takes name"],
    ),
    (
        "two tools of one name",
        "Agent(model, [pay, tool(pay.function)])",
        ConfigError,
        ["two tools are named 'pay'", "give one of them another name"],
    ),
    (
        "a tool named like a built-in one",
        "@tool\ndef write_file(path: str) -> str:\n    'Write.'\ncreate_deep_agent(model, [write_file])",
        ConfigError,
        ["two tools are named 'write_file', one of them by FilesystemMiddleware", "give one of them another name"],
    ),
    (
        "a lambda as a tool",
        "Agent(model, [lambda text: text])",
        ConfigError,
        ["tool '<lambda>': parameter 'text' of its function has no type hint"],
    ),
    (
        "a class as a tool",
        "class Search:\n    'Search the web.'\nAgent(model, [Search])",
        ConfigError,
        ["tool 'Search' must be a function, or a method of an object, not <class '__main__.Search'>"],
    ),
    (
        "an object that cannot be called as a tool",
        "class Search: ...\nAgent(model, [Search()])",
        ConfigError,
        ["Agent: tools[0] must be"],
    ),
    (
        "one tool instead of a list",
        "Agent(model, pay)",
        ConfigError,
        ["Agent: tools must be a list, not Tool('pay')", "write [Tool('pay')]"],
    ),
    (
        "a dict of tools",
        "Agent(model, {'pay': pay})",
        ConfigError,
        ["Agent: tools must be a list, not {'pay': Tool('pay')}", "write a list of its values"],
    ),
    (
        "the name of a tool",
        "Agent(model, ['pay'])",
        ConfigError,
        ["Agent: tools[0] must be a `Tool` or a function, not 'pay'", "pass a function, or decorate one with `@tool`"],
    ),
    (
        "an async generator as a tool",
        "@tool\nasync def act():\n    'Act.'\n    yield 'x'",
        ConfigError,
        ["tool 'act' must return one value, and not `yield`", "return a list"],
    ),
    (
        "a tool that returns a coroutine",
        "async def fetch(): ...\nasync def act() -> str:\n    'Act.'\n    return fetch()\nread(act)",
        ToolError,
        ["act failed: TypeError: it returned the coroutine 'fetch'", "write `return await ...`"],
    ),
    (
        "a tool that returns an object",
        "class Page: ...\nasync def act() -> str:\n    'Act.'\n    return Page()\nread(act)",
        ToolError,
        ["act failed: TypeError: it returned <__main__.Page object>, which has no text", "return text, a dict"],
    ),
    (
        "a name in place of an agent",
        "async def act(ctx: ToolContext) -> str:\n    'Act.'\n    return await ctx.run('critic', 'Hello')\nread(act)",
        ToolError,
        ["act failed: ConfigError: ToolContext.run: agent must be an `Agent`, not 'critic'"],
    ),
    (
        "a timeout as text",
        "@tool(timeout='5')\ndef act() -> str:\n    'Act.'",
        ConfigError,
        ["tool: timeout must be a number above 0, or None, not '5'", "write 5"],
    ),
    # ---- subagents
    (
        "a subagent without a description",
        IN_AN_AGENT.format("subagents=[Subagent(name='critic', system_prompt='You find faults.')]"),
        TypeError,
        ["Subagent() needs 'description'", "write Subagent(name=..., description=...)"],
    ),
    (
        "a dict without a description",
        IN_AN_AGENT.format("subagents=[{'name': 'critic', 'system_prompt': 'You find faults.'}]"),
        ConfigError,
        ["subagents[0] must have a 'description', which is missing from {'name': 'critic'"],
    ),
    (
        "a dict with a misspelt key",
        IN_AN_AGENT.format("subagents=[{'name': 'critic', 'description': 'd', 'sytem_prompt': 'p'}]"),
        ConfigError,
        ["subagents[0]: 'sytem_prompt' is not a key of a subagent", "did you mean 'system_prompt'?"],
    ),
    (
        "a dict with an unknown key",
        IN_AN_AGENT.format("subagents=[{'name': 'critic', 'description': 'd', 'graph_id': 'g'}]"),
        ConfigError,
        ["subagents[0]: 'graph_id' is not a key of a subagent", "the keys are name, description, system_prompt"],
    ),
    (
        "prompt in place of system_prompt",
        "Subagent(name='critic', description='finds faults', prompt='You find faults.')",
        TypeError,
        ["Subagent() got an unexpected keyword argument 'prompt'", "it takes name, description, system_prompt"],
    ),
    (
        "a subagent by position",
        "Subagent('critic', 'finds faults')",
        TypeError,
        ["Subagent() takes its arguments by name", "write Subagent(name=..., description=...)"],
    ),
    (
        "two subagents of one name",
        IN_AN_AGENT.format("subagents=[Subagent(name='a', description='d'), Subagent(name='a', description='e')]"),
        ConfigError,
        ["two subagents are named 'a'", "give one of them another name"],
    ),
    (
        "the name of a subagent",
        IN_AN_AGENT.format("subagents=['critic']"),
        ConfigError,
        ["create_deep_agent: subagents[0] must be a `Subagent` or a mapping, not 'critic'", "write Subagent(name=..."],
    ),
    (
        "an agent as a subagent",
        IN_AN_AGENT.format("subagents=[Agent(model, name='critic')]"),
        ConfigError,
        ["create_deep_agent: subagents[0] must be a `Subagent` or a mapping, not <", "write Subagent(name=..."],
    ),
    (
        "a dict of subagents",
        IN_AN_AGENT.format("subagents={'critic': {'description': 'finds faults'}}"),
        ConfigError,
        ["create_deep_agent: subagents must be a list, not {'critic'", "write a list of its values"],
    ),
    (
        "a subagent with a wrong model",
        IN_AN_AGENT.format("subagents=[Subagent(name='a', description='d', model='gpt-5')]"),
        ConfigError,
        ["unknown model 'gpt-5'", "write `provider:model`"],
    ),
    (
        "the names of a subagent's tools",
        "Subagent(name='a', description='d', tools=['pay'])",
        ConfigError,
        ["Subagent: tools[0] must be a `Tool` or a function, not 'pay'", "decorate one with `@tool`"],
    ),
    # ---- backends
    (
        "a path for a backend",
        IN_AN_AGENT.format("backend='./workspace'"),
        ConfigError,
        [
            "create_deep_agent: backend must be a `Backend`, or None, not './workspace'",
            "write FilesystemBackend('folder')",
        ],
    ),
    (
        "a Path for a backend",
        IN_AN_AGENT.format("backend=Path('.')"),
        ConfigError,
        [
            "create_deep_agent: backend must be a `Backend`, or None, not PosixPath('.')",
            "write FilesystemBackend('folder')",
        ],
    ),
    (
        "the class of a backend",
        IN_AN_AGENT.format("backend=FilesystemBackend"),
        ConfigError,
        ["create_deep_agent: backend must be a `Backend`, or None", "pass an instance, FilesystemBackend()"],
    ),
    (
        "a function that makes a backend",
        IN_AN_AGENT.format("backend=lambda runtime: StateBackend()"),
        ConfigError,
        ["create_deep_agent: backend must be a `Backend`, or None, not <function", "or StateBackend()"],
    ),
    (
        "a folder that does not exist",
        "FilesystemBackend('workspace')",
        ConfigError,
        ["FilesystemBackend: root_dir must be an existing folder, not 'workspace'", "create it first"],
    ),
    (
        "a file as the folder",
        "Path('notes.md').write_text('x')\nFilesystemBackend('notes.md')",
        ConfigError,
        ["FilesystemBackend: root_dir must be an existing folder, not 'notes.md'", "give the folder that it is in"],
    ),
    (
        "no folder",
        "FilesystemBackend('')",
        ConfigError,
        ["FilesystemBackend: root_dir must be a path, not ''"],
    ),
    (
        "a backend for a bare agent",
        "Agent(model, backend=StateBackend())",
        TypeError,
        ["Agent() got an unexpected keyword argument 'backend'", "it takes model, tools, system_prompt"],
    ),
    (
        "files in the folder of a store",
        "Agent(model, checkpointer=DiskCheckpointer('state')).run_sync('Hello')\nFilesystemBackend('state')",
        ConfigError,
        [
            "FilesystemBackend: root_dir 'state' is in the folder of a store",
            "keep threads and files in separate folders",
        ],
    ),
    # ---- stores
    (
        "a path for a checkpointer",
        "Agent(model, checkpointer='state')",
        ConfigError,
        ["Agent: checkpointer must be a `Store`, or None, not 'state'", "write DiskCheckpointer('folder')"],
    ),
    (
        "a Path for a checkpointer",
        "Agent(model, checkpointer=Path('state'))",
        ConfigError,
        ["Agent: checkpointer must be a `Store`, or None, not PosixPath('state')", "write DiskCheckpointer('folder')"],
    ),
    (
        "the class of a checkpointer",
        "Agent(model, checkpointer=DiskCheckpointer)",
        ConfigError,
        ["Agent: checkpointer must be a `Store`, or None, not <class", "pass an instance, DiskCheckpointer()"],
    ),
    (
        "another library's checkpointer",
        "class MemorySaver:\n    def put(self, config): ...\nAgent(model, checkpointer=MemorySaver())",
        ConfigError,
        [
            "Agent: checkpointer must be a `Store`, or None, not <__main__.MemorySaver object>",
            "or MemoryCheckpointer()",
        ],
    ),
    (
        "True for a checkpointer",
        "Agent(model, checkpointer=True)",
        ConfigError,
        ["Agent: checkpointer must be a `Store`, or None, not True", "write DiskCheckpointer('folder')"],
    ),
    (
        "a file for a store",
        "Path('state.db').write_text('x')\nDiskCheckpointer('state.db')",
        ConfigError,
        ["'state.db' is a file, not a directory", "give the store another path"],
    ),
    (
        "days of retention",
        "DiskCheckpointer('state', retention=30)",
        ConfigError,
        ["DiskCheckpointer: retention must be a `Retention`, or None, not 30", "write Retention(boundaries=...)"],
    ),
    (
        "a field that Retention does not have",
        "Retention(days=30)",
        TypeError,
        ["Retention() got an unexpected keyword argument 'days'", "it takes boundaries, seconds"],
    ),
    (
        "a timedelta for seconds",
        "from datetime import timedelta\nRetention(seconds=timedelta(days=1))",
        ConfigError,
        ["Retention: seconds must be a number above 0, or None, not datetime.timedelta"],
    ),
    (
        "durability mistyped",
        "Agent(model, durability='turns')",
        ConfigError,
        ["Agent: durability must be 'turn', 'step' or 'tool', not 'turns'", "did you mean 'turn'?"],
    ),
    (
        "another library's durability",
        "Agent(model, durability='sync')",
        ConfigError,
        ["Agent: durability must be 'turn', 'step' or 'tool', not 'sync'"],
    ),
    (
        "redact as a coroutine function",
        "async def redact(event): return event\nAgent(model, redact=redact)",
        ConfigError,
        ["Agent: redact must be a plain function, or None, not <function redact>", "write a plain `def`"],
    ),
    # ---- middleware
    (
        "the class of a middleware",
        "Agent(model, middleware=[Log])",
        ConfigError,
        ["Agent: middleware[0] must be a `Middleware`, not <class '__main__.Log'>", "pass an instance, Log()"],
    ),
    (
        "a function as middleware",
        "async def log(ctx, request): return request\nAgent(model, middleware=[log])",
        ConfigError,
        ["Agent: middleware[0] must be a `Middleware`, not <function log>", "derive a class from `Middleware`"],
    ),
    (
        "a class that does not derive from Middleware",
        "class Other:\n    async def before_model(self, ctx, request): ...\nAgent(model, middleware=[Other()])",
        ConfigError,
        [
            "Agent: middleware[0] must be a `Middleware`, not <__main__.Other object>",
            "derive a class from `Middleware`",
        ],
    ),
    (
        "one middleware instead of a list",
        "Agent(model, middleware=Log())",
        ConfigError,
        ["Agent: middleware must be a list, not <__main__.Log object>", "write [<__main__.Log object>]"],
    ),
    (
        "the same middleware twice",
        "log = Log()\nAgent(model, middleware=[log, log])",
        ConfigError,
        ["middleware lists the same Log twice", "leave one out"],
    ),
    (
        "a built-in middleware twice",
        "Agent(model, middleware=[TodoListMiddleware(), TodoListMiddleware()])",
        ConfigError,
        ["two tools are named 'write_todos', one of them by TodoListMiddleware", "give one of them another name"],
    ),
    (
        "a hook misspelt",
        IN_A_MIDDLEWARE.format("async def before_modle(self, ctx, request): return request"),
        ConfigError,
        ["Log.before_modle is not a hook", "did you mean before_model?"],
    ),
    (
        "another library's hook",
        IN_A_MIDDLEWARE.format("async def after_model(self, ctx, request): return request"),
        ConfigError,
        ["Log.after_model is not a hook", "the hooks are before_model, wrap_model"],
    ),
    (
        "a hook that is not async",
        IN_A_MIDDLEWARE.format("def before_model(self, ctx, request): return request"),
        ConfigError,
        ["Log.before_model must be an `async def`"],
    ),
    (
        "a hook without the context",
        IN_A_MIDDLEWARE.format("async def before_model(self, request): return request"),
        ConfigError,
        [
            "Log.before_model cannot be called with (self, ctx, request)",
            "write `async def before_model(self, ctx, request)`",
        ],
    ),
    (
        "a wrap without its third parameter",
        IN_A_MIDDLEWARE.format("async def wrap_tool(self, ctx, call): return None"),
        ConfigError,
        [
            "Log.wrap_tool cannot be called with (self, ctx, call, run)",
            "write `async def wrap_tool(self, ctx, call, run)`",
        ],
    ),
    (
        "a hook that returns nothing",
        IN_A_MIDDLEWARE.format("async def before_model(self, ctx, request): print(len(request.messages))"),
        MiddlewareError,
        ["Log.before_model must return Request, not None", "to change nothing, write `return request`"],
    ),
    (
        "a wrap that returns nothing",
        IN_A_MIDDLEWARE.format("async def wrap_model(self, ctx, request, ask): await ask(request)"),
        MiddlewareError,
        ["Log.wrap_model must return Reply, not None", "write `return await ask(request)`"],
    ),
    (
        "a wrap that does not await",
        IN_A_MIDDLEWARE.format("async def wrap_model(self, ctx, request, ask): return ask(request)"),
        MiddlewareError,
        ["Log.wrap_model must return Reply, not <coroutine object", "write `return await ask(request)`"],
    ),
    (
        "a result as text",
        IN_A_MIDDLEWARE.format("async def after_tool(self, ctx, call, result): return 'paid'"),
        MiddlewareError,
        ["Log.after_tool must return ToolResult, not 'paid'", "to change nothing, write `return result`"],
    ),
    (
        "a guard that returns True",
        IN_A_MIDDLEWARE.format("async def before_tool(self, ctx, call): return True"),
        MiddlewareError,
        ["Log.before_tool must return ToolCall or ToolResult or Interrupt, not True", "write `return call`"],
    ),
    (
        "a request that is changed in place",
        IN_A_MIDDLEWARE.format("async def before_model(self, ctx, request): request.system = 'Be brief.'"),
        MiddlewareError,
        ["Log.before_model raised AttributeError: immutable type: 'Request'", "make a changed copy: `msgspec.structs"],
    ),
    (
        "a function as a middleware's tool",
        IN_A_MIDDLEWARE.format("tools = (print,)"),
        ConfigError,
        ["Agent: middleware[0].tools[0] must be a `Tool`, not <built-in function print>", "decorate one with `@tool`"],
    ),
    # ---- limits
    (
        "a dict of limits",
        "Agent(model, limits={'steps': 5})",
        ConfigError,
        ["Agent: limits must be a `Limits`, or None, not {'steps': 5}", "write Limits(steps=5)"],
    ),
    (
        "a number for limits",
        "Agent(model, limits=5)",
        ConfigError,
        ["Agent: limits must be a `Limits`, or None, not 5", "write Limits(steps=...)"],
    ),
    (
        "max_steps",
        "Limits(max_steps=5)",
        TypeError,
        ["Limits() got an unexpected keyword argument 'max_steps'", "did you mean 'steps'?"],
    ),
    (
        "negative steps",
        "Agent(model, limits=Limits(steps=-1))",
        ConfigError,
        ["Agent: limits.steps must be a whole number of 0 or more, or None, not -1"],
    ),
    (
        "steps as a float",
        "Agent(model, limits=Limits(steps=5.0))",
        ConfigError,
        ["Agent: limits.steps must be a whole number of 0 or more, or None, not 5.0", "write 5"],
    ),
    (
        "seconds as text",
        "Agent(model, limits=Limits(seconds='60'))",
        ConfigError,
        ["Agent: limits.seconds must be a number of 0 or more, or None, not '60'", "write 60"],
    ),
    (
        "a cost budget without a price",
        "Agent('openai:my-model', limits=Limits(cost=1.0))",
        ConfigError,
        ["agent 'main' has Limits(cost=1.0), but model 'my-model' has no price", "give the model `price=Price("],
    ),
    (
        "a limit that is reached",
        "Agent(ScriptedModel(lambda r: ToolCall('pay')), [pay], limits=Limits(steps=2)).run_sync('x').raise_for_status()",
        LimitExceeded,
        ["the turn reached its limit of steps", "`resume` continues with new counters"],
    ),
    # ---- people
    (
        "an unknown tool in interrupt_on",
        "create_deep_agent(model, [pay], interrupt_on={'pays': True})",
        ConfigError,
        ["agent 'main': interrupt_on names 'pays'", "did you mean 'pay'?"],
    ),
    (
        "a list for interrupt_on",
        "create_deep_agent(model, [pay], interrupt_on=['pay'])",
        ConfigError,
        ["create_deep_agent: interrupt_on must be a mapping, or None, not ['pay']", "write {'pay': ...}"],
    ),
    (
        "a word in interrupt_on",
        "create_deep_agent(model, [pay], interrupt_on={'pay': 'always'})",
        ConfigError,
        ["create_deep_agent: interrupt_on['pay'] must be True or False or an `Approval`, not 'always'"],
    ),
    (
        "a rule from the package itself",
        "from minideep import Deny",
        ImportError,
        ["there is no 'Deny' in `minideep` itself", "write `from minideep.permissions import Deny`"],
    ),
    (
        "a misspelt operation of a rule",
        "from minideep.permissions import Deny; create_deep_agent(model, [pay], permissions=[Deny('excute', 'rm *')])",
        ConfigError,
        ["agent 'main': Deny('excute', 'rm *') names 'excute'", "did you mean 'execute'?"],
    ),
    (
        "a preset inside the list of rules",
        "from minideep.permissions import read_only; create_deep_agent(model, [pay], permissions=[read_only()])",
        ConfigError,
        [
            "create_deep_agent: permissions[0] must be a rule: Allow('read', '/src/**'), Ask('write') or ",
            ", not [Deny(",
        ],
    ),
    (
        "a decision under a tool's name",
        "await (await waiting()).resume('t', {'pay': Approve()})",
        ConfigError,
        ["no pending call 'pay'", "pending: p1"],
    ),
    (
        "True for a decision",
        "await (await waiting()).resume('t', {'p1': True})",
        ConfigError,
        ["Agent.resume: decisions['p1'] must be an `Approve`", "not True", "write Approve()"],
    ),
    (
        "a word for a decision",
        "await (await waiting()).resume('t', {'p1': 'approve'})",
        ConfigError,
        ["Agent.resume: decisions['p1'] must be an `Approve`", "not 'approve'", "write Approve()"],
    ),
    (
        "a refusal in a word, which no remedy may turn into consent",
        "Agent(model).with_options(unattended='reject')",
        ConfigError,
        [
            "Agent.with_options: unattended must be an `Approve`, a `Reject`, a `Respond`, or None, not 'reject'; write Reject(reason=...)"
        ],
    ),
    (
        "the class of a refusal",
        "Agent(model).with_options(unattended=Reject)",
        ConfigError,
        [
            "Agent.with_options: unattended must be",
            "not <class 'minideep.state.Reject'>; pass an instance, Reject(reason=...)",
        ],
    ),
    (
        "an answer as plain text",
        "await (await waiting()).resume('t', {'p1': 'the Grand'})",
        ConfigError,
        [
            "Agent.resume: decisions['p1'] must be",
            "not 'the Grand'; write Approve(), Edit({...}), Reject(reason=...) or Respond(text=...)",
        ],
    ),
    (
        "a plan to approve that nobody can write",
        "create_deep_agent(model, without=['write_todos'], approve_plan=True)",
        ConfigError,
        ["approve_plan waits for 'write_todos', which `without` leaves out", "drop one"],
    ),
    (
        "a preset that is not called",
        "from minideep.permissions import read_only; create_deep_agent(model, permissions=read_only)",
        ConfigError,
        ["create_deep_agent: permissions must be a list, not <function read_only>", "call it: read_only()"],
    ),
    (
        "an agent in place of a subagent",
        "create_deep_agent(model, subagents=[Agent(model, name='reader')])",
        ConfigError,
        [
            "create_deep_agent: subagents[0] must be a `Subagent` or a mapping, not <Agent 'reader'",
            "with agent=... around an agent",
        ],
    ),
    (
        "a wrong argument of a verb that an agent inherits",
        "Agent(model).threads(limit='3')",
        ConfigError,
        ["Agent.threads: limit must be a whole number of 0 or more, or None, not '3'", "write 3"],
    ),
    (
        "a wrong name of an argument of a verb that an agent inherits",
        "await Agent(model).update_state('t', todos=[])",
        TypeError,
        ["Agent.update_state() got an unexpected keyword argument 'todos'; it takes thread_id, messages, files"],
    ),
    (
        "a middleware by its name in another library",
        "from minideep import PIIMiddleware",
        ImportError,
        ["there is no 'PIIMiddleware' in `minideep` itself", "write `from minideep.models import RedactPII`"],
    ),
    (
        "a backend from the package itself",
        "from minideep import LocalShellBackend",
        ImportError,
        ["there is no 'LocalShellBackend'", "write `from minideep.backends import LocalShellBackend`"],
    ),
    (
        "a dict for a decision",
        "await (await waiting()).resume('t', {'p1': {'type': 'approve'}})",
        ConfigError,
        ["Agent.resume: decisions['p1'] must be an `Approve`", "write Approve()"],
    ),
    (
        "the class of a decision",
        "await (await waiting()).resume('t', {'p1': Approve})",
        ConfigError,
        ["Agent.resume: decisions['p1'] must be an `Approve`", "pass an instance, Approve()"],
    ),
    (
        "a decision without its call",
        "await (await waiting()).resume('t', Approve())",
        ConfigError,
        ["Agent.resume: decisions must be a mapping, or None, not Approve()", "write {...: Approve()}"],
    ),
    (
        "a value in Approve",
        "Approve(True)",
        TypeError,
        ["Approve() takes no arguments", "write Approve()"],
    ),
    (
        "arguments of an edit by name",
        "Edit(amount=5)",
        TypeError,
        ["Edit() got an unexpected keyword argument 'amount'"],
    ),
    (
        "a turn in place of its thread",
        "await (await waiting()).resume(await Agent(model).run('Hello'))",
        ConfigError,
        ["Agent.resume: thread_id must be text of 1 to 500 characters, not <Turn of"],
    ),
    (
        "a decision for a thread that does not wait",
        "await ended().resume('t', {'p1': Approve()})",
        ConfigError,
        ["no pending call 'p1'", "pending: none"],
    ),
    (
        "resume of an unknown thread",
        "await Agent(model).resume('nothing')",
        UnknownThread,
        ["no thread 'nothing'", "`threads()` lists those that exist"],
    ),
    # ---- turns
    (
        "a number for a thread",
        "Agent(model).run_sync('Hello', 5)",
        ConfigError,
        ["Agent.run_sync: thread_id must be text of 1 to 500 characters, or None, not 5"],
    ),
    (
        "thread in place of thread_id",
        "Agent(model).run_sync('Hello', thread='t')",
        TypeError,
        ["Agent.run_sync() got an unexpected keyword argument 'thread'", "did you mean 'thread_id'?"],
    ),
    (
        "another library's config",
        "Agent(model).run_sync('Hello', config={'configurable': {'thread_id': 't'}})",
        TypeError,
        ["Agent.run_sync() got an unexpected keyword argument 'config'", "it takes input, thread_id"],
    ),
    ("an empty input", "Agent(model).run_sync('')", ConfigError, ["the input is empty", "say what the agent is to do"]),
    (
        "None as an input",
        "Agent(model).run_sync(None)",
        ConfigError,
        [
            "Agent.run_sync: input must be text, a `UserMessage` or a list of blocks or messages, not None",
            "write UserMessage(content=...)",
        ],
    ),
    (
        "messages as LangGraph has them",
        "Agent(model).run_sync({'messages': [{'role': 'user', 'content': 'Hello'}]})",
        ConfigError,
        [
            "Agent.run_sync: input must be text, a `UserMessage` or a list of blocks or messages, not {'messages'",
            "write UserMessage(content=...)",
        ],
    ),
    (
        "an image by its path",
        "Agent(model).run_sync([Image('photo.png')])",
        ConfigError,
        ["Agent.run_sync: input[0].data must be bytes, not 'photo.png'"],
    ),
    (
        "invoke",
        "Agent(model).invoke({'messages': []})",
        AttributeError,
        ["'Agent' object has no attribute 'invoke'", "write `await agent.run(text)`, `agent.run_sync(text)`"],
    ),
    (
        "astream",
        "async for event in Agent(model).astream('Hello'): ...",
        AttributeError,
        ["'Agent' object has no attribute 'astream'", "or `agent.stream(text)`"],
    ),
    (
        "the tools of a built agent",
        "Agent(model).tools.append(pay)",
        AttributeError,
        ["'Agent' object has no attribute 'tools'", "read `agent.spec.tools`"],
    ),
    (
        "a model that is set later",
        "Agent(model).model = 'offline:'",
        ConfigError,
        ["agent.model cannot be changed", "make another agent"],
    ),
    (
        "two turns of a thread at once",
        "agent = Agent(model)\nawait asyncio.gather(agent.run('1', 't'), agent.run('2', 't'))",
        ThreadBusy,
        ["thread 't' is being run", "wait for it with `wait=True`, or use another thread"],
    ),
    (
        "another agent's thread",
        "store = MemoryCheckpointer()\nAgent(model, checkpointer=store, name='a').run_sync('Hello', 't')\n"
        "Agent(model, checkpointer=store, name='b').run_sync('Hello', 't')",
        ConfigError,
        ["thread 't' is of agent 'a', and this one is 'b'", "make the agent with continues=['a']"],
    ),
    (
        "a boundary that does not exist",
        "ended().get_state('t', at=9)",
        ConfigError,
        ["thread 't' has no boundary 9", "its newest one is 1"],
    ),
    (
        "a fork over a thread",
        "ended().fork('t', thread_id='t')",
        ConfigError,
        ["thread 't' exists already", "give the fork another id"],
    ),
    (
        "a key without a thread",
        "Agent(model).run_sync('Hello', key='order-7')",
        ConfigError,
        ["key='order-7' needs a thread_id"],
    ),
    (
        "one memory file",
        IN_AN_AGENT.format("memory='AGENTS.md'"),
        ConfigError,
        ["create_deep_agent: memory must be a list, not 'AGENTS.md'", "write ['AGENTS.md']"],
    ),
    # ---- blueprints and evaluations
    (
        "a role without a prompt",
        "Blueprint(model, [Role('critic')])",
        TypeError,
        ["Role() needs 'prompt'", "write Role(name=..., prompt=...)"],
    ),
    (
        "a role with an empty prompt",
        "Blueprint(model, [Role('critic', '')])",
        ConfigError,
        ["role 'critic' has no prompt", "say who it is and what it returns"],
    ),
    (
        "a dict of roles",
        "Blueprint(model, {'critic': Role('critic', 'You find faults.')})",
        ConfigError,
        ["Blueprint: roles must be a list, or None, not {'critic'", "write a list of its values"],
    ),
    (
        "a role as a dict",
        "Blueprint(model, [{'name': 'critic', 'prompt': 'You find faults.'}])",
        ConfigError,
        ["Blueprint: roles[0] must be a `Role`", "write Role(name='critic', prompt='You find faults.')"],
    ),
    (
        "a role with a reserved name",
        "Blueprint(model, [Role('planner', 'You plan.')])",
        ConfigError,
        ["a role's name must be 1 to 64 letters", "and not 'planner' or 'reflection'; found 'planner'"],
    ),
    (
        "tools of a blueprint",
        "Blueprint(model, tools=[pay])",
        TypeError,
        ["Blueprint() got an unexpected keyword argument 'tools'", "it takes model, roles"],
    ),
    (
        "a golden set that does not exist",
        "load('golden.jsonl')",
        ConfigError,
        ["the golden set at path 'golden.jsonl' cannot be read", "No such file"],
    ),
    (
        "a golden that is not JSON",
        "Path('golden.jsonl').write_text('{\"goal\": \"a\"}\\n{\"goal\": }\\n')\nload('golden.jsonl')",
        ConfigError,
        ["'golden.jsonl', line 2: JSON is malformed", 'expected {"goal"'],
    ),
    (
        "a golden with another key",
        "Path('golden.jsonl').write_text('{\"input\": \"a\"}\\n')\nload('golden.jsonl')",
        ConfigError,
        ["'golden.jsonl', line 1: unknown field `input`; did you mean 'goal'?", 'expected {"goal"'],
    ),
    (
        "texts for goldens",
        "await evaluate(Agent(model), ['Hello'])",
        ConfigError,
        ["evaluate: goldens[0] must be a `Golden`, not 'Hello'", "write Golden(goal=...)"],
    ),
    # ---- names that are looked for elsewhere
    (
        "a backend from the top",
        "from minideep import FilesystemBackend",
        ImportError,
        ["there is no 'FilesystemBackend'", "write `from minideep.backends import FilesystemBackend`"],
    ),
    (
        "a model from the top",
        "from minideep import Anthropic",
        ImportError,
        ["there is no 'Anthropic'", "write `from minideep.models import Anthropic`"],
    ),
    (
        "DeepAgent",
        "import minideep\nminideep.DeepAgent",
        ImportError,
        ["there is no 'DeepAgent'", "write `from minideep import create_deep_agent`"],
    ),
    (
        "deepagents' SubAgent",
        "from minideep import SubAgent",
        ImportError,
        ["there is no 'SubAgent'", "write `from minideep import Subagent`"],
    ),
    # ---- the terminal
    (
        "an unknown command",
        "main(['runn', 'Hello'])",
        SystemExit,
        ["minideep: error:", "invalid choice: 'runn'", "run"],
    ),
    (
        "a folder that is not there",
        "main(['run', 'Hello', '--root', 'nothing', '--model', 'offline:'])",
        SystemExit,
        ["minideep: --root 'nothing' is not a folder"],
    ),
    (
        "a wrong --agent",
        "main(['run', 'Hello', '--agent', 'app'])",
        SystemExit,
        ["minideep: --agent must be module:name, such as `--agent app:agent`"],
    ),
    (
        "an --agent that is not there",
        "main(['run', 'Hello', '--agent', 'nothing:agent'])",
        SystemExit,
        ["minideep: --agent nothing:agent: module 'nothing' is neither in "],
    ),
    (
        "an unknown thread",
        "main(['show', 'nothing', '--state', 'state'])",
        SystemExit,
        ["minideep: no thread 'nothing' here", "`minideep threads` lists all of them"],
    ),
    (
        "a wrong --model",
        "main(['run', 'Hello', '--model', 'antropic:claude', '--state', 'state'])",
        SystemExit,
        ["minideep: unknown model 'antropic:claude'", "did you mean 'anthropic:'?"],
    ),
]


BEGINNING = compile(PRELUDE, "<prelude>", "exec")


def run(program):
    """Run a program as a notebook runs a cell."""
    names = {"__name__": "__main__"}
    exec(BEGINNING, names)
    code = compile(program, "<program>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    try:
        outcome = eval(code, names)  # noqa: S307 - The programs above.
        if inspect.isawaitable(outcome):
            asyncio.run(outcome)
    finally:
        names.clear()  # Python warns of a coroutine that nobody awaited when it goes, so it goes here.


def outcome_of(program, caplog, capsys):
    """Return the class and the text of what a person sees last: an exception, a warning, or a line of the terminal."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            run(program)
        except SystemExit:
            pass
        except BaseException as exc:
            return type(exc), str(exc)
    printed = capsys.readouterr().err.strip()
    if printed:
        return SystemExit, printed.rpartition("\n")[2]
    if warned:
        return warned[-1].category, str(warned[-1].message)
    return UserWarning, caplog.messages[-1] if caplog.messages else "nothing was said"


@pytest.mark.parametrize(("name", "program", "error", "words"), MISTAKES, ids=[name for name, *_ in MISTAKES])
def test_a_mistake_gives_one_sentence_with_the_remedy(name, program, error, words, tmp_path, caplog, capsys):
    caplog.set_level(logging.WARNING, "minideep")
    with contextlib.chdir(tmp_path):
        found, message = outcome_of(program, caplog, capsys)
    begins, *contains = words
    assert found is error, message
    assert message.startswith(begins), message
    assert all(part in message for part in contains), message
    assert "\n" not in message
    assert " at 0x" not in message
    assert SECRET not in message
    assert len(message) <= LONGEST


def test_the_table_has_each_mistake_once():
    names = [name for name, *_ in MISTAKES]
    assert len(set(names)) == len(names) >= 70
