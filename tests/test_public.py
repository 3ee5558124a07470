"""The public names and their signatures, as they stand: a change here is a change for users."""

import inspect
import re
from pathlib import Path
from typing import get_origin

from harness.names import MODULES, own_and_inherited

import minideep
import minideep.checkpoint
import minideep.events
import minideep.exchange
import minideep.export
import minideep.ports

SNAPSHOT = Path(__file__).parent / "public_names.txt"


def signature(value):
    """Names, kinds and defaults; annotations are the type checker's, and print differently from Python to Python."""
    if get_origin(value) is not None or getattr(value, "_is_protocol", False):  # A type, spelled out; a port.
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


PROMISED = [
    (module, module.__all__)
    for module in (*MODULES, minideep.events, minideep.exchange, minideep.export, minideep.ports)
]
PROMISED.append((minideep.checkpoint, ["SyncStore", "threaded"]))


def described(module, names):
    for name in sorted(names):
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
    found = "\n".join(line for module, names in PROMISED for line in described(module, names)) + "\n"
    assert found == SNAPSHOT.read_text()


def test_the_names_for_type_checkers_are_those_at_run_time():
    source = Path(minideep.__file__).with_suffix(".pyi").read_text()
    typed = set(re.findall(r"\b(\w+) as \1\b", source))
    assert "\n__version__: str\n" in source
    assert {*typed, "__version__"} == set(minideep.__all__)


def test_every_error_is_public():
    from minideep import errors

    assert set(errors.__all__) <= set(minideep.__all__)
