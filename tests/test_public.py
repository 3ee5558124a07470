"""The public names and their signatures, as they stand: a change here is a change for users."""

import inspect
import re
from pathlib import Path
from typing import get_origin

import minideep
import minideep.backends
import minideep.blueprint
import minideep.evals
import minideep.events
import minideep.middleware
import minideep.models
import minideep.testing

SNAPSHOT = Path(__file__).parent / "public_names.txt"
MODULES = [
    minideep,
    minideep.backends,
    minideep.blueprint,
    minideep.evals,
    minideep.middleware,
    minideep.models,
    minideep.testing,
]


def signature(value):
    """Names, kinds and defaults; annotations are the type checker's, and print differently from Python to Python."""
    if get_origin(value) is not None:  # A type, spelled out.
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def own_and_inherited(kind):
    """The members of *kind*, with those of its bases that are no public names themselves."""
    public = {name for module in MODULES for name in module.__all__}
    bases = [
        base for base in kind.__mro__[1:] if base.__module__.startswith("minideep.") and base.__name__ not in public
    ]
    return {name: member for base in (*reversed(bases), kind) for name, member in vars(base).items()}


def described(module):
    for name in sorted(module.__all__):
        value = getattr(module, name)
        yield f"{module.__name__}.{name}{signature(value)}"
        if inspect.isclass(value) and not issubclass(value, BaseException):
            for member, method in sorted(own_and_inherited(value).items()):
                if not member.startswith("_") and inspect.isfunction(method):
                    yield f"    .{member}{signature(method)}"
                elif not member.startswith("_") and isinstance(method, property):
                    yield f"    .{member}"


def test_the_public_names_and_signatures_are_those_of_the_snapshot():
    """If this is meant to change, write the new text into `tests/public_names.txt`."""
    found = "\n".join(line for module in MODULES for line in described(module)) + "\n"
    assert found == SNAPSHOT.read_text()


def test_the_names_for_type_checkers_are_those_at_run_time():
    source = Path(minideep.__file__).read_text()
    typed = set(re.findall(r"\b(\w+) as \1\b", source))
    assert typed == set(minideep.__all__)


def test_every_error_is_public():
    from minideep import errors

    assert set(errors.__all__) <= set(minideep.__all__)
