"""A message of Chat Completions that grows with the chunks of its stream."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, cast

from ...events import ArgsDelta, TextDelta, ThinkingDelta
from ...messages import clean
from ...plain_json import is_json
from ...ports import Emit
from ..adapter import Wire
from ..amounts import nested
from . import sdk
from .chat_reply import REASONING, SIGNED, SPOKEN, objects, text_of, thought

OLD_FORM = -1
"""The index of the one call in the older form of the API, which has none."""
TEXTS = frozenset({*SPOKEN, "refusal"})
LISTS = frozenset({"images", "annotations"})
GROWING = ("reasoning.text", "reasoning.summary")


def usage_in(said: Wire) -> Any:
    """Return the usage in an answer or a chunk. Kimi puts it into the choice, Groq into a field of its own.

    https://github.com/earendil-works/pi/issues/2017 and https://github.com/vercel/ai/issues/1651
    """
    choices = objects(said.get("choices"))
    return said.get("usage") or nested(choices[0] if choices else None, "usage") or nested(said, "x_groq", "usage")


class Streamed:
    """The first choice of an answer, as it is streamed. Listeners receive its deltas at once."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._content: list[Any] = []
        self._words: list[str] | None = None
        """The pieces of the text that the content ends with."""
        self._texts: dict[str, list[str]] = {}
        self._details: list[Wire] = []
        self._calls: list[Wire] = []
        self._lists: dict[str, list[Any]] = {}
        self._audio: Wire = {"data": [], "transcript": []}
        self._choice: Wire = {}
        self._fields: Wire = {}
        self._signed: Wire = {}
        self._adders: Mapping[str, Callable[[Wire], None]] = {
            "reasoning_details": self._add_detail,
            "audio": self._add_sound,
            "tool_calls": self._add_call,
            "function_call": self._add_older_call,
        }

    def add(self, event: Wire) -> None:
        said = {"usage": usage_in(event), "service_tier": event.get("service_tier"), "error": event.get("error")}
        self._fields |= {name: value for name, value in said.items() if value}
        for choice in objects(event.get("choices")):
            # A request for several answers gets the first one.
            if choice.get("index", 0) == self._choice.get("index", choice.get("index", 0)):
                self._choice |= {name: value for name, value in choice.items() if value is not None}
                for delta in objects(choice.get("delta")):
                    self._grow(delta)

    def whole(self, done: bool) -> Wire | None:
        """Return the answer after a finish reason, an error or `[DONE]`."""
        if not (done or self._choice.get("finish_reason") or self._fields.get("error")):
            return None
        message: Wire = {name: "".join(texts) for name, texts in self._texts.items()}
        message |= {"content": self._said(), "reasoning_details": self._details, **self._lists, **self._signed}
        message |= {"tool_calls": [_whole(call) for call in self._calls]}
        if any(self._audio.values()):
            message["audio"] = self._sound()
        return {"choices": [self._choice | {"message": message}] if self._choice else [], **self._fields}

    def _grow(self, delta: Wire) -> None:
        for name, value in delta.items():
            if value is not None:
                self._add(name, value)
        if not REASONING.isdisjoint(delta) and (text := thought(delta)):
            self._emit(ThinkingDelta(clean(text)))

    def _add(self, name: str, value: Any) -> None:
        if name == "content":
            for part in cast(list[Any], value) if isinstance(value, list) else [value]:
                self._say(part)
        elif name in TEXTS:
            self._texts.setdefault(name, []).append(self._heard(value) if name == "refusal" else text_of(value))
        elif add := self._adders.get(name):
            for part in objects(value):
                add(part)
        elif name in LISTS:
            self._lists.setdefault(name, []).extend(objects(value))
        elif name == SIGNED:
            self._signed[name] = value

    # ---- what is said

    def _heard(self, value: Any) -> str:
        """Return the text in *value*; listeners hear it."""
        if text := text_of(value):
            self._emit(TextDelta(clean(text)))
        return text

    def _say(self, part: Any) -> None:
        """Add *part* of the content: text, or what some servers send in its place."""
        kind = nested(part, "type")
        if text := self._heard(part):
            if self._words is None:
                self._words = []
                self._content.append(self._words)
            self._words.append(text)
        elif kind == "thinking":
            self._think(part)
        elif isinstance(kind, str) and kind != "text":
            self._content.append(part)
            self._words = None

    def _think(self, part: Wire) -> None:
        """Add a piece of Mistral's thinking to the last one, unless that is closed."""
        text = text_of(part.get("thinking"))
        last: Any = self._content[-1] if self._content else None
        if nested(last, "type") == "thinking" and not last.get("closed"):
            last["thinking"][0]["text"] += text
            last |= {name: value for name, value in part.items() if name != "thinking"}
        else:
            self._content.append({**part, "thinking": [{"type": "text", "text": text}]})
            self._words = None
        self._emit(ThinkingDelta(clean(text)))

    def _said(self) -> Any:
        """Return the content: a text, unless there are other parts."""
        if self._words is not None and len(self._content) == 1:
            return "".join(self._words)
        return [part if isinstance(part, dict) else {"type": "text", "text": "".join(part)} for part in self._content]

    def _add_sound(self, part: Wire) -> None:
        """Add a piece of what the model speaks."""
        self._audio |= {name: value for name in ("id", "expires_at") if (value := nested(part, name))}
        self._audio["data"] += [text_of(nested(part, "data"))]
        self._audio["transcript"] += [self._heard(nested(part, "transcript"))]

    def _sound(self) -> Wire:
        """Return the whole of it. Each piece of the sound is encoded by itself."""
        try:
            data = b64encode(b"".join(map(b64decode, self._audio["data"]))).decode()
        except ValueError:
            data = ""
        return {**self._audio, "data": data, "transcript": "".join(self._audio["transcript"])}

    def _add_detail(self, detail: Wire) -> None:
        """Join the parts of one text to one detail again, since its signature is for the whole."""
        last = self._details[-1] if self._details else {}
        if detail.get("type") not in GROWING or any(detail.get(name) != last.get(name) for name in ("type", "index")):
            self._details.append(dict(detail))
            return
        text = {
            name: text_of(last.get(name)) + text_of(detail[name]) for name in ("text", "summary") if detail.get(name)
        }
        last |= {name: value for name, value in detail.items() if value is not None} | text

    # ---- calls

    def _add_older_call(self, part: Wire) -> None:
        self._add_call({"index": OLD_FORM, "function": part})

    def _add_call(self, part: Wire) -> None:
        """Add part of a call: id, name and some of its arguments, each of which may be missing."""
        kind = "custom" if part.get("custom") else "function"
        function: Any = part.get(kind)
        name, text = nested(function, "name"), sdk.json_text(nested(function, "arguments") or nested(function, "input"))
        name = name if isinstance(name, str) else ""
        at = self._place(part)
        if at < 0 or self._begins(self._calls[at], part, name, text):
            at = len(self._calls)
            self._calls.append({"index": part.get("index"), "name": "", "arguments": []})
        call = self._calls[at]
        call |= {name: value for name, value in part.items() if value and name not in ("index", "function", "custom")}
        call["kind"] = kind
        if not call["arguments"]:
            # Some servers send a name in pieces, others repeat it.
            call["name"] = name if name.startswith(call["name"]) else call["name"] + name
        if text:
            call["arguments"].append(text)
            self._emit(ArgsDelta(at, call["name"], clean(text), str(call.get("id", ""))))

    def _place(self, part: Wire) -> int:
        """Return the place of the last call with the index of *part*, or of the last call if it has none; else -1."""
        index = part.get("index")
        same = (at for at, call in enumerate(self._calls) if index is None or call["index"] == index)
        return max(same, default=-1)

    def _begins(self, call: Wire, part: Wire, name: str, text: str) -> bool:
        """Return True if *part* begins another call than *call*. Some servers send no index, or one for all calls; some
        repeat id and name in every part.
        """
        known, given = call.get("id"), part.get("id")
        if not name or (given and given == known and not text):
            return False
        if given and known and given != known:
            return True
        said = call["arguments"]
        return bool(said) and (name != call["name"] or is_json("".join(said).encode()))


def _whole(call: Wire) -> Wire:
    """Return *call* as the API sends it without streaming."""
    rest = {name: value for name, value in call.items() if name not in ("index", "kind", "name", "arguments")}
    text = "".join(call["arguments"])
    if call["kind"] == "custom":
        return {**rest, "custom": {"name": call["name"], "input": text}}
    return {**rest, "function": {"name": call["name"], "arguments": text}}
