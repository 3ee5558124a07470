"""Evaluations: whole turns held against assertions, each of which is seen to fail on a blueprint that breaks it."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from xml.etree import ElementTree as Xml

import pytest
from harness.blueprints import Parts, ask, asked, end, plan, replan, research
from msgspec import structs

from minideep import Agent, ConfigError, Limits, MemoryCheckpointer, Middleware, Reply, ToolCall, ToolContext, Usage
from minideep.blueprint import CODE_WRITER, CRITIC, RESEARCH_SPECIALIST, STOCK_ROLES, Blueprint, Role
from minideep.errors import RateLimited
from minideep.evals import (
    ASSERTIONS,
    Case,
    Failure,
    Golden,
    Report,
    ends_honestly,
    evaluate,
    load,
    roles_are_themselves,
)
from minideep.evals.trajectory import Recording
from minideep.events import Noted, TextDelta, TurnEscalated
from minideep.messages import AssistantMessage, UserMessage
from minideep.models import ScriptedModel
from minideep.ports import Request

CAPITAL = Golden("What is the capital of France?", "paris", ("facts.md",))
PLAN, END = plan(research()), end("It is {{facts.md}}")


def script(planner=PLAN, reflection=END, role="Paris,  it is."):
    """A model that says each part's reply, or what a function makes of its request."""
    return Parts(*map(always, (planner, reflection, role)))


def always(said):
    return said if callable(said) else lambda: said


def each(*artifacts):
    """A plan of a subtask for each."""
    return plan(*map(research, artifacts))


async def failures(agent, golden=CAPITAL, assertions=None, **options):
    """What one golden fails with, by assertion."""
    report = await evaluate(agent, [golden], assertions, **options)
    return {failure.assertion: failure.problem for failure in report.cases[0].failures}


# ---- golden sets


def test_a_golden_set_is_lines_of_json_and_blank_lines_between_them(tmp_path):
    file = tmp_path / "golden.jsonl"
    second = {"goal": "Two\u2028lines", "expected_final_answer": "b", "expected_artifact_set": ["b.md"]}
    file.write_bytes(b'\xef\xbb\xbf{"goal": "One"}\r\n\r\n  \n' + json.dumps(second, ensure_ascii=False).encode())
    assert load(file) == load(str(file)) == [Golden("One"), Golden("Two\u2028lines", "b", ("b.md",))]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"expected_final_answer": "x"}', "missing required field `goal`"),
        (b'{"goal": "x", "expected_answer": "y"}', "unknown field `expected_answer`"),
        (b'{"goal": "x", "expected_artifact_set": "a.md"}', "Expected `array`, got `str`"),
        (b'{"goal": "\xff"}', "can't decode byte 0xff"),
        (b'{"goal": " "}', "its goal is empty"),
    ],
)
def test_a_bad_line_is_one_error_that_names_it_and_what_was_expected(tmp_path, line, problem):
    file = tmp_path / "golden.jsonl"
    file.write_bytes(b'{"goal": "fine"}\n\n' + line + b"\n")
    with pytest.raises(ConfigError) as raised:
        load(file)
    said = str(raised.value)
    assert said.startswith(f"{str(file)!r}, line 3: ")
    assert problem in said
    assert 'expected {"goal": "...", "expected_final_answer": "...", "expected_artifact_set": ["..."]}' in said


def test_a_golden_set_that_cannot_be_read_is_empty_or_huge_is_refused(tmp_path):
    empty, huge = tmp_path / "empty", tmp_path / "huge"
    empty.write_text("\n \n")
    with huge.open("wb") as file:
        file.truncate(16 * 2**20 + 1)
    for path, problem in ((empty, "is empty"), (huge, "more than 16,777,216 bytes"), (tmp_path, "cannot be read")):
        with pytest.raises(ConfigError, match=problem):
            load(path)
    with pytest.raises(ConfigError, match=r"cannot be read: .*No such file"):
        load(tmp_path / "missing")


def test_a_golden_made_by_hand_is_checked_as_well():
    with pytest.raises(ConfigError, match="its goal is empty"):
        Golden("")
    with pytest.raises(
        ConfigError, match=r"Golden: expected_artifact_set must be a list, not 'facts\.md'; write \['facts\.md'\]"
    ):
        Golden("x", expected_artifact_set="facts.md")


# ---- running


async def test_a_case_is_a_whole_turn_on_a_thread_of_its_own_that_can_be_looked_at_afterwards(store):
    model = script()
    blueprint = Blueprint(model, checkpointer=store)
    report = await evaluate(blueprint, [CAPITAL, CAPITAL])
    assert report.passed, report.table()
    threads = [case.thread_id for case in report.cases]
    assert sorted(threads) == sorted(one.thread_id for one in blueprint.threads())
    assert [blueprint.artifact(thread, "facts.md") for thread in threads] == ["Paris,  it is."] * 2
    assert len(model.requests) == 6


async def test_without_a_store_the_agent_s_own_keeps_the_threads():
    blueprint = Blueprint(script())
    report = await evaluate(blueprint, [CAPITAL])
    assert blueprint.board(report.cases[0].thread_id).goal == CAPITAL.goal


async def test_an_assertion_is_given_golden_turn_state_board_and_every_request_by_agent():
    seen = []
    blueprint = Blueprint(script(each("a.md", "facts.md")))
    await evaluate(blueprint, [CAPITAL], [seen.append])
    (one,) = seen
    assert [agent for agent, _ in one.requests] == ["planner", *["research-specialist"] * 2, "reflection"]
    assert (one.golden, one.turn.text, one.board.step) == (CAPITAL, "It is Paris,  it is.", 2)
    assert sorted(run.agent for run in one.state.subagents.values()) == sorted(agent for agent, _ in one.requests)
    assert [entry["node"] for entry in one.board.ledger] == [
        "planner", "subagent", "subagent", "reflection", "cleanup",
    ]  # fmt: skip
    assert set(one.roles) == {"research-specialist", "code-writer", "critic"}


async def test_as_many_cases_run_at_a_time_as_are_asked_for_and_each_has_its_own_requests():
    running, most, seen = set(), [], []

    async def role(request):
        running.add(id(request))
        most.append(len(running))
        await asyncio.sleep(0.005)
        running.discard(id(request))
        return asked(request)

    model = script(lambda request: plan(research(task=asked(request).split("\n")[1])), role=role)
    goals = [f"goal {place}" for place in range(5)]
    report = await evaluate(Blueprint(model), map(Golden, goals), [*ASSERTIONS, seen.append], concurrency=2)
    assert report.passed, report.table()
    assert max(most) == 2
    assert [case.golden.goal for case in report.cases] == goals
    assert [{goal for goal in goals if goal in str(one.requests)} for one in seen] == [
        {one.golden.goal} for one in seen
    ]


async def test_a_case_that_raises_is_a_failed_one_and_the_others_go_on():
    report = await evaluate(Blueprint(script()), [Golden("long " * 20_000), CAPITAL])
    assert [case.status for case in report.cases] == ["raised", "ended"]
    assert [(one.assertion, one.problem[:35]) for one in report.cases[0].failures] == [
        ("turn", "ConfigError: the goal has 100,000 b"),
    ]  # fmt: skip
    assert report.cases[1].passed


async def test_a_case_that_takes_too_long_is_a_failed_one_whose_thread_is_kept():
    blueprint = Blueprint(script(role=lambda _: asyncio.sleep(60)))
    report = await evaluate(blueprint, [CAPITAL], timeout=0.05)
    (case,) = report.cases
    assert (case.status, case.failures) == ("raised", (Failure("turn", "TimeoutError: it took longer than 0.05 s"),))
    assert blueprint.get_state(case.thread_id).status == "cancelled"


async def test_an_agent_that_runs_out_of_time_by_itself_says_so():
    class Late(Agent):
        async def run(self, *args, **options):
            raise TimeoutError("the proxy gave up")

    assert await failures(Late(ScriptedModel([]))) == {"turn": "TimeoutError: the proxy gave up"}


async def test_a_turn_that_cannot_be_saved_is_a_failed_case():
    class Full(MemoryCheckpointer):
        def append(self, *args, **options):
            raise OSError("no space left")

    found = await failures(Blueprint(script(), checkpointer=Full()))
    assert "no space left" in found.pop("turn")
    assert found == {}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"goldens": []}, "there are no goldens"),
        ({"concurrency": 0}, "concurrency must be a whole number above 0, not 0"),
        ({"concurrency": True}, "concurrency must be a whole number above 0, not True"),
        ({"timeout": 0}, "timeout must be a number above 0, or None, not 0"),
        (
            {"assertions": [failures]},
            r"assertions\[0\] must be a plain function, not <function .*; it is a coroutine function",
        ),
        ({"assertions": ["x"]}, r"assertions\[0\] must be a plain function, not 'x'"),
    ],
)
async def test_what_cannot_be_run_is_refused_before_any_model_is_asked(given, problem):
    model = script()
    with pytest.raises(ConfigError, match=problem):
        await evaluate(Blueprint(model), **{"goldens": [CAPITAL]} | given)
    assert model.requests == []


async def test_an_agent_that_is_no_blueprint_is_evaluated_by_what_does_not_need_one():
    async def look(ctx: ToolContext) -> str:
        return "nothing"

    model = ScriptedModel([ToolCall("look"), "Paris"])
    seen = []
    agent = Agent(model, [look])
    report = await evaluate(agent, [Golden("Where?", "paris")], [*ASSERTIONS, seen.append])
    assert report.passed, report.table()
    assert list(seen[0].requests) == [("main", request) for request in model.requests]
    assert agent.spec.model is model


# ---- assertions of one's own


async def test_an_assertion_of_one_s_own_fails_by_what_it_returns_or_raises():
    def says(_):
        return "too dull"

    def asserts(trajectory):
        assert trajectory.turn.text == "x"  # pytest rewrites this one

    def asserts_nothing(trajectory):
        raise AssertionError

    def breaks(trajectory):
        return trajectory.nothing

    def predicate(_):
        return True

    def holds(_):
        return None

    found = await failures(Blueprint(script()), assertions=[says, asserts, asserts_nothing, breaks, predicate, holds])
    assert found.pop("asserts").startswith("AssertionError: assert 'It is Paris,")
    assert found == {
        "says": "too dull",
        "asserts_nothing": "AssertionError: raise AssertionError",
        "breaks": "AttributeError: 'Trajectory' object has no attribute 'nothing'",
        "predicate": "it returned True; return what is wrong, or None",
    }


# ---- each stock assertion, seen to fail


async def test_a_state_over_half_a_megabyte_is_found():
    roomy = Blueprint(script(each(*"abcdef"), end(), "é" * 45_000), state_limit=5_000_000)
    tight = Blueprint(script(each(*"abcdef"), end(), "é" * 45_000))
    assert list(await failures(roomy, Golden("x"))) == ["state_is_small"]
    assert await failures(tight, Golden("x")) == {}


async def test_notes_count_as_state():
    async def hoard(ctx: ToolContext) -> str:
        ctx.record(Noted("hoard", "all", "x" * 500_000))
        return "kept"

    agent = Agent(ScriptedModel([ToolCall("hoard"), "done"]), [hoard])
    found = await failures(agent, Golden("x"))
    assert found["state_is_small"].startswith("the state has 500,")


async def test_a_role_s_prompt_after_the_planner_s_is_found_and_in_its_place_is_not():
    good, bad = Blueprint(script()), Blueprint(script())
    planner, role = (bad.agents[name] for name in ("planner", "research-specialist"))
    role.spec = structs.replace(role.spec, system=f"{planner.spec.system}\n\n{role.spec.system}")
    found = await failures(bad, assertions=[roles_are_themselves])
    assert found["roles_are_themselves"].startswith("research-specialist: its system text is not its prompt: ")
    assert await failures(good, assertions=[roles_are_themselves]) == {}


async def test_a_role_that_was_given_the_planner_s_prompt_and_its_own_is_found():
    planner = Blueprint(script()).agents["planner"].spec.system
    composed = structs.replace(RESEARCH_SPECIALIST, prompt=f"{planner}\n\n{RESEARCH_SPECIALIST.prompt}")
    found = await failures(Blueprint(script(), [composed, CODE_WRITER, CRITIC]), assertions=[roles_are_themselves])
    assert found["roles_are_themselves"].startswith("research-specialist: its prompt holds another agent's: ")


async def test_a_single_line_of_another_part_s_prompt_in_a_role_s_is_found():
    for part in ("planner", "reflection"):
        other = Blueprint(script()).agents[part].spec.system.splitlines()[0]
        role = structs.replace(RESEARCH_SPECIALIST, prompt=f"{RESEARCH_SPECIALIST.prompt}\n{other}")
        found = await failures(Blueprint(script(), [role, CODE_WRITER, CRITIC]), assertions=[roles_are_themselves])
        assert found["roles_are_themselves"].startswith("research-specialist: its prompt holds another agent's: ")
        assert other[:60] in found["roles_are_themselves"]


async def test_a_role_that_is_told_what_the_planner_was_asked_is_found():
    blueprint = Blueprint(script(lambda request: plan(research(task=asked(request)))))
    found = await failures(blueprint, assertions=[roles_are_themselves])
    assert found["roles_are_themselves"].startswith("research-specialist: its message holds another agent's: '# Goal")


class Shows(Middleware):
    """Puts messages of others before an agent's own."""

    def __init__(self, *messages):
        self.messages = messages

    async def before_model(self, ctx, request):
        return structs.replace(request, messages=[*self.messages, *request.messages])


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        ((UserMessage("hello"),), "expected one user's message, and that first, found user, user"),
        ((AssistantMessage("hello"),), "expected one user's message, and that first, found assistant, user"),
    ],
)
async def test_a_role_that_is_shown_messages_of_others_is_found(shown, problem):
    blueprint = Blueprint(script())
    agent = blueprint.agents["research-specialist"]
    agent.spec = structs.replace(agent.spec, before_model=(Shows(*shown),))
    found = await failures(blueprint, assertions=[roles_are_themselves])
    assert found == {"roles_are_themselves": f"research-specialist: {problem}"}


class GoesOn(Middleware):
    """Shows a reply after an agent's own messages that it never gave, once there are *most*."""

    def __init__(self, most):
        self.most = most

    async def before_model(self, ctx, request):
        more = [AssistantMessage("I am another.")] if len(request.messages) == self.most else []
        return structs.replace(request, messages=[*request.messages, *more])


def look(where: str) -> str:
    return f"{where}: Paris"


def looks_twice(request):
    """A role that looks at two maps before it answers."""
    said = sum(message.role == "tool" for message in request.messages)
    return ToolCall("look", {"where": f"map {said}"}) if said < 2 else request.messages[-1].text


@pytest.mark.parametrize("most", [1, 3, 5])
async def test_a_role_that_is_shown_an_exchange_that_is_not_its_own_is_found(most):
    researcher = structs.replace(RESEARCH_SPECIALIST, tools=[look])
    blueprint = Blueprint(script(role=looks_twice), [researcher, CODE_WRITER, CRITIC])
    agent = blueprint.agents["research-specialist"]
    agent.spec = structs.replace(agent.spec, before_model=(GoesOn(most),))
    found = await failures(blueprint, assertions=[roles_are_themselves])
    problem = f"research-specialist: its {most + 1} messages go on from no request of its own"
    assert found == {"roles_are_themselves": problem}


async def test_roles_with_tools_second_tries_and_files_are_themselves():
    def role(request):
        if "code writer" in request.system:
            return "```python\n1\n```" if "Why it was refused" in request.messages[0].text else "no code"
        return looks_twice(request)

    both = plan(research(), research("more.md"), ("code-writer", "write", "a.py", ["facts.md"]))
    researcher = structs.replace(RESEARCH_SPECIALIST, tools=[look])
    blueprint = Blueprint(script(both, role=role), [researcher, CODE_WRITER, CRITIC])
    assert await failures(blueprint, structs.replace(CAPITAL, expected_artifact_set=("facts.md", "a.py"))) == {}


def stuck(blueprint):
    blueprint.spec = structs.replace(blueprint.spec, model=ScriptedModel(["Paris."]))
    return blueprint


def mute(ctx: ToolContext) -> str:
    ctx.record(TurnEscalated(1.0, " "))
    return "asked"


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (lambda: Blueprint(ScriptedModel([RateLimited("wait")])), "the turn is failed (RateLimited: planner: wait)"),
        (lambda: Blueprint(script(), approve_plan=True), "the turn is paused (it waits for a person)"),
        (lambda: stuck(Blueprint(script())), "the turn ended though nobody decided so; the last decision was None"),
        (lambda: Agent(ScriptedModel(["a"]), limits=Limits(steps=0)), "the turn is exhausted (steps)"),
        (lambda: Agent(ScriptedModel([" "])), "the turn ended with an empty answer"),
        (lambda: Agent(ScriptedModel([ToolCall("mute")]), [mute]), "the turn escalated without a question"),
        (
            lambda: Agent(ScriptedModel([Reply(AssistantMessage("It i"), stop="truncated")])),
            "the turn ended because the last reply was truncated",
        ),
    ],
)
async def test_a_turn_that_just_stops_is_found(agent, problem):
    found = await failures(agent(), assertions=[ends_honestly])
    assert found["ends_honestly"].endswith(problem)


@pytest.mark.parametrize("reflection", [ask("Which France?"), replan("again"), "no such"])
async def test_a_turn_that_hands_over_with_a_question_ends_honestly(reflection):
    assert await failures(Blueprint(script(reflection=reflection), max_reflection_depth=2), Golden("x")) == {}


async def test_another_answer_than_expected_is_found():
    found = await failures(Blueprint(script(role="London.")))
    assert found == {"answers_as_expected": "expected 'paris' in the answer, found 'It is London.'"}
    assert await failures(Blueprint(script()), Golden("x", " PARIS, it\nis")) == {}


async def test_an_artifact_that_is_missing_or_not_done_is_found():
    def role(request):
        draft = '{"artifact_name": "draft.md", "content": "so far", "status": "active"}'
        return draft if "draft" in asked(request) else "Paris"

    two = plan(research(), research("draft.md", task="write a draft"))
    names = ("facts.md", "research-specialist_1_facts.md", "/research-specialist_1_facts.md", "draft.md", "report.md")
    found = await failures(Blueprint(script(two, role=role)), Golden("x", "", names))
    assert found == {
        "delivers_the_artifacts": "'draft.md' is active, 'report.md' is missing; delivered: "
        "'research-specialist_1_facts.md', 'research-specialist_2_draft.md', 'facts.md', 'draft.md'"
    }


# ---- the models of a blueprint


async def test_a_copy_with_other_models_shares_the_threads_and_leaves_the_blueprint_as_it_was():
    own, other = script(), script(role="Rome")
    roles = [*STOCK_ROLES, Role("chef", "You cook.", model=ScriptedModel(["soup"]))]
    blueprint = Blueprint(own, roles, approve_plan=True)
    before, wrapped = blueprint.spec, []

    def wrap(name, model):
        wrapped.append((name, model))
        return other

    copied = blueprint.with_models(wrap)
    assert wrapped == [(name, agent.spec.model) for name, agent in blueprint.agents.items()]
    assert {agent.spec.model for agent in copied.agents.values()} == {other}
    assert list(copied.spec.tools) == list(before.tools)
    assert copied.spec.tool_list == tuple(copied.spec.tools.values())
    assert (await copied.run(CAPITAL.goal, "t")).status == "paused"
    assert blueprint.get_state("t").status == "paused"
    assert (blueprint.spec, own.requests, len(other.requests)) == (before, [], 1)


def test_what_is_put_in_the_place_of_a_model_must_be_one():
    with pytest.raises(ConfigError, match="what wrap returns must be a `Model`, not None"):
        Blueprint(script()).with_models(lambda name, model: None)


async def test_a_recording_is_its_model_in_everything_else():
    class Warm(ScriptedModel):
        free = True

        async def preload(self):
            self.name = "preload"

    asked, told = [], []
    inner = Warm(["hello", RateLimited("wait")], window=1000)
    model = Recording("main", inner, asked)
    await model.preload()
    assert (model.name, model.window, model.free, hasattr(model, "cold")) == ("preload", 1000, True, False)
    request = Request("system", [UserMessage("hi")])
    assert (await model.complete(request, told.append)).message.text == "hello"
    assert told == [TextDelta("hello")]
    with pytest.raises(RateLimited):
        await model.complete(request, None)
    assert asked == [("main", request)] * 2


async def test_tokens_and_bytes_are_those_of_the_turn():
    def reply(text):
        return lambda _: Reply(AssistantMessage(text), Usage(90, 10))

    model = script(reply(PLAN), reply(END), reply("Paris"))
    (case,) = (await evaluate(Blueprint(model), [CAPITAL])).cases
    assert (case.passed, case.tokens, case.seconds > 0) == (True, 300, True)
    assert case.steps == 3 + 5  # Each part, and the policy before it and for the answer.
    assert 1_000 < case.state_bytes < 10_000


# ---- reports


def regressed():
    """Three goldens of which one regresses."""
    goldens = [CAPITAL, Golden("And of England?", "London"), Golden("And of Italy?", "Rome")]

    def role(request):
        return next((said for key, said in (("Italy", "Rome"), ("France", "Paris")) if key in asked(request)), "Leeds")

    def planner(request):
        return plan(research(task=asked(request).split("\n")[1]))

    return evaluate(Blueprint(script(planner, role=role)), goldens)


async def test_one_regression_of_three_fails_the_set_and_is_named():
    report = await regressed()
    assert (report.passed, [case.golden.expected_final_answer for case in report.failed]) == (False, ["London"])
    case = structs.replace(report.cases[1], thread_id="eval-1")
    cases = [structs.replace(one, seconds=0.25, state_bytes=1_234) for one in (report.cases[0], case, report.cases[2])]
    assert Report(tuple(cases)).table() == (
        "#  result  status  seconds  steps  tokens  state bytes  goal\n"
        "1  pass    ended      0.25      8       0        1,234  What is the capital of France?\n"
        "2  FAIL    ended      0.25      8       0        1,234  And of England?\n"
        "     answers_as_expected: expected 'London' in the answer, found 'It is Leeds'\n"
        "     thread eval-1\n"
        "3  pass    ended      0.25      8       0        1,234  And of Italy?\n"
        "2 of 3 passed, 0.8 s, 24 steps, 0 tokens"
    )


async def test_junit_has_a_test_for_each_golden_and_a_failure_for_each_assertion():
    report = await regressed()
    suite = Xml.fromstring(report.junit())[0]
    assert {name: suite.get(name) for name in ("name", "tests", "failures", "errors")} == {
        "name": "minideep.evals", "tests": "3", "failures": "1", "errors": "0",
    }  # fmt: skip
    assert [test.get("name") for test in suite] == [
        "1: What is the capital of France?", "2: And of England?", "3: And of Italy?",
    ]  # fmt: skip
    problem = "expected 'London' in the answer, found 'It is Leeds'"
    (failure,) = suite.iter("failure")
    assert failure.attrib == {"type": "answers_as_expected", "message": f"answers_as_expected: {problem}"}
    assert failure.text == problem
    assert report.cases[1].thread_id in suite[1].find("system-out").text


def test_control_characters_are_spelled_out_in_both_reports():
    evil = 'a\x00\x1b[2J\ud800\ufffe\u202e\r\n]]><&"é'
    cases = (
        Case(Golden(evil), "eval-1", "ended", (Failure(evil, evil), Failure("other", "b"))),
        Case(Golden("x"), "eval-2", "raised", (Failure("turn", "OSError: c"),)),
    )
    report = Report(cases)
    (suite,) = Xml.fromstring(report.junit().encode())
    spelled = 'a\\x00\\x1b[2J\\ud800\\ufffe\u202e\r\n]]><&"é'
    assert [one.text for one in suite.iter("failure")] == [spelled.replace("\r\n", "\n"), "b"]
    assert [one.get("type") for one in suite.iter("error")] == ["turn"]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "1")
    lines = report.table().split("\n")
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 1 + 4 + 3 + 1
    assert 'a\\x00\\x1b[2J\\ud800\\ufffe\\u202e ]]><&"é' in lines[1]


# ---- the terminal

ENV = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}


def minideep(*args, cwd):
    command = [sys.executable, "-m", "minideep", "eval", *map(str, args)]
    return subprocess.run(command, cwd=cwd, env=ENV, capture_output=True, text=True, timeout=60)


def test_the_terminal_prints_the_table_writes_junit_and_fails_where_a_case_does(tmp_path):
    file = tmp_path / "golden.jsonl"
    file.write_text('{"goal": "Say what is here"}\n{"goal": "Say xyzzy", "expected_final_answer": "xyzzy, quoth he"}\n')
    run = minideep(file, "--model", "offline:", "--junit", "out.xml", "--concurrency", 2, cwd=tmp_path)
    assert run.returncode == 1, run.stderr
    assert run.stdout.splitlines()[0].split() == [
        "#", "result", "status", "seconds", "steps", "tokens", "state", "bytes", "goal",
    ]  # fmt: skip
    assert "answers_as_expected: expected 'xyzzy, quoth he' in the answer" in run.stdout
    suite = Xml.parse(tmp_path / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_the_terminal_exits_0_if_all_passed_and_keeps_the_threads(tmp_path):
    file = tmp_path / "golden.jsonl"
    file.write_text('{"goal": "Say what is here"}\n')
    run = minideep(file, "--model", "offline:", cwd=tmp_path)
    assert (run.returncode, run.stdout.splitlines()[-1][:13]) == (0, "1 of 1 passed"), run.stdout + run.stderr
    threads = [sys.executable, "-m", "minideep", "threads"]
    assert "eval-" in subprocess.run(threads, cwd=tmp_path, env=ENV, capture_output=True, text=True).stdout


def test_the_terminal_runs_as_many_cases_at_a_time_as_it_is_told_and_stops_at_ctrl_c(tmp_path):
    (tmp_path / "golden.jsonl").write_text('{"goal": "x"}\n{"goal": "y"}\n')
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(20)
    env = ENV | {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"http://127.0.0.1:{listening.getsockname()[1]}"}
    options = ["golden.jsonl", "--model", "openai-chat:slow", "--concurrency", "2"]
    command = [sys.executable, "-m", "minideep", "eval", *options]
    with listening, subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE) as process:
        try:
            both = [listening.accept()[0] for _ in range(2)]  # Both are asked, and neither is answered.
            process.send_signal(signal.SIGINT)
            err = process.communicate(timeout=20)[1]
        finally:
            process.kill()
        for connection in both:
            connection.close()
    assert (process.returncode, err) == (130, b"minideep: cancelled\n")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["missing.jsonl"], "the golden set at path 'missing.jsonl' cannot be read"),
        (["bad.jsonl"], "'bad.jsonl', line 1: "),
        (["good.jsonl", "--model", "acme:x"], "unknown model 'acme:x'"),
        (["good.jsonl", "--root", "missing"], "--root 'missing' is not a folder"),
        (["good.jsonl", "--junit", "missing/out.xml"], "the folder of --junit 'missing/out.xml' does not exist"),
        (["good.jsonl", "--concurrency", "0"], "must be a whole number from 1"),
        ([], "required: file"),
    ],
)
def test_bad_usage_of_the_terminal_is_one_clear_line_and_exit_2(tmp_path, args, problem):
    (tmp_path / "good.jsonl").write_text('{"goal": "x"}\n')
    (tmp_path / "bad.jsonl").write_text('{"gaol": "x"}\n')
    run = minideep(*args, cwd=tmp_path)
    assert (run.returncode, run.stdout, "Traceback" in run.stderr) == (2, "", False)
    assert problem in run.stderr.splitlines()[-1]
