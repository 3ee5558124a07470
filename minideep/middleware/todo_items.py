"""Todos as models write them, read as todos."""

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from ..coercion import spelling
from ..kinds import shown
from ..messages import clean
from ..state import Todo, TodoStatus
from ..structured import whole_value

MAX_ITEMS = 100
MAX_LENGTH = 500
"""The most characters of one item."""

STATUSES: tuple[str, ...] = get_args(TodoStatus)
_MEANT: dict[str, TodoStatus] = {
    **dict.fromkeys(("pending", "todo", "notstarted", "open", "planned", "incomplete"), "pending"),
    **dict.fromkeys(("inprogress", "doing", "started", "ongoing", "active", "current"), "in_progress"),
    **dict.fromkeys(("completed", "complete", "done", "finished"), "completed"),
}
"""Statuses by their spelling. What has failed, is blocked or was cancelled is none of them."""
_LISTS = ("todos", "todo_list", "items", "tasks")
_TEXTS = ("content", "text", "task", "title", "todo", "step", "item", "description")
"""Names for what is to be done. An item may have one of them."""
_IGNORED = ("id", "priority", "activeform")
"""Spellings of fields that other lists have. They say nothing that this list keeps."""


def read_todos(given: Sequence[Any]) -> list[Todo]:
    """Return *given* as todos.

    Raises:
        ValueError: one of them is not a todo; the text says which, and why.
    """
    given = _unwrapped(given)
    if len(given) > MAX_ITEMS:
        raise ValueError(f"{len(given):,} todos are more than {MAX_ITEMS}; put details into a file")
    found: dict[str, Todo] = {}
    for number, item in enumerate(given, 1):
        todo = _todo(number, item)
        if found.get(todo.content, todo) != todo:
            raise ValueError(f"todo {number} repeats another one: {shown(todo.content)}; give each once")
        found[todo.content] = todo
    return list(found.values())


def in_first_words(todos: Sequence[Todo], before: Sequence[Todo]) -> list[Todo]:
    """Return *todos* with completed items of the list *before* in the words that they had, where the new words are the
    same ones with some added or left out. Only an item that stands at its place and is completed again counts.
    """
    kept, said = list(todos), {todo.content for todo in todos}
    for place, (old, new) in enumerate(zip(before, todos, strict=False)):
        again = old.status == new.status == "completed" and old.content not in said
        if again and not any(new.content == other.content for other in before) and _reworded(old.content, new.content):
            kept[place] = old
    return kept


def _unwrapped(given: Sequence[Any]) -> Sequence[Any]:
    """Return the list in an object that a model has put round it once more."""
    only = _decoded(given[0]) if len(given) == 1 else None
    if isinstance(only, Mapping) and len(fields := cast(Mapping[str, Any], only)) == 1:
        name, inner = next(iter(fields.items()))
        if name in _LISTS and isinstance(inner, list):
            return cast(list[Any], inner)
    return given


def _decoded(item: Any) -> Any:
    """Return an item that was written as a JSON text as what it is."""
    if isinstance(item, str) and item.lstrip().startswith("{"):
        try:
            return whole_value(item)
        except ValueError:
            pass
    return item


def _todo(number: int, item: Any) -> Todo:
    item = _decoded(item)
    if isinstance(item, str):
        item = {"content": item}
    if not isinstance(item, Mapping):
        raise ValueError(f"todo {number} must be an object with content and status, not {shown(item)}")
    fields = {name: value for name, value in cast(Mapping[str, Any], item).items() if value not in (None, "", [], {})}
    texts, status = [name for name in fields if name in _TEXTS], fields.pop("status", "pending")
    for name in fields:
        if name not in texts[:1] and spelling(name) not in _IGNORED:
            from ..mistakes import did_you_mean

            known = did_you_mean(name, ("content", "status"), "; the fields are content and status")
            raise ValueError(f"todo {number} has a field {shown(name)}{known}")
    content = fields[texts[0]] if texts else None
    text = " ".join(clean(content).split()) if isinstance(content, str) else ""
    if not text:
        raise ValueError(f"todo {number} must have a content that says what to do, not {shown(content)}")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"todo {number} has {len(text):,} characters, more than {MAX_LENGTH}; put details into a file")
    meant = _MEANT.get(spelling(status)) if isinstance(status, str) else None
    if meant is None:
        raise ValueError(f"todo {number} has status {shown(status)}; it must be one of {', '.join(STATUSES)}")
    return Todo(text, meant)


def _reworded(old: str, new: str) -> bool:
    """Return whether one text has all words of the other, in their order. A single word says too little."""
    short, long = sorted((_words(old), _words(new)), key=len)
    rest = iter(long)
    return short == long or (len(short) > 1 and all(word in rest for word in short))


def _words(text: str) -> list[str]:
    return [word for word in map(spelling, text.split()) if word]
