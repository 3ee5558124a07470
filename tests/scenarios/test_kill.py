"""A process may be killed at any moment: what it leaves is whole, and another one goes on with it."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "kill.py"


def run(*args):
    """Run the bench in a process of its own: one that forks has better no threads."""
    done = subprocess.run([sys.executable, BENCH, *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_thread_survives_kills_at_random_moments_and_no_stored_call_runs_again():
    run("14")


def test_a_thread_survives_a_kill_at_every_append_and_inside_transactions():
    run("points", "120")
