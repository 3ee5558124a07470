"""A process may be killed at any moment: what it leaves is whole, and another one resumes it."""

import time

from harness import kills
from harness.processes import run_apart


def test_a_thread_survives_kills_at_random_moments_and_no_stored_call_runs_again():
    run_apart(kills.kills, 3, time.time_ns() % 10**6)


def test_a_thread_survives_a_kill_at_every_append_and_inside_transactions():
    run_apart(kills.points, 240, 2)
