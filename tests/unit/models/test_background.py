"""SDKs are imported in the background, while something else is waited for; nobody is harmed by it."""

import os
import subprocess
import sys

import pytest
from harness.processes import python
from harness.terminal import process

SLOW = r"""
import os, sys, threading, time
# Not printed: two threads that print at once lose lines.
os.write(1, f"begins on {{threading.current_thread().name}}\n".encode())
while not {here}:
    time.sleep(0.01)
os.write(1, b"is there\n")
"""


@pytest.fixture
def slow(tmp_path):
    """A folder with an `openai` that is imported only once the file `go` exists."""
    (tmp_path / "openai.py").write_text(SLOW.format(here=f"__import__('os').path.exists({str(tmp_path / 'go')!r})"))
    return tmp_path


def enters(body, *args, **options):
    """Run *body* inside `async with` an agent of a real model; `sys.argv[1]` is the folder of a slow SDK."""
    lines = "".join(f"        {line}\n" for line in body.strip().split("\n"))
    code = rf"""
import asyncio, os, sys, threading, time
sys.path[:0] = sys.argv[1:]
from minideep import Agent, Subagent, create_deep_agent
from minideep.models import FallbackModel, RateLimiter, ScriptedModel
async def main():
    async with Agent("openai:gpt-5") as agent:
{lines}
asyncio.run(main())
sys.stdout.flush()
os.write(1, b"the end\n")
for folder in sys.argv[1:]:
    open(folder + "/go", "w").close()
"""
    return python(code, *args, **options).split("\n")[:-1]


def test_entering_an_agent_begins_to_import_its_sdk_and_leaving_does_not_wait_for_that(slow):
    said = enters("pass", slow)
    assert sorted(said) == ["begins on minideep-import", "is there", "the end"]
    assert said.index("the end") < said.index("is there")


def test_a_question_waits_for_the_rest_of_the_import():
    body = """
from threading import enumerate
begun = [thread.name for thread in enumerate() if "import" in thread.name]
turn = await agent.run("go")
print(begun, turn.status, type(turn.error).__name__, "openai" in sys.modules)
"""
    env = {"OPENAI_API_KEY": "", "MINIDEEP_FORBID_REQUESTS": "0"}
    assert enters(body, env=env) == ["['minideep-import'] failed AuthenticationFailed True", "the end"]


def test_an_import_that_fails_is_told_by_the_question_as_without_it(tmp_path):
    (tmp_path / "openai.py").write_text("raise ImportError('this SDK is broken')")
    body = """
while threading.active_count() > 1:
    time.sleep(0.01)
async def ask(agent):
    return str((await agent.run("go")).error)
print(await ask(agent))
print(await ask(Agent("openai:gpt-5")))
"""
    told, alone, _ = enters(body, tmp_path, env={"MINIDEEP_FORBID_REQUESTS": "0"})
    assert told == alone
    assert "this SDK is broken" in told


def test_an_import_ends_before_a_fork_so_that_the_child_has_it(slow):
    body = """
threading.Timer(0.3, lambda: open(sys.argv[1] + '/go', 'w').close()).start()
time.sleep(0.1)
if not (child := os.fork()):
    import openai
    print("the child has it", threading.active_count(), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    said = enters(body, slow)
    assert said == ["begins on minideep-import", "is there", "the child has it 1", "0", "the end"]


@pytest.mark.parametrize(
    ("model", "env", "begun"),
    [
        ("ScriptedModel([])", {}, []),
        ("'offline:'", {}, []),
        ("'openai:x'", {"MINIDEEP_FORBID_REQUESTS": "1"}, []),
        ("RateLimiter(FallbackModel(['openai-chat:x', 'anthropic:x']))", {}, ["anthropic", "openai"]),
        ("'ollama:x'", {}, ["openai"]),
    ],
)
def test_only_the_sdks_of_models_that_may_be_asked_are_imported(tmp_path, model, env, begun):
    for name in ("anthropic", "openai"):
        (tmp_path / f"{name}.py").write_text("")
    code = f"""
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from minideep import create_deep_agent
from minideep.models import FallbackModel, RateLimiter, ScriptedModel
async def main():
    async with create_deep_agent({model}):
        pass
asyncio.run(main())
import threading
for thread in threading.enumerate():
    thread is threading.main_thread() or thread.daemon or thread.join()
print(sorted({{"anthropic", "openai"}} & {{*sys.modules}}))
"""
    assert python(code, tmp_path, env={"MINIDEEP_FORBID_REQUESTS": "0"} | env) == f"{begun}\n"


def test_a_blueprint_imports_the_sdks_of_all_of_its_agents(tmp_path):
    for name in ("anthropic", "openai"):
        (tmp_path / f"{name}.py").write_text(f"print({name!r})")
    code = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from minideep.blueprint import Blueprint
async def main():
    async with Blueprint("openai:x", reflection_model="anthropic:x"):
        pass
asyncio.run(main())
"""
    said = python(code, tmp_path, env={"MINIDEEP_FORBID_REQUESTS": "0"})
    assert said == "anthropic\nopenai\n"


def test_the_terminal_imports_the_sdk_while_it_prepares_the_turn(tmp_path):
    (tmp_path / "openai.py").write_text("import threading; print(threading.current_thread().name)")
    about = process(["run", "Hello", "--model", "openai:x"], tmp_path, {"MINIDEEP_FORBID_REQUESTS": "0"})
    about["env"] |= {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    ran = subprocess.run(**about, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split("\n")[0] == "minideep-import"
