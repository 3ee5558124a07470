"""Fixtures for every test, and what the whole run needs."""

import asyncio
import gc
import inspect
import os

import pytest

from minideep import DiskCheckpointer, MemoryCheckpointer

# The machine's own keys must never reach a provider from a test.
OWNERS = ("ANTHROPIC_", "OPENAI_", "OLLAMA_", "LM", "VLLM_", "OPENROUTER_", "GROQ_", "DEEPSEEK_", "MISTRAL_", "GEMINI_")
for key in [name for name in os.environ if name.startswith(OWNERS)]:
    del os.environ[key]


def pytest_collection_finish(session):
    """Take what the tests themselves consist of out of the reach of the garbage collector.

    A test that calls `gc.collect()` would else look through a million objects of pytest, for half a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def only_what_a_file_makes_is_collected():
    """Take out of that reach, too, what the files of tests before this one have left: SDKs, reports, caches."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    """Each kind of store in turn."""
    if request.param == "memory":
        yield MemoryCheckpointer()
        return
    with DiskCheckpointer(tmp_path / "state") as disk:
        yield disk


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine function on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
