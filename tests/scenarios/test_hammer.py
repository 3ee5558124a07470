"""Many processes on one thread, and on several: no turn is lost, none is there twice, and no reader sees half of one."""

from harness import hammer
from harness.processes import run_apart


def test_four_processes_hammer_the_same_threads_and_every_saved_turn_is_there_once():
    run_apart(hammer.campaign, 2)
