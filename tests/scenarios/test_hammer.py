"""Many processes on one thread, and on several: no turn is lost, none is there twice, and no reader sees half of one."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "hammer.py"


def test_four_processes_hammer_the_same_threads_and_every_saved_turn_is_there_once():
    """In a process of its own: one that forks has better no threads."""
    done = subprocess.run([sys.executable, BENCH, "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
