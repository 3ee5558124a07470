"""A queue delivers its inputs again and again, and its workers are killed: every input happens once."""

import time

from harness import retries
from harness.processes import run_apart


def test_inputs_that_killed_workers_send_again_by_key_happen_once_and_in_order():
    run_apart(retries.campaign, 12, time.time_ns() % 10**6)
