"""A thousand lives of threads on virtual time. A failure names its seed, and its seed replays it exactly."""

import pytest
from harness.simulation import failures, lived, report
from harness.simulation.broken import BROKEN

CHUNKS, LIVES = 20, 50


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_life_breaks_a_promise(chunk):
    found = failures(range(chunk * LIVES, (chunk + 1) * LIVES))
    assert not found, report(found)


def test_a_seed_replays_its_life_exactly():
    for seed in range(20):
        first, second = [], []
        assert lived(seed, first) == lived(seed, second)
        assert first == second
        assert first


@pytest.mark.parametrize("server", BROKEN)
def test_the_simulation_notices_a_store_that_breaks_its_promises(server):
    assert any(failures(range(start, start + 10), server) for start in range(0, 200, 10))
