"""The words about a mistake name what exists, and are loaded only for a mistake."""

import subprocess
import sys
from importlib import import_module

import pytest

import minideep
from minideep import Agent, Middleware, Reject, Turn
from minideep.kinds import kind_of
from minideep.mistakes import PACKAGES, RETURNS, SYNONYMS, WORDS, best, did_you_mean, item_of_list
from minideep.runtime.spec import HOOKS

SELDOM = {"Executed", "FileInfo", "Missing", "PermittedBackend"}
"""What is needed by those who write a backend or a tool, who have its page open."""


def test_every_name_that_is_looked_for_elsewhere_is_where_it_is_said_to_be():
    for package, names in PACKAGES.items():
        module = import_module(f"minideep.{package}")
        for name in names.split():
            assert hasattr(module, name)
            assert name not in minideep.__all__
    known = {name for names in PACKAGES.values() for name in names.split()}
    assert set(SYNONYMS.values()) <= {*minideep.__all__, *known}
    assert not set(SYNONYMS) & set(minideep.__all__)


@pytest.mark.parametrize("package", ["backends", "mcp", "middleware", "models", "permissions"])
def test_every_class_of_a_package_is_found_by_those_who_look_in_the_wrong_place(package):
    module = import_module(f"minideep.{package}")
    classes = {
        name
        for name in module.__all__
        if name[0].isupper() and not getattr(getattr(module, name), "_is_protocol", False)
    }
    assert classes - set(PACKAGES[package].split()) - set(minideep.__all__) <= SELDOM


def test_one_of_several_remedies_is_never_guessed():
    ways = ["write Approve()", "write Reject(reason=...)"]
    assert best(ways, "reject") == "write Reject(reason=...)"
    assert best(ways, "the Grand") == "write Approve() or Reject(reason=...)"
    assert best(["write Approve()", "pass an instance, Reject()"], Reject) == "pass an instance, Reject()"


def test_an_empty_text_is_no_item_to_write():
    text = kind_of(str)
    assert (item_of_list(text, "a"), item_of_list(text, "")) == ("write ['a']", "")


def test_no_word_of_others_hides_an_attribute():
    for kind in (Agent, Turn, minideep.Handle):
        assert not [name for name in WORDS[kind.__name__] if hasattr(kind, name)]
    assert all(hasattr(Turn, name) for name in WORDS["Handle"])


def test_every_hook_has_what_it_returns():
    assert set(RETURNS) == set(HOOKS) <= set(vars(Middleware))


def test_a_guess_is_near_or_not_made():
    assert did_you_mean("Steps", ["steps", "tokens"]) == "; did you mean 'steps'?"
    assert did_you_mean("instructions", ["interrupt_on", "tools"], "; there are two") == "; there are two"


def test_a_program_without_a_mistake_does_not_load_them():
    code = """
import sys
from minideep import Agent, Limits
from minideep.models import ScriptedModel
Agent(ScriptedModel(["Done."]), limits=Limits(steps=5)).run_sync("Hello").raise_for_status()
assert "minideep.mistakes" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
