"""What a server says in an error: objects, codes and the reason, whatever form its body has.

Both SDKs keep the body as `exc.body`: as parsed JSON, or as a text. OpenAI's keeps only what stands under `error`.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ..plain_json import to_json

REASONS = ("message", "Message", "msg", "detail", "error", "errors", "title")
"""The fields that give a reason, the best first. They hold a text, an object with such fields, or a list of these."""
CODES = ("code", "type", "status", "error_type")
"""The fields with a word for the kind of an error, the most specific first."""
MAX_DEPTH = 8
"""How many objects a reason may be wrapped in. A gateway wraps the error of the server behind it."""
SHOWN = 300
"""How many characters of a page, or of a body without a known field, are the reason."""
STATUS = re.compile("[45][0-9][0-9]")
TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)

Object = Mapping[str, Any]


def error_object(exc: Exception) -> Object:
    """Return the object that describes the error, as it was sent; an empty one if the body has none."""
    return _object_in(getattr(exc, "body", None))


def codes_of(exc: Exception) -> list[str]:
    """Return the words for the kind of the error. A status that is repeated in the body is not one of them."""
    return [code for code in _codes(exc) if re.fullmatch(r"[\w.-]{1,80}", code) and not STATUS.fullmatch(code)]


def status_of(exc: Exception) -> int | None:
    """Return the HTTP status; that in the body if there is none, or 200, which an error inside a stream has."""
    status: int | None = getattr(exc, "status_code", None)
    if status not in (None, 200):
        return status
    return next((int(code) for code in _codes(exc) if STATUS.fullmatch(code)), status)


def reason_of(exc: Exception) -> str:
    """Return the reason that the server gives; an empty text if it gives none.

    If a gateway passes on what the server behind it said, that is the reason.
    """
    body: Any = getattr(exc, "body", None)
    for error in reversed(list(error_objects(exc))):
        if reason := _reason_in(error):
            return reason
    if isinstance(body, str):
        return _prose(body)
    try:
        return to_json(body).decode()[:SHOWN] if body else ""
    except (TypeError, RecursionError):
        return ""


def error_objects(exc: Exception) -> Iterator[Object]:
    """Return the objects that describe the error: the server's own, then those that it passes on."""
    error = error_object(exc)
    for _ in range(MAX_DEPTH):
        if not error:
            return
        yield error
        # OpenRouter passes on what it was told as a text, JSON or not; others write it into the message.
        error = _object_in(_raw(error) or error.get("message"))


def _codes(exc: Exception) -> Iterator[str]:
    """Yield the texts in `CODES`, and the numbers there that are statuses."""
    for error in error_objects(exc):
        metadata = error.get("metadata")
        places = (error, cast(Object, metadata)) if isinstance(metadata, dict) else (error,)
        found: Iterator[Any] = (place.get(name) for place in places for name in CODES)
        yield from (str(code) for code in found if isinstance(code, str) or STATUS.fullmatch(str(code)))


def _object_in(body: Any) -> Object:
    """Return the error object in *body*: itself, that under `error`, or the first of a list, as Google sends them."""
    for _ in range(MAX_DEPTH):
        body = _parsed(body)
        if isinstance(body, list) and body:
            body = cast(list[Any], body)[0]
        elif isinstance(body, dict):
            error = cast(dict[str, Any], body)
            if not isinstance(inner := error.get("error"), dict | list) or not inner:
                return error
            body = cast(Any, inner)
    return {}


def _parsed(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _raw(error: Object) -> Any:
    metadata = error.get("metadata")
    return cast(Object, metadata).get("raw") if isinstance(metadata, dict) else None


def _reason_in(value: Any, depth: int = MAX_DEPTH) -> str:
    """Return the reason in *value*: a text, an object with one of `REASONS`, or a list of these."""
    if isinstance(value, str):
        return _prose(value)
    if not depth:
        return ""
    if isinstance(value, list):
        reasons = (_reason_in(item, depth - 1) for item in cast(list[Any], value)[:5])
        return "; ".join(filter(None, reasons))
    if not isinstance(value, dict):
        return ""
    error = cast(Object, value)
    names = [_raw(error), *(error.get(name) for name in REASONS)]
    reason = next(filter(None, (_reason_in(item, depth - 1) for item in names)), "")
    return f"{where}: {reason}" if reason and (where := _place(error)) else reason


def _place(error: Object) -> str:
    """Return where the error is: the field of the request, as FastAPI says it, or the server behind a gateway."""
    location = error.get("loc")
    if isinstance(location, list):
        return ".".join(map(str, cast(list[Any], location)))
    return str(cast(Object, error["metadata"]).get("provider_name") or "") if _raw(error) else ""


def _prose(text: str) -> str:
    """Return *text*, or what a page in HTML says: its title, else its first words."""
    if not text.lstrip().startswith("<"):
        return text.strip()
    text = text[:20_000]  # A page may be of any size.
    title = TITLE.search(text)
    words = title[1] if title else MARKUP.sub(" ", text)
    return " ".join(html.unescape(words).split())[:SHOWN]
