"""Turns: what one costs, whatever it does."""

from harness.agents import ok
from harness.calls import calls_of

from minideep import Agent, DiskCheckpointer
from minideep.models import ScriptedModel

MOST = 409
"""Python calls of a turn without tools: those of the event loop and of the model are among them."""


async def test_a_turn_without_tools_on_a_warm_thread_calls_few_functions(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(ok), checkpointer=store)
        for _ in range(5):
            await agent.run("Is it so?", "t")
        # The least of several: now and then a turn also hands work to maintenance.
        assert min([await calls_of(agent.run("Is it so?", "t")) for _ in range(5)]) <= MOST


async def test_64_threads_that_take_turns_are_not_read_again_for_each_of_them(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(ok), checkpointer=store)
        for _ in range(3):
            for number in range(64):
                await agent.run("Is it so?", f"t{number}")
        assert min([await calls_of(agent.run("Is it so?", f"t{number}")) for number in range(5)]) <= MOST
