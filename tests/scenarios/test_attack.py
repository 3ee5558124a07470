"""What other programs and the agent's own tools do to a store in use: a short run of the campaign in `bench/`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "attack.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_processes_that_search_the_folder_of_their_store_and_children_of_a_busy_one_break_nothing():
    done = subprocess.run([sys.executable, BENCH, "1.5", "8"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
