"""How long to wait before something that failed is tried again."""

import random


def wait_before(attempt: int, initial: float, longest: float) -> float:
    """Return the seconds to wait before the attempt of this number, counted from 1: twice as long each time, up to
    *longest*, and shortened by up to half at random, so that several that failed together do not return together.
    """
    # Of 2.0 ** 1024 there is no float.
    return min(initial * 2.0 ** min(attempt - 1, 100), longest) * random.uniform(0.5, 1)
