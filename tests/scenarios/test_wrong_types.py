"""Wrong types across the whole public API: each is accepted, or refused with an error that names the parameter."""

import asyncio
import contextlib
import inspect
import math
import threading
import typing
import warnings

import pytest
from harness.names import MODULES, own_and_inherited
from harness.sandboxes import FolderSandbox, bubblewrap_missing
from msgspec import Struct, structs

import minideep
import minideep.backends
import minideep.blueprint
import minideep.middleware
import minideep.models
import minideep.testing
from minideep import (
    AESGCM,
    Agent,
    Approval,
    Costs,
    DiskCheckpointer,
    Edit,
    EncryptedCheckpointer,
    Limits,
    MemoryCheckpointer,
    Middleware,
    MinideepError,
    Reject,
    Respond,
    ResponseFormat,
    Retention,
    State,
    Stream,
    Subagent,
    Text,
    Tool,
    ToolCall,
    ToolContext,
    Turn,
    Usage,
    UserMessage,
    behaviours,
    configure_process,
    create_deep_agent,
    decision_from_json,
    decisions_from_json,
    evals,
    load_media,
    tool,
)
from minideep.access import no_access
from minideep.backends import (
    BubblewrapBackend,
    CompositeBackend,
    DockerSandbox,
    FilesystemBackend,
    LocalShellBackend,
    PermittedBackend,
    SandboxBackend,
    StateBackend,
    StoreBackend,
)
from minideep.blueprint import STOCK_ROLES, Blueprint, Role
from minideep.checks import UserWritten
from minideep.evals import Golden, evaluate
from minideep.evals.trajectory import walk
from minideep.events import Noted, TextDelta
from minideep.kinds import shown
from minideep.mcp import MCPClient
from minideep.middleware import (
    AsyncSubAgentMiddleware,
    ClearToolResults,
    EnvironmentMiddleware,
    FilesystemMiddleware,
    HumanInTheLoopMiddleware,
    MemoryMiddleware,
    OffloadMiddleware,
    PatchToolCallsMiddleware,
    PermissionsMiddleware,
    PlanApprovalMiddleware,
    PromptCachingMiddleware,
    Rubric,
    ShellMiddleware,
    SkillsMiddleware,
    SubAgentMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimits,
    ToolResultCache,
    ToolRetry,
    ToolSelector,
)
from minideep.models import (
    Anthropic,
    BatchModel,
    CodeExecution,
    FallbackModel,
    FileSearch,
    ModelInfo,
    OfflineModel,
    OpenAI,
    OpenAIChat,
    Price,
    Profile,
    RateLimiter,
    RedactPII,
    RetryModel,
    ScriptedModel,
    Timeouts,
    WebSearch,
    add_model_info,
    model_info,
    register,
)
from minideep.permissions import Allow, Ask, Deny, ask_before_writes, read_only, workspace
from minideep.testing import recorded, tool_context

PLAIN = (type(Struct), type(UserWritten))
"""The kinds of Structs whose constructor takes their fields as they are."""
PATIENCE = 20
"""Seconds after which a call counts as hanging; no call takes that long."""


class Class:
    """A class where an instance is wanted."""

    def __init__(self, *_args):
        pass


async def coroutine_function(*_args):
    """A coroutine function where a plain one is wanted."""


def plain(given: object = None, more: object = None):
    """A function."""


@tool
async def ping(text: str = "pong") -> str:
    """Answer."""
    return text


class Quiet(Middleware):
    """Does nothing."""

    def __init__(self, *_args):
        pass


WRONG = {
    "None": None,
    "5": 5,
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "nan": math.nan,
    "inf": math.inf,
    "a huge number": 10**30,
    "True": True,
    "no text": "",
    "text": "x",
    "bytes": b"x",
    "no list": [],
    "no mapping": {},
    "no tuple": (),
    "a list of a number": [5],
    "a list of a class": [Class],
    "a generator of a number": lambda: iter([5]),
    "a mapping of numbers": {5: 5},
    "a mapping of texts": {"x": "x"},
    "an object": object(),
    "a class": Class,
    "a class of ours": Quiet,
    "a lambda": plain,
    "a coroutine function": coroutine_function,
    "a huge text": "x" * 1_000_000,
    "a lone surrogate": "\ud800",
    "NUL": "a\0b",
    "limits made wrong": Limits(steps="x"),
    "a message made wrong": UserMessage(5),
    "blocks made wrong": [Text(5)],
    "decisions made wrong": {"p1": Reject(5)},
}


# ---- every public name, and how to call it rightly


class World:
    """An agent with threads that ended, that wait and that are gone, and one object of each kind that is passed."""

    def __init__(self):
        self.model = ScriptedModel(lambda request: "ok")
        self.store = MemoryCheckpointer()
        self.agent = Agent(self.model, [ping], checkpointer=self.store)
        self.blueprint = Blueprint(ScriptedModel(lambda request: "no plan"), STOCK_ROLES)
        writing = create_deep_agent(ScriptedModel([ToolCall("write_file", {"file_path": "/x", "content": "x"}), "ok"]))
        writing.checkpointer = self.store
        writing.run_sync("go", "t")
        self.agent.run_sync("go", "t")
        self.blueprint.run_sync("go", "t")
        asks = ScriptedModel(lambda request: ToolCall("ping") if len(request.messages) < 2 else "ok")
        self.asking = Agent(asks, [ping], middleware=[HumanInTheLoopMiddleware({"ping": True})])
        self.asking.run_sync("go", "p")
        self.replay = recorded(self.store, "t").run_sync(self.agent)
        self.call_id = self.asking.get_state("p").interrupts[0].call_id


def answers(agent):
    """An agent that was built with something odd can still be run, or says which part of it is odd."""
    turn = agent.run_sync("go", "t")
    assert turn.status in ("ended", "escalated", "exhausted") or isinstance(turn.error, MinideepError), turn
    agent.get_state("t", subagents=True)


def kept(store):
    """A store that was made with something odd keeps a thread."""
    with store:
        answers(Agent(ScriptedModel(["ok"]), checkpointer=store))


def asked(model):
    """A model that was made with something odd can be asked; without a network an SDK's is only built into an agent."""
    agent = create_deep_agent(model)
    if not isinstance(model, Anthropic | OpenAI | OpenAIChat | BatchModel):
        answers(agent)


def held(tool):
    """A tool that the provider runs, and that was made with something odd, belongs to an agent that can be run."""
    answers(Agent(ScriptedModel(["ok"]), [tool]))


def worn(middleware):
    """Middleware that was made with something odd stands in an agent that can be run."""
    answers(create_deep_agent(ScriptedModel(["ok"]), middleware=[middleware]))


def called(made):
    """A tool that was made of something odd can be called."""
    made = made if isinstance(made, Tool) else made(plain_tool)
    answers(Agent(ScriptedModel([ToolCall(made.name), "ok"]), [made]))


def plain_tool(text: str = "x") -> str:
    """Return."""
    return text


def entered(block):
    with block:
        pass


async def watched(stream):
    async for _ in stream:
        pass
    return stream.turn


async def started(starting):
    return await (await starting)


async def followed(events):
    with contextlib.suppress(TimeoutError):  # One that waits stays.
        async with contextlib.aclosing(events), asyncio.timeout(0.1):
            return [event async for event in events]


def live_verbs(name, agent, turn):
    """The verbs of an agent for turns that outlive their callers, and for threads that any process may run."""
    resumed = {"thread_id": "t", "decisions": None, "context": None, "wait": False}
    return {
        f"{name}.start": (lambda **given: started(agent.start(**given)), turn),
        f"{name}.start_resume": (lambda **given: started(agent.start_resume(**given)), resumed),
        f"{name}.follow": (
            lambda **given: followed(agent.follow(**given)),
            {"thread_id": "t", "after": 0, "wait": False},
        ),
        f"{name}.cancel": (agent.cancel, {"thread_id": "t", "reason": "enough"}),
        f"{name}.say": (agent.say, {"thread_id": "t", "text": "hello"}),
        f"{name}.update_state": (
            agent.update_state,
            {"thread_id": "t", "messages": [UserMessage("hi")], "files": None},
        ),
        f"{name}.status": (agent.status, {"thread_id": "t"}),
        f"{name}.aclose": (agent.aclose, {"grace": 0.0}),
    }


FILTERS = {"prefix": "t", "limit": 3, "status": "ended", "tags": {"user": "ann"}}


def stored_verbs(name, agent):
    """The verbs of an agent for threads as they are saved."""
    return {
        f"{name}.get_state": (agent.get_state, {"thread_id": "t", "subagents": False, "at": 1, "after": None}),
        f"{name}.history": (agent.history, {"thread_id": "t", "call_id": None}),
        f"{name}.transcript": (agent.transcript, {"thread_id": "t", "call_id": None}),
        f"{name}.runs": (agent.runs, {"thread_id": "t"}),
        f"{name}.diff": (agent.diff, {"thread_id": "t", "a": 1, "b": 2}),
        f"{name}.read_file": (agent.read_file, {"thread_id": "t", "file": "/x", "at": None}),
        f"{name}.export": (agent.export, {"thread_id": "t"}),
        f"{name}.threads": (agent.threads, FILTERS),
        f"{name}.athreads": (agent.athreads, FILTERS),
        f"{name}.aget_state": (agent.aget_state, {"thread_id": "t", "subagents": False, "at": 1, "after": None}),
        f"{name}.ahistory": (agent.ahistory, {"thread_id": "t", "call_id": None}),
        f"{name}.atranscript": (agent.atranscript, {"thread_id": "t", "call_id": None}),
        f"{name}.aruns": (agent.aruns, {"thread_id": "t"}),
        f"{name}.adiff": (agent.adiff, {"thread_id": "t", "a": 1, "b": 2}),
        f"{name}.aread_file": (agent.aread_file, {"thread_id": "t", "file": "/x", "at": None}),
        f"{name}.aexport": (agent.aexport, {"thread_id": "t"}),
        f"{name}.replay": (
            agent.replay,
            {
                "thread_id": "t",
                "at": 1,
                "model": "offline:",
                "system_prompt": None,
                "others": "refuse",
                "context": None,
            },
        ),
        f"{name}.fork": (agent.fork, {"source": "t", "at": 1, "thread_id": None, "after": None}),
        f"{name}.delete": (agent.delete, {"thread_id": "gone"}),
    }


def in_a_tool(verb, on_a_thread):
    """Return a function that calls *verb* of a tool's context, raises what it raises, and checks that the turn ended."""

    async def call(**given):
        raised = []

        async def act(ctx: ToolContext) -> str:
            """Act."""
            try:
                done = getattr(ctx, verb)(**given)
                return str(await done if inspect.isawaitable(done) else done)
            except Exception as exc:
                raised.append(exc)
                raise

        def act_on_a_thread(ctx: ToolContext) -> str:
            """Act."""
            return act(ctx).send(None)

        acting = tool(name="act")(act_on_a_thread if on_a_thread else act)
        agent = Agent(ScriptedModel([ToolCall("act"), "ok"]), [acting])
        turn = await agent.run("go", "t")
        if turn.interrupts:  # It has asked a person.
            turn = await agent.resume("t", {turn.interrupts[0].key: Respond("yes")})
        assert turn.status == "ended"
        if raised and not isinstance(raised[0], KeyError):
            raise raised[0]

    return call


def calls(world):
    """For each public name: what is called, with which arguments, and what is done with what comes of it."""
    agent, blueprint, model, files = world.agent, world.blueprint, world.model, StateBackend()
    kit = {"checkpointer": MemoryCheckpointer(), "durability": "turn", "limits": Limits(), "name": "a"}
    kit |= {"version": "1", "continues": ["b"], "redact": None}
    typed = kit | {"response_format": None}
    turn = {"input": "go", "thread_id": "t", "key": None, "files": None, "context": None, "wait": False}
    settings = {"price": Price(1, 1), "window": 1000, "profile": Profile()}
    critic = Subagent(name="critic", description="finds faults")
    walked = {"trajectory": asyncio.run(walk(agent, Golden("g"), "walked"))}
    return {
        "Agent": (Agent, {"model": model, "tools": [ping], "system_prompt": "", "middleware": [Quiet()], **typed}, answers),
        "Agent.run": (agent.run, turn),
        "Agent.run_sync": (agent.run_sync, turn),
        "Agent.stream": (lambda **given: watched(agent.stream(**given)), turn),
        "Agent.resume": (world.asking.resume, resumed(world)),
        "Agent.resume_sync": (world.asking.resume_sync, resumed(world)),
        "Agent.resume_stream": (lambda **given: watched(world.asking.resume_stream(**given)), resumed(world)),
        "Agent.save": (agent.save, {"thread_id": "t"}),
        "Agent.preload": (agent.preload, {}),
        **stored_verbs("Agent", agent),
        "Agent.override": (lambda **given: entered(agent.override(**given)), {"model": model}),
        "ResponseFormat": (ResponseFormat, {"kind": list[int], "retries": 2}, worn),
        "create_deep_agent": (
            create_deep_agent,
            {"model": model, "tools": [ping], "system_prompt": "", "subagents": [critic], "backend": files}
            | {"memory": ["A.md"], "skills": ["s"], "interrupt_on": {"ls": False}, "middleware": [Quiet()], **typed}
            | {"permissions": [Deny("read", "/x")], "approve_plan": False, "without": ["general-purpose"]},
            answers,
        ),
        "Subagent": (
            Subagent,
            {"name": "s", "description": "d", "system_prompt": "", "tools": [ping], "model": model, "middleware": ()}
            | {"memory": (), "skills": (), "limits": Limits(), "subagents": (), "interrupt_on": {}, "share": ()}
            | {"permissions": (), "inherit_permissions": True}
            | {"response_format": None, "without": [], "agent": None, "background": False, "persistent": False, "fork": False},
            lambda about: answers(create_deep_agent(ScriptedModel(["ok"]), subagents=[about])),
        ),
        "Stream": (Stream, {"start": lambda emit: agent.run("go")}),
        "Stream.aclose": (agent.stream("go").aclose, {}),
        "Tool": (Tool, {"function": plain_tool, "name": "n", "description": "d", "timeout": 1.0, "access": no_access, "thread_only": True}, called),
        "tool": (lambda function, **rest: tool(**rest)(function), {"function": plain_tool, "name": "n", "timeout": 1.0}, called),
        "DiskCheckpointer": (DiskCheckpointer, {"directory": "d", "retention": None, "fsync": False, "lease": None, "timeout": 60.0}, kept),
        "MemoryCheckpointer": (MemoryCheckpointer, {"retention": Retention()}, kept),
        "AESGCM": (AESGCM, {"key": bytes(32)}, lambda cipher: kept(EncryptedCheckpointer(MemoryCheckpointer(), cipher))),
        "EncryptedCheckpointer": (EncryptedCheckpointer, {"store": MemoryCheckpointer(), "cipher": AESGCM(bytes(32))}, kept),
        "EncryptedCheckpointer.verify": (EncryptedCheckpointer(MemoryCheckpointer(), AESGCM(bytes(32))).verify, {}),
        "EncryptedCheckpointer.close": (EncryptedCheckpointer(MemoryCheckpointer(), AESGCM(bytes(32))).close, {}),
        "DiskCheckpointer.backup": (DiskCheckpointer("d").backup, {"path": "copy"}),
        "DiskCheckpointer.verify": (DiskCheckpointer("d").verify, {}),
        "MemoryCheckpointer.verify": (MemoryCheckpointer().verify, {}),
        "configure_process": (configure_process, {"max_turns": 10, "max_tool_threads": 500}),
        "DiskCheckpointer.close": (DiskCheckpointer("d").close, {}),
        "DiskCheckpointer.size": (DiskCheckpointer("d").size, {}),
        "MemoryCheckpointer.close": (MemoryCheckpointer().close, {}),
        "MemoryCheckpointer.size": (MemoryCheckpointer().size, {}),
        "Retention": (Retention, {"boundaries": 1, "seconds": 1.0}, lambda retention: kept(MemoryCheckpointer(retention=retention))),
        "Limits": (Limits, dict.fromkeys(Limits.__struct_fields__), lambda limits: answers(create_deep_agent(ScriptedModel(["ok"]), limits=limits))),
        **shells(),
        "CompositeBackend": (CompositeBackend, {"default": files, "routes": {"/m/": files}}, lambda backend: answers(create_deep_agent(ScriptedModel(["ok"]), backend=backend))),
        "StoreBackend": (StoreBackend, {"checkpointer": MemoryCheckpointer(), "namespace": ("n",)}, lambda backend: answers(create_deep_agent(ScriptedModel(["ok"]), backend=backend))),
        "FilesystemBackend": (FilesystemBackend, {"root_dir": ".", "virtual_mode": True, "gitignore": False}, lambda backend: answers(create_deep_agent(ScriptedModel(["ok"]), backend=backend))),
        "Blueprint": (
            Blueprint,
            {"model": model, "roles": STOCK_ROLES, "planner_model": model, "reflection_model": model, "max_reflection_depth": 1}
            | {"max_file_age_steps": 1, "inline_limit": 1000, "state_limit": 1000, "backend": files, "pinned": ["x"]}
            | {"approve_plan": False, "strict": False, "planner_prompt_limit": 10_000, "middleware": [Quiet()], **kit}
            | {"max_parallel": 2, "planner_timeout": 60.0, "reflection_timeout": None},
            answers,
        ),
        "Blueprint.run": (blueprint.run, turn),
        "Blueprint.stream": (lambda **given: watched(blueprint.stream(**given)), turn),
        **live_verbs("Agent", agent, turn),
        **live_verbs("Blueprint", blueprint, turn),
        **stored_verbs("Blueprint", blueprint),
        "Blueprint.aread_file": (agent.aread_file, {"thread_id": "t", "file": "/x", "at": None}),
        "Blueprint.read_file": (agent.read_file, {"thread_id": "t", "file": "/x", "at": None}),  # It has none.
        "Blueprint.preload": (blueprint.preload, {}),
        "Blueprint.board": (blueprint.board, {"thread_id": "t", "at": 1}),
        "Blueprint.artifact": (blueprint.artifact, {"thread_id": "t", "name": "x"}),
        "Blueprint.trace": (blueprint.trace, {"thread_id": "t"}),
        "Blueprint.delivered": (blueprint.delivered, {"thread_id": "t"}),
        "Role": (
            Role,
            {"name": "r", "prompt": "p", "tools": [ping], "model": model, "validate": plain, "limits": Limits()}
            | {"timeout": 1.0, "interrupt_on": {"ping": True}, "description": "d", "extract": plain, "middleware": [Quiet()]}
            | {"response_format": None},
            lambda role: answers(Blueprint(ScriptedModel(lambda request: "no plan"), [*STOCK_ROLES, role])),
        ),
        **evaluations(agent),
        **behaving(),
        "AsyncSubAgentMiddleware": (AsyncSubAgentMiddleware, {"agents": [(critic, agent)]}, worn),
        "EnvironmentMiddleware": (EnvironmentMiddleware, {}, worn),
        "FilesystemMiddleware": (FilesystemMiddleware, {"backend": files}, worn),
        "HumanInTheLoopMiddleware": (HumanInTheLoopMiddleware, {"interrupt_on": {"ping": True}}, worn),
        "PermissionsMiddleware": (PermissionsMiddleware, {"rules": [Deny("read")], "backend": None, "within": None}, worn),
        "PlanApprovalMiddleware": (PlanApprovalMiddleware, {}, worn),
        "Approval": (Approval, {"decisions": ("approve",), "when": plain, "describe": ""}, lambda approval: worn(HumanInTheLoopMiddleware({"ping": approval}))),
        **{kind.__name__: (kind, {"operation": "read", "pattern": "/x", "when": plain}, lambda rule: worn(PermissionsMiddleware([rule]))) for kind in (Allow, Ask, Deny)},
        "ask_before_writes": (ask_before_writes, {}),
        "read_only": (read_only, {}),
        "workspace": (lambda patterns: workspace(patterns), {"patterns": "/src/**"}),
        "PermittedBackend": (PermittedBackend, {"backend": files}),
        "MemoryMiddleware": (MemoryMiddleware, {"sources": ["A.md"], "backend": files}, worn),
        "Middleware": (Middleware, {}, worn),
        "OffloadMiddleware": (OffloadMiddleware, {"backend": files, "result_tokens": 1000, "message_tokens": 1000}, worn),
        "PatchToolCallsMiddleware": (PatchToolCallsMiddleware, {}, worn),
        "PromptCachingMiddleware": (PromptCachingMiddleware, {"ttl": "5m"}, worn),
        "SkillsMiddleware": (SkillsMiddleware, {"sources": ["s"], "backend": files, "pinned": ["x"]}, worn),
        "SubAgentMiddleware": (SubAgentMiddleware, {"agents": [(critic, agent)]}, worn),
        "SummarizationMiddleware": (SummarizationMiddleware, {"model": model, "backend": files, "summarizer": None, "trigger": 1000, "keep": 6}, worn),
        "SummarizationMiddleware.meter": (SummarizationMiddleware(model, files).meter, {"agent": agent, "state": State()}),
        "ClearToolResults": (ClearToolResults, {"above": 1000, "keep": 3, "exclude": ["ls"]}, worn),
        "ToolCallLimits": (ToolCallLimits, {"limits": {"ls": 1}}, worn),
        "ToolResultCache": (ToolResultCache, {"tools": ["ls"], "ttl": None}, worn),
        "ToolRetry": (ToolRetry, {"tools": ["ls"], "retries": 2, "initial_backoff": 1.0, "max_backoff": 30.0, "when": None}, worn),
        "ToolSelector": (ToolSelector, {"model": model, "keep": 10, "always": ["ls"]}, worn),
        "Rubric": (Rubric, {"criteria": ["It is short."], "model": model, "retries": 2}, worn),
        "TodoListMiddleware": (TodoListMiddleware, {"nudge": False}, worn),
        "Anthropic": (Anthropic, {"name": "n", "client": None, "api_key": None, "base_url": None, "timeout": 60.0, "max_tokens": 100, **settings}, asked),
        "OpenAI": (OpenAI, {"name": "n", "client": None, "api_key": None, "base_url": None, "timeout": 60.0, **settings}, asked),
        "OpenAIChat": (OpenAIChat, {"name": "n", "client": None, "api_key": None, "base_url": None, "send_reasoning": True, "timeout": 60.0, **settings}, asked),
        "BatchModel": (BatchModel, {"model": "anthropic:claude-x", "max_wait": 1.0, "max_size": 10, "poll": 1.0}, asked),
        "WebSearch": (
            WebSearch,
            {"allowed_domains": ["python.org"], "blocked_domains": [], "max_uses": 3},
            held,
        ),
        "CodeExecution": (CodeExecution, {}),
        "FileSearch": (FileSearch, {"vector_store_ids": ["vs_1"], "max_results": 3}, held),
        "FallbackModel": (FallbackModel, {"models": [model, "offline:"]}, asked),
        "RateLimiter": (RateLimiter, {"model": model, "max_concurrency": 8, "initial_backoff": 1.0, "max_backoff": 60.0}, asked),
        "RedactPII": (RedactPII, {"model": model, "kinds": ["email"], "patterns": None, "strategy": "mask", "secret": ""}, asked),
        "RetryModel": (RetryModel, {"model": model, "retries": 5, "initial_backoff": 2.0, "max_backoff": 60.0}, asked),
        "ScriptedModel": (ScriptedModel, {"replies": ["ok"], "window": 100_000, "structured_output": False}, asked),
        "OfflineModel": (OfflineModel, {}, asked),
        "Timeouts": (Timeouts, {"connect": 5.0, "first_byte": 60.0, "between": 60.0, "total": 600.0}),
        "Price": (Price, {"input": 1, "output": 1, "cache_read": 1, "cache_write": 1, "cache_write_long": 1, "beyond": None}, lambda price: price.of(Usage(5, 5))),
        "Price.of": (Price(1, 1).of, {"usage": Usage(), "long_writes": 0}),
        "ModelInfo": (ModelInfo, {"window": 1000, "output": 1000, "price": Price(1, 1), "source": "s"}, lambda info: add_model_info("odd", info)),
        "add_model_info": (add_model_info, {"model": "odd", "info": ModelInfo()}),
        "model_info": (model_info, {"model": "odd"}),
        "register": (register, {"name": "odd", "factory": plain, "replace": True}),
        "tool_context": (
            tool_context,
            {"call": None, "call_id": "", "thread_id": "t", "files": None, "notes": None, "todos": (), "messages": ()}
            | {"context": None, "decision": None, "path": ()},
        ),
        "recorded": (recorded, {"source": world.store, "thread_id": "t"}, lambda found: found.run_sync(world.agent)),
        "Recorded.run": (recorded(world.store, "t").run, {"agent": agent, "context": None}),
        "Recorded.run_sync": (recorded(world.store, "t").run_sync, {"agent": agent, "context": None}),
        "Recorded.save": (recorded(world.store, "t").save, {"path": "t.jsonl"}),
        "Replay.table": (world.replay.table, {}),
        "Replay.json": (world.replay.json, {}),
        "Profile": (Profile, {"suffix": "", "descriptions": {"ls": "List."}}, lambda profile: asked(Anthropic("n", profile=profile))),
        "Profile.worded": (Profile().worded, {"tool": ping}),
        "ToolCall": (ToolCall, {"name": "n", "args": {}, "id": None}, lambda call: answers(Agent(ScriptedModel([call, "ok"]), [ping]))),
        "Edit": (Edit, {"args": {}}),
        "load_media": (load_media, {"path": "golden.jsonl"}),
        "Turn.raise_for_status": (Turn(thread_id="t", status="ended").raise_for_status, {}),
        "Turn.json": (Turn(thread_id="t", status="ended").json, {}),
        "decision_from_json": (decision_from_json, {"raw": '{"type": "approve"}'}),
        "decisions_from_json": (decisions_from_json, {"raw": {"p1": {"type": "approve"}}}),
        "Costs.add": (Costs().add, {"child": Costs()}),
        **{assertion.__name__: (assertion, walked) for assertion in minideep.blueprint.ASSERTIONS},
        "StateBackend": (StateBackend, {}),
        "ToolContext.run": (in_a_tool("run", False), {"agent": world.agent, "input": "go", "key": None}),
        "ToolContext.interrupt": (in_a_tool("interrupt", True), {"question": "Which?"}),
        "ToolContext.record": (in_a_tool("record", True), {"event": Noted("me", "x", 5)}),
        "ToolContext.emit": (in_a_tool("emit", True), {"event": TextDelta("x")}),
        "ToolContext.content_of": (in_a_tool("content_of", False), {"file": "/x"}),
        "ToolContext.model_for": (in_a_tool("model_for", False), {"model": model}),
        "ToolContext.recall": (in_a_tool("recall", False), {"file": "/x", "sha256": "x"}),
        "Agent.with_options": (
            agent.with_options,
            {"limits": Limits(), "model": model, "tags": {"user": "ann"}, "unattended": Reject("nobody")},
        ),
        "Tool.normalized": (ping.normalized, {"call": ToolCall("ping")}),
        "Tool.bind": (ping.bind, {"call": ToolCall("ping"), "ctx": None}),
        "MCPClient": (MCPClient, {"server": "uvx some-server", "only": ["search"], "prefix": "p_", "headers": None, "env": {}, "cwd": None, "connect_timeout": 30.0, "timeout": 60.0}, repr),
        "MCPClient.connect": (MCPClient("no-such-server").connect, {}),
        "MCPClient.close": (MCPClient("no-such-server").close, {}),
    }  # fmt: skip


def resumed(world):
    return {"thread_id": "p", "decisions": {}, "context": None, "wait": False}


def shells():
    """Backends that run commands."""
    local = {"root_dir": ".", "timeout": 5.0, "max_output": 1000, "env": {"A": "b"}}

    def runs(backend):
        call = ToolCall("execute", {"command": "true"})
        answers(create_deep_agent(ScriptedModel([call, "ok"]), backend=backend))

    return {
        "LocalShellBackend": (LocalShellBackend, local, runs),
        "BubblewrapBackend": (BubblewrapBackend, {**local, "network": False, "readable": ["."]}, runs),
        "SandboxBackend": (
            SandboxBackend,
            {"sandbox": FolderSandbox(), "home": "/tmp", "timeout": 5.0, "max_output": 1000},
            runs,
        ),
        "SandboxBackend.close": (SandboxBackend(FolderSandbox()).close, {}),
        "DockerSandbox": (DockerSandbox, {"image": "busybox", "options": ["--cpus=1"], "program": "true"}),
        "ShellMiddleware": (ShellMiddleware, {"backend": LocalShellBackend(".")}, worn),
    }


def evaluations(agent):
    """The names of `minideep.evals`."""

    def asserts(assertion):
        asyncio.run(evaluate(agent, [Golden("g")], [assertion]))

    golden = {"goal": "g", "expected_final_answer": "", "expected_artifact_set": (), "expected_status": "ended"}
    golden |= {"expected_calls": (), "id": "g", "earlier": (), "files": {}, "metadata": {}}
    cases = evals.Report((evals.Case(Golden("g")),))

    def called(name):
        return lambda calls, agent: getattr(evals, name)(calls, agent=agent)

    matching = ("calls_in_order", "calls_exactly", "calls_all", "calls_only", "never_calls")
    made = {name: (called(name), {"calls": "ls", "agent": None}, asserts) for name in matching}
    return {
        **made,
        "calls_at_most": (
            lambda count, calls, agent: evals.calls_at_most(count, calls, agent=agent),
            {"count": 1, "calls": "ls", "agent": None},
            asserts,
        ),
        "stays_within": (evals.stays_within, {"steps": 1, "tool_calls": 1, "tokens": 1, "cost": 1.0, "seconds": 1.0}, asserts),
        "any_of": (lambda assertions: evals.any_of(assertions), {"assertions": plain}, asserts),
        "only_for": (evals.only_for, {"golden": "g", "assertion": plain}, asserts),
        "judge": (evals.judge, {"model": "offline:", "question": "Is it?", "threshold": 0.5}, asserts),
        "grounded": (evals.grounded, {"model": "offline:", "threshold": 0.5}, asserts),
        "Score": (evals.Score, {"value": 0.5, "reason": "", "name": "", "threshold": 0.5}, str),
        "ExpectedCall": (evals.ExpectedCall, {"name": "ls", "args": {}}, lambda call: asserts(evals.calls_all(call))),
        "Golden.json": (Golden("g").json, {}),
        "from_thread": (evals.from_thread, {"store": agent.checkpointer, "thread_id": "t"}),
        "Golden": (Golden, golden, lambda golden: asyncio.run(evaluate(agent, [golden]))),
        "Report": (evals.Report, {"cases": (), "about": {}}, lambda report: (report.table(), report.junit(), report.json())),
        "Report.table": (cases.table, {}),
        "Report.junit": (cases.junit, {}),
        "Report.json": (cases.json, {}),
        "Report.compare": (cases.compare, {"baseline": cases}, lambda comparison: comparison.table()),
        "Comparison.of": (lambda verdicts: cases.compare(cases).of(verdicts), {"verdicts": "worse"}),
        "Comparison.table": (cases.compare(cases).table, {}),
        "Result.spread": (cases.results[0].spread, {"number": "steps"}),
        "load": (evals.load, {"path": "golden.jsonl"}),
        "evaluate": (
            evaluate,
            {"agent": agent, "goldens": [Golden("g")], "assertions": (), "repeat": 1, "concurrency": 1, "timeout": 5.0}
            | {"budget": 1.0, "store": None, "on_case": plain},
        ),
    }  # fmt: skip


def behaving():
    """The names of `minideep.behaviours`."""
    task = next(task for task in behaviours.TASKS if task.name == "answer-a-plain-question")
    proof = behaviours.Proof(())
    settings = {"repeat": 1, "concurrency": 1, "timeout": 5.0, "budget": 1.0, "store": None, "on_case": None}

    def proved(shape):
        asyncio.run(behaviours.prove([structs.replace(task, shapes=(*task.shapes, shape))]))

    return {
        "run": (behaviours.run, {"model": ScriptedModel(lambda request: "ok"), "tasks": [task], **settings}),
        "prove": (behaviours.prove, {"tasks": [task]}),
        "Task": (
            behaviours.Task,
            {name: getattr(task, name) for name in task.__struct_fields__},
            lambda task: asyncio.run(behaviours.prove([task])),
        ),
        "Shape": (
            behaviours.Shape,
            {"name": "s", "script": task.shapes[0].script, "fails": (), "subagent": None},
            proved,
        ),
        "Proof.table": (proof.table, {}),
        "Proof.prices": (proof.prices, {}),
    }


HOOKS = ("before_model", "wrap_model", "before_tool", "wrap_tool", "after_tool", "before_finish", "add_files")
CALLED_BY_THE_LOOP = {
    **{f"{kind}.{hook}": "a hook" for kind in [*minideep.middleware.__all__] for hook in HOOKS},
    **{
        f"FilesystemMiddleware.{name}": "a tool"
        for name in ("ls", "glob", "grep", "read_file", "write_file", "edit_file", "delete")
    },
    **{
        f"AsyncSubAgentMiddleware.{name}_task{'s' * (name == 'list')}": "a tool"
        for name in ("check", "update", "cancel", "list")
    },
    "TodoListMiddleware.write_todos": "a tool",
    "SummarizationMiddleware.compact_conversation": "a tool",
    "SummarizationMiddleware.exact_meter": "needs a provider",
    **{
        f"{kind}.{verb}": "a model's"
        for kind in minideep.models.__all__
        for verb in ("complete", "preload", "check_tools")
    },
    **{
        f"{kind}.{verb}": "needs a provider"
        for kind in ("Anthropic", "OpenAI", "OpenAIChat")
        for verb in ("upload", "count_tokens")
    },
    **{
        f"{kind}.{verb}": "a store's, which the journal calls at every append"
        for kind in ("DiskCheckpointer", "EncryptedCheckpointer", "MemoryCheckpointer")
        for verb in (
            "aclose",
            "append",
            "get",
            "head",
            "heads",
            "held",
            "hold",
            "keys",
            "open",
            "read",
            "release",
            "rows",
        )
    },
    **{
        f"{kind}.{verb}": "a backend's, which the file tools call"
        for kind in minideep.backends.__all__
        if kind.endswith("Backend")
        for verb in ("ls", "walk", "read", "write", "delete", "execute", "guarded")
    },
    **{
        f"{kind}.{verb}": "a sandbox's, which its backend calls"
        for kind in ("Sandbox", "DockerSandbox")
        for verb in ("start", "execute", "read", "write", "close")
    },
    **{f"AESGCM.{verb}": "a cipher's, which its store calls" for verb in ("seal", "open")},
    "Sandbox": "a protocol",
    "ShellBackend": "a protocol",
    "ShellBackend.execute": "of a protocol",
    "ShellMiddleware.execute": "a tool",
    "Handle": "made by `start`",
    **{f"ResponseFormat.{verb}": "asked of each reply" for verb in ("read_turn", "json_in")},
    "ToolContext": "made for each call",
    "Spent.reached": "asked at each step",
    "Spent.missing": "asked at each step",
    "FilesystemMiddleware.target": "asked by hooks at each call",
    **{
        f"{kind}.{hook}_fork": "what a fork calls"
        for kind in ("DiskCheckpointer", "MemoryCheckpointer")
        for hook in ("before", "after")
    },
    "Tool.bind": "asked at each call",
    **{f"{kind}.decides_about": "asked once, of the tools of an agent" for kind in minideep.middleware.__all__},
    "Tool.normalized": "asked at each call",
    "ToolCall.as_json": "asked at each call",
    "Costs.add": "asked after each run",
    "Board.difference": "of a record",
    "Board.left": "of a record",
    "Board.version": "of a record",
    "Board.wave": "of a record",
} | ({"BubblewrapBackend": "needs bubblewrap"} if bubblewrap_missing() else {})
"""Public names that users do not call, and who does."""


def public():
    """Every public class, method and function: its name, and the thing itself. Classes that only hold fields aside."""
    seen = set()
    for module in MODULES:
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if id(value) in seen or not callable(value) or typing.get_origin(value):
                continue
            seen.add(id(value))
            if not inspect.isclass(value):
                yield name, value
            elif not issubclass(value, BaseException) and module is not minideep.testing:
                if not issubclass(value, Struct) or hasattr(value, "__post_init__") or type(value) not in PLAIN:
                    yield name, value
                # What a store inherits is called by the loop.
                for member, method in (own_and_inherited if issubclass(value, Agent) else vars)(value).items():
                    if not member.startswith("_") and inspect.isfunction(method):
                        yield f"{name}.{member}", method


def recipe(world, name):
    called, arguments, *then = calls(world)[name]
    return called, arguments, then[0] if then else lambda made: None


NAMES = sorted({name for name, _ in public()} - set(CALLED_BY_THE_LOOP) | {"Limits"})


def test_the_table_has_every_public_name_and_every_parameter():
    table, things = calls(World()), {**dict(public()), "Limits": Limits}
    for name in NAMES:
        wanted = [
            parameter.name
            for parameter in inspect.signature(things[name]).parameters.values()
            if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
        ]
        if name not in ("ToolCall", "Edit"):  # What they take is not what they keep.
            assert sorted(table[name][1]) == sorted(wanted), name


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_type_is_refused_with_the_name_of_the_parameter_and_damages_nothing(name, tmp_path):
    problems = []

    def try_all():
        world = World()
        with contextlib.chdir(tmp_path), asyncio.Runner() as runner, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (tmp_path / "golden.jsonl").write_text('{"goal": "g"}')
            problems.extend(tried(world, name, runner))
            assert world.agent.run_sync("go", "t").status == "ended"
            assert world.asking.resume_stream("p")
            assert world.asking.get_state("p").interrupts
        problems.append("")

    trying = threading.Thread(target=try_all, daemon=True)
    trying.start()
    trying.join(PATIENCE)
    assert problems[-1:] == [""], "it hangs, or raised"
    assert not problems[:-1], "\n" + "\n".join(problems)


def tried(world, name, runner):
    called, arguments, then = recipe(world, name)
    for parameter in arguments:
        for what, wrong in WRONG.items():
            wrong = wrong() if what.startswith("a generator") else wrong
            made = None
            try:
                made = called(**(arguments | {parameter: wrong}))
                if inspect.isawaitable(made):
                    made = runner.run(awaited(made))
            except MinideepError as exc:
                if parameter.removesuffix("s") not in str(exc) and shown(wrong)[:40] not in str(exc):
                    yield f"{name}({parameter}={what}): {type(exc).__name__} names no parameter: {str(exc)[:200]}"
                continue
            except BaseException as exc:
                yield f"{name}({parameter}={what}): {type(exc).__name__}: {str(exc)[:200]}"
                continue
            try:
                then(made)
            except MinideepError:
                continue
            except BaseException as exc:
                yield f"{name}({parameter}={what}), used: {type(exc).__name__}: {str(exc)[:200]}"


async def awaited(made):
    return await asyncio.wait_for(made, 5)
