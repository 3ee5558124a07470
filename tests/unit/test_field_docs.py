"""What `help()` says about the fields of a class."""

import inspect
import pydoc
import subprocess
import sys

import pytest

from minideep import Costs, FileEntry, Limits, RunInfo, Subagent, ToolCall, Turn
from minideep.documented import Struct
from minideep.events import StreamEvent, TextDelta, UserSaid


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Turn, "artifacts: The files that the turn wrote, by path."),
        (Costs, "model_s: Waiting for models."),
        (Limits, "seconds: Wall time since the input was accepted."),
        (FileEntry, "size: Bytes."),
        (ToolCall, "raw: The arguments as a JSON object"),
        (Subagent, "tools: None: the *tools* of the parent."),
        (RunInfo, "path: The keys of the calls that lead to it."),
        (UserSaid, "by: The middleware that said it"),
        (TextDelta, "path: The run that the event belongs to."),
        (StreamEvent, "number: The event's number in its thread"),
    ],
)
def test_help_says_what_the_fields_are(kind, said):
    shown = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    assert f" |      {said}" in shown
    assert f"    {said}" in inspect.getdoc(kind)


def test_a_turn_itself_says_it_too():
    turn = Turn(thread_id="t", status="ended")
    assert inspect.getdoc(turn) == inspect.getdoc(Turn)
    assert inspect.getdoc(Turn).startswith("The result of a turn, which goes from")


def test_a_field_without_a_text_is_not_listed_and_a_class_may_have_none():
    class Bare(Struct):
        size: int

    assert Bare.__doc__ is None
    assert "thread_id:" not in Turn.__doc__


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout


def test_without_docstrings_or_without_the_source_the_plain_docstring_is_left(tmp_path):
    assert run("-OO", "-c", "from minideep import Turn; print(Turn.__doc__)") == "None\n"
    module = tmp_path / "sourceless.py"
    module.write_text(
        'from minideep.documented import Struct\nclass A(Struct):\n    "Plain."\n    x: int\n    "Lost."\n'
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import sourceless, os; print(sourceless.A.__doc__)"
    assert run("-c", code) == "Plain.\n\nFields:\n    x: Lost.\n"
    assert run("-c", code.replace("print", f"os.remove({str(module)!r}); print")) == "Plain.\n"


def test_nothing_is_parsed_until_somebody_reads_it():
    code = (
        "import sys; from minideep import Turn; print('minideep.field_docs' in sys.modules, len(Turn.__doc__) > 1000)"
    )
    assert run("-c", code) == "False True\n"
