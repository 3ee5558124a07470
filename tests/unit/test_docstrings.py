"""Descriptions of parameters in docstrings: three styles, and every function of libraries that write them."""

import importlib
import inspect
import pkgutil
from typing import Annotated

import pytest

from minideep import Agent, Tool, ToolContext
from minideep.docstrings import SECTION, split
from minideep.models import ScriptedModel

GOOGLE = """\
Find lines.

Looks everywhere.

Args:
    path: Where to look,
        below the root.
    limit (int, optional): How many: at most 10.
    *words: What to look for.

    ctx: The run.

Returns:
    The lines.

Raises:
    OSError: no file.
"""
NUMPY = """\
Find lines.

Parameters
----------
path : str
    Where to look,
    below the root.
limit, most : int, optional
    How many: at most 10.
ctx
    The run.

Returns
-------
list
    The lines.
"""
SPHINX = """\
Find lines.

:param str path: Where to look,
    below the root.
:type limit: int
:param limit: How many: at most 10.
:param dict[str, int] ctx: The run.
:returns: The lines.
"""
WHERE, MANY = "Where to look, below the root.", "How many: at most 10."
NAMES = ("path", "limit", "most", "words", "ctx")


@pytest.mark.parametrize(
    ("doc", "text", "found"),
    [
        (
            GOOGLE,
            "Find lines.\n\nLooks everywhere.\n\nReturns:\n    The lines.\n\nRaises:\n    OSError: no file.",
            {"path": WHERE, "limit": MANY, "words": "What to look for.", "ctx": "The run."},
        ),
        (
            NUMPY,
            "Find lines.\n\nReturns\n-------\nlist\n    The lines.",
            {"path": WHERE, "limit": MANY, "most": MANY, "ctx": "The run."},
        ),
        (SPHINX, "Find lines.\n\n:returns: The lines.", {"path": WHERE, "limit": MANY, "ctx": "The run."}),
        ("Args:\n    path: Where.", "", {"path": "Where."}),
        ("Find.\n\nParameters:\n\n    path:\n\n        Where.\n", "Find.", {"path": "Where."}),
    ],
)
def test_each_style_is_read_and_taken_out_of_the_text(doc, text, found):
    assert split(doc.strip(), NAMES) == (text, found)


@pytest.mark.parametrize(
    "doc",
    [
        "Find.",
        "Find.\n\nArgs:\n    path: Where.\n    other: No parameter of it.",
        "Find.\n\nArgs:\n    path: Where.\n    limit How many.",
        "Find.\n\nArgs:\n    Give a path first.",
        "Find.\n\nArgs:\n",
        "Find. Args: path",
        "Find.\n\n    Args:\n        path: In an example.",
        "Find.\n\nParameters\n----------\nA path, then a limit.",
        "Find.\n\n:param other: No parameter of it.",
    ],
)
def test_a_docstring_that_is_not_understood_stays_whole(doc):
    assert split(doc, NAMES) == (doc, {})


def test_a_tool_says_in_its_schema_what_its_docstring_says_of_its_parameters():
    async def find(path: str, ctx: ToolContext, limit: Annotated[int, "Lines."] = 10) -> str:
        """Find lines.

        Args:
            path: Where to look.
            ctx: The run.
            limit: How many.

        Returns:
            The lines.
        """
        return path

    made = Tool(find)
    assert made.description == "Find lines.\n\nReturns:\n    The lines."
    assert made.schema["properties"] == {
        "path": {"type": "string", "description": "Where to look."},
        "limit": {"type": "integer", "description": "Lines.", "default": 10},  # What stands beside the hint is nearer.
    }
    other = Tool(find, description="Search.")
    assert (other.description, other.schema["properties"]["path"]["description"]) == ("Search.", "Where to look.")


async def test_a_model_is_sent_both():
    def look(place: str) -> str:
        """Look.

        :param place: Where.
        """
        return place

    model = ScriptedModel(["ok"])
    await Agent(model, [look]).run("go")
    (sent,) = model.requests[0].tools
    assert (sent.description, sent.schema["properties"]["place"]["description"]) == ("Look.", "Where.")


def functions_of(name):
    """Every function and method of a package, by what can be imported of it."""
    root = importlib.import_module(name)
    modules = [root]
    for found in pkgutil.walk_packages(root.__path__, f"{name}.", onerror=lambda _: None):
        if "__main__" not in found.name:
            try:
                modules.append(importlib.import_module(found.name))
            except Exception:  # A part that needs another package.
                continue
    values = [value for module in modules for value in vars(module).values()]
    owned = [one for value in values if inspect.isclass(value) for one in vars(value).values()]
    return {one for one in (*values, *owned) if inspect.isfunction(one) and one.__doc__}


@pytest.mark.parametrize(("package", "at_least"), [("rich", 150), ("jsonschema", 15), ("anthropic", 500)])
def test_the_docstrings_of_real_libraries_lose_nothing(package, at_least):
    read = described = 0
    for function in functions_of(package):
        doc, names = inspect.cleandoc(function.__doc__), inspect.signature(function).parameters
        described += bool(SECTION.search(doc))
        text, found = split(doc, names)
        if text == doc:
            assert not found
            continue
        read += 1
        assert found.keys() <= names.keys()
        # The heading, names and types go; no other word may.
        said = [line.partition(": ")[2] if ": " in line else line for line in doc.splitlines() if line[-1:] != ":"]
        kept = {*text.split(), *" ".join(found.values()).split()}
        assert {*" ".join(said).split()} <= kept | {*names}
    assert read >= max(at_least, 0.8 * described)
