"""The error of a `ScriptedModel` that is asked once more than its test has foreseen."""

from ..errors import ModelError
from ..messages import ToolMessage
from ..ports import Request


def past_the_end(request: Request, replies: int) -> ModelError:
    """Return the error for *request*, which came after the last of *replies* replies."""
    count = f"{replies} {'reply' if replies == 1 else 'replies'}"
    asked = ""
    if request.messages:
        last = request.messages[-1]
        what = f"the result of {last.name!r}" if isinstance(last, ToolMessage) else "the message"
        asked = f", after {what} {last.text!r:.200}"
    if request.system:
        asked += f", under the system prompt {request.system!r:.80}"
    remedy = "add a reply, or give a function of the request"
    return ModelError(f"scripted: the script has {count} and was asked for one more{asked}; {remedy}")
