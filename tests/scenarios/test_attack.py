"""What other programs and the agent's own tools do to a store in use: a short run of the campaign in `harness.attack`."""

import os

import pytest
from harness import attack
from harness.processes import run_apart


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_processes_that_search_the_folder_of_their_store_and_children_of_a_busy_one_break_nothing():
    run_apart(attack.campaign, 1.5, 8)
