"""The words about a mistake name what exists, and are loaded only for a mistake."""

import subprocess
import sys
from importlib import import_module

import minideep
from minideep import Agent, Middleware, Turn
from minideep.mistakes import PACKAGES, RETURNS, SYNONYMS, WORDS, did_you_mean
from minideep.runtime.spec import HOOKS


def test_every_name_that_is_looked_for_elsewhere_is_where_it_is_said_to_be():
    for package, names in PACKAGES.items():
        module = import_module(f"minideep.{package}")
        for name in names.split():
            assert hasattr(module, name)
            assert name not in minideep.__all__
    assert set(SYNONYMS.values()) <= set(minideep.__all__)
    assert not set(SYNONYMS) & set(minideep.__all__)


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
