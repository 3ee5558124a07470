"""The annotations of a text, in which OpenAI's APIs name its sources, as `Citation`."""

from collections.abc import Iterable
from typing import Any, cast

from ...messages import Citation, clean
from ...plain_json import to_json
from ..adapter import Wire
from .sdk import is_object


def citations(annotations: Any, provider: str) -> tuple[Citation, ...]:
    """Return the *annotations* of a text as citations; what is no annotation is left out.

    Each keeps the annotation as it was, which for a file holds its `file_id`, and its `container_id` if the code
    interpreter made it.
    """
    said = cast(Iterable[Any], annotations) if isinstance(annotations, list) else ()
    return tuple([_citation(one, provider) for one in said if is_object(one)])


def _citation(annotation: Wire, provider: str) -> Citation:
    # Chat Completions nests the fields under the annotation's type.
    nested: Any = annotation.get(str(annotation.get("type")))
    fields = nested if is_object(nested) else annotation
    # The `index` of a cited file is a place in the text; that of a path counts files.
    place = "index" if annotation.get("type") == "file_citation" else None
    return Citation(
        url=_text(fields, "url"),
        title=_text(fields, "title") or _text(fields, "filename"),
        quote=_text(fields, "content") or _text(fields, "quote"),
        start=_place(fields, place or "start_index"),
        end=_place(fields, place or "end_index"),
        provider=provider,
        raw=to_json(annotation),
    )


def _text(fields: Wire, name: str) -> str:
    value = fields.get(name)
    return clean(value) if isinstance(value, str) else ""


def _place(fields: Wire, name: str) -> int | None:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
