"""Shapes that models plausibly write: what has one meaning is taken as it, and what has none or several is refused."""

import pytest
from harness import shapes
from harness.shapes import ARGUMENTS, PROSE, REWORDED, TODOS, answer, item, todos

from minideep.datatypes import DataType


def each(found):
    return pytest.mark.parametrize("shape", found, ids=[shape.name for shape in found])


def test_there_are_more_than_60_and_each_that_is_refused_says_why():
    every = [*ARGUMENTS, *TODOS, *REWORDED, *PROSE]
    assert len(every) >= 60
    assert len({shape.name for shape in every}) == len(every)
    assert all((shape.meant is None) == bool(shape.why) for shape in every)


@each(ARGUMENTS)
async def test_arguments(shape):
    text, is_error, _ = await answer(shape.given)
    assert is_error is (shape.meant is None), text
    assert text.startswith(shape.meant or f"{shape.given.name}: ")


@each(TODOS)
async def test_todos(shape):
    text, is_error, found = await answer(shape.given)
    assert (is_error, found) == (shape.meant is None, shape.meant or []), text


@each(REWORDED)
async def test_todos_after_a_completed_one(shape):
    before = [("Run the tests", "completed")]
    _, is_error, found = await answer(todos([item(*before[0])]), shape.given)
    assert (is_error, found) == (shape.meant is None, shape.meant or before)


@each(PROSE)
def test_json_in_prose(shape):
    kind = DataType(shapes.Report)
    if shape.meant is None:
        with pytest.raises(ValueError, match="give JSON of this shape"):
            kind.read_text(shape.given)
    else:
        assert kind.read_text(shape.given) == shape.meant
