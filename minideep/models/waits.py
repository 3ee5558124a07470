"""How long a server asks to wait: in a header, in a field of the error, or in its words."""

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Any, cast

from .error_bodies import Object, error_objects

LONGEST = 120.0
"""The longest wait, in seconds, that a model's client takes upon itself; above it the request fails, and says why.

It is the limit of OpenAI's SDK. Anthropic's has none.
"""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds in a unit of time, by its first letter."""
PART = r"\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|milliseconds?|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?)(?![a-z])"
DURATION = re.compile(rf"(?:{PART}\s*)+")
ASKED = re.compile(rf"(?:again|retry|wait|reset)\s(?:in\s|after\s|for\s)?(?:about\s)?({DURATION.pattern})")
"""`Please try again in 1m2.5s`, `Please retry after 26 seconds`, `Your quota will reset after 18h31m10s`."""


def wait_of(exc: Exception, reason: str) -> float | None:
    """Return the seconds to wait, or None if the server does not say them. *reason* is what it said in words.

    * The headers `retry-after-ms` and `retry-after`: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    * `retryDelay`, Google's field: https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto
    * The words.
    * The headers `x-ratelimit-reset-...` of limits of which nothing is left: https://console.groq.com/docs/rate-limits
    """
    errors = list(error_objects(exc))
    headers = _headers(exc, errors)
    found = (*_retry_after(headers), *_retry_delays(errors), wait_in(reason), max(_resets(headers), default=None))
    return next((wait for wait in found if wait is not None and 0 <= wait < math.inf), None)


async def refuse_long_wait(response: Any) -> None:
    """Have Anthropic's SDK fail instead of a wait above `LONGEST`. This is a hook of its HTTP client for responses."""
    if any(wait is not None and wait > LONGEST for wait in _retry_after(response.headers)):
        response.headers["x-should-retry"] = "false"


def wait_in(text: str) -> float | None:
    """Return the seconds to wait that *text* speaks of, or None."""
    found = ASKED.search(text.lower())
    return seconds_in(found[1]) if found else None


def seconds_in(text: str) -> float | None:
    """Return a duration in seconds, such as `6m0s`, `12ms`, `20 seconds` or `34.07`, or None if it is not one."""
    text = text.strip().lower()
    if not DURATION.fullmatch(text):
        return _number(text)
    parts = re.findall(r"([\d.]+)\s*([a-z]+)", text)
    return sum(float(number) * _unit(name) for number, name in parts)


def _unit(name: str) -> float:
    return 0.001 if name == "ms" or name.startswith("milli") else UNITS[name[:1]]


def _headers(exc: Exception, errors: Iterable[Object]) -> dict[str, str]:
    """Return the headers of the response, and those that OpenRouter passes on in the body."""
    found: list[Any] = [getattr(getattr(exc, "response", None), "headers", None)]
    found += [cast(Object, error["metadata"]).get("headers") for error in errors if _has(error, "metadata")]
    kept = (cast(Mapping[Any, Any], headers) for headers in found if isinstance(headers, Mapping))
    return {str(name).lower(): str(value) for headers in kept for name, value in headers.items()}


def _has(error: Object, name: str) -> bool:
    return isinstance(error.get(name), dict)


def _retry_after(headers: Mapping[str, str]) -> Iterator[float | None]:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    yield None if milliseconds is None else milliseconds / 1000
    yield _number(headers.get("retry-after", ""))
    date = parsedate_tz(headers.get("retry-after", ""))
    yield max(0.0, mktime_tz(date) - time.time()) if date else None


def _retry_delays(errors: Iterable[Object]) -> Iterator[float | None]:
    for error in errors:
        details = error.get("details")
        for detail in cast(list[Any], details) if isinstance(details, list) else []:
            delay: Any = cast(Object, detail).get("retryDelay") if isinstance(detail, dict) else None
            yield seconds_in(delay) if isinstance(delay, str) else None


def _resets(headers: Mapping[str, str]) -> Iterator[float]:
    for name, value in headers.items():
        left = headers.get(name.replace("-reset", "-remaining"))
        # Other limits have a time too: that at which they are full again.
        if name.startswith("x-ratelimit-reset") and left == "0" and (wait := seconds_in(value)) is not None:
            # OpenRouter writes a moment, in milliseconds since 1970, and some others in seconds.
            moment = wait / 1000 if wait > 1e11 else wait
            yield max(0.0, moment - time.time()) if moment > 1e9 else wait


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None
