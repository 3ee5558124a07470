"""Models by name, and what the package offers."""

import subprocess
import sys

import pytest

import minideep.models
from minideep import ConfigError
from minideep.models import Anthropic, OfflineModel, OpenAI, OpenAIChat, ScriptedModel, resolve


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("anthropic:claude-x", Anthropic, "claude-x"),
        ("openai:gpt-x", OpenAI, "gpt-x"),
        ("openai-chat:org/model:free", OpenAIChat, "org/model:free"),
        ("offline:", OfflineModel, "offline"),
    ],
)
def test_a_string_names_a_provider_and_a_model(text, kind, name):
    model = resolve(text)
    assert (type(model), model.name) == (kind, name)


def test_a_model_stands_for_itself():
    model = ScriptedModel([])
    assert resolve(model) is model


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (
            "",
            "unknown model ''; write `provider:model`, the provider one of anthropic:, openai:, openai-chat:, offline:",
        ),
        ("openai:", "model 'openai:' names no model; write for example `openai:MODEL`"),
        ("offline:x", "there is one offline model; write 'offline:', not 'offline:x'"),
        (object, "a model is a string or has `name` and `async complete"),
    ],
)
def test_what_names_no_model_is_refused_with_what_to_write(wrong, problem):
    with pytest.raises(ConfigError) as caught:
        resolve(wrong)
    assert problem in str(caught.value)


def test_a_model_string_loads_no_other_provider():
    code = """
import sys
from minideep.models import resolve
resolve("offline:")
print([name for name in sys.modules if name.startswith("minideep.models.") and "openai" in name or "anthropic" in name])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_a_name_that_is_not_offered_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'minideep\.models' has no attribute 'Gpt'"):
        minideep.models.Gpt  # noqa: B018
