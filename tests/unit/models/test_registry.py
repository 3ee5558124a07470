"""Models by name, and what the package offers."""

import os
import subprocess
import sys

import pytest

import minideep.models
from minideep import Agent, ConfigError, Subagent, create_deep_agent
from minideep.models import (
    Anthropic,
    FallbackModel,
    OfflineModel,
    OpenAI,
    OpenAIChat,
    ScriptedModel,
    register,
    resolve,
)


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
            "unknown model ''; write `provider:model`, the provider one of anthropic:, openai:, openai-chat:, offline:, "
            "ollama:, lmstudio:, vllm:, openrouter:, groq:, deepseek:, mistral:, gemini:",
        ),
        ("openai:", "model 'openai:' names no model; write for example `openai:MODEL`"),
        ("offline:x", "there is one offline model; write 'offline:', not 'offline:x'"),
        ("groq:", "model 'groq:' names no model; write for example `groq:MODEL`"),
        ("nobody:x", "unknown model 'nobody:x'; write `provider:model`"),
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


# ---- what a program registers


def scripted(name):
    model = ScriptedModel([f"{name} says hello"])
    model.name = name
    return model


def test_a_registered_provider_works_wherever_a_model_string_does():
    register("test-everywhere", scripted)
    assert Agent("test-everywhere:a:b").run_sync("hi").text == "a:b says hello"
    assert FallbackModel(["test-everywhere:a", "offline:"]).name == "a or offline"
    child = Subagent(name="critic", description="judges", model="test-everywhere:c")
    assert create_deep_agent("test-everywhere:a", subagents=[child]).run_sync("hi").text == "a says hello"


@pytest.mark.parametrize("taken", ["anthropic", "offline", "groq", "test-taken"])
def test_a_name_that_is_taken_is_refused_unless_it_is_to_be_replaced(taken):
    """In a process of its own: other tests need the providers that are there."""
    code = f"""
from minideep import ConfigError
from minideep.models import ScriptedModel, register, resolve
register("test-taken", lambda name: ScriptedModel([]))
try:
    register({taken!r}, lambda name: ScriptedModel([]))
except ConfigError as error:
    print(error)
register({taken!r}, lambda name: ScriptedModel([name]), replace=True)
print(type(resolve("{taken}:x")).__name__)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    refused = f"the provider {taken!r} is there already; take another name, or pass `replace=True`"
    assert run.stdout.splitlines() == [refused, "ScriptedModel"]


@pytest.mark.parametrize("wrong", ["", "a:b", "a b", "a\n", "\x1b[31m", "x" * 65])
def test_a_name_that_cannot_stand_before_the_colon_is_refused(wrong):
    with pytest.raises(ConfigError, match="register: name must be a word of up to 64 characters without colon, not '"):
        register(wrong, scripted)


def test_what_is_no_factory_and_what_a_factory_returns_that_is_no_model_are_refused():
    with pytest.raises(ConfigError, match="register: factory must be a plain function, not 'scripted'"):
        register("test-no-factory", "scripted")
    register("test-no-model", lambda name: None)
    with pytest.raises(ConfigError, match="provider 'test-no-model': its factory must return a model, which has"):
        resolve("test-no-model:x")
    with pytest.raises(ConfigError, match="model 'test-no-model:' names no model"):
        resolve("test-no-model:")


# ---- what another package declares


MODULE = """
from minideep.models import ScriptedModel

def factory(name):
    return ScriptedModel([f"{name} says hello"])

number = 7
"""


def ask(code, *folders):
    """Run *code* where the packages in *folders* are installed."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, folders), *sys.path])}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def installed(folder, package, entry, module="test_provider"):
    """A folder for `sys.path` with an installed distribution, as pip leaves it."""
    about = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[minideep.models]\n{entry}\n")
    (folder / f"{module}.py").write_text(MODULE)
    return folder


ASK = """
from minideep import Agent, ConfigError
try:
    print(Agent("test-other:large").run_sync("hi").text)
except ConfigError as error:
    print(error)
"""


def test_a_provider_that_an_installed_package_declares_is_found(tmp_path):
    folder = installed(tmp_path, "other-package", "test-other = test_provider:factory")
    assert ask(ASK, folder) == "large says hello"
    assert "gemini:, test-other:" in ask(ASK.replace("test-other:large", "nobody:x"), folder)


def test_what_is_installed_is_read_only_for_a_name_that_is_not_known(tmp_path):
    """Reading it costs milliseconds, and importing the reader as well."""
    folder = installed(tmp_path, "other-package", "test-other = test_provider:factory")
    code = """
import sys
from minideep.models import register, resolve
register("mine", lambda name: resolve("offline:"))
for known in ("offline:", "openai:gpt-5", "ollama:qwen3", "mine:x"):
    resolve(known)
print("importlib.metadata" in sys.modules, end=" ")
resolve("test-other:x")
print("importlib.metadata" in sys.modules)
"""
    assert ask(code, folder) == "False True"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("test_missing:factory", "cannot be imported: ModuleNotFoundError: No module named 'test_missing'"),
        (
            "test_provider:nothing",
            "cannot be imported: AttributeError: module 'test_provider' has no attribute 'nothing'",
        ),
        ("test_provider:number", "is not a function: 7"),
    ],
)
def test_a_package_whose_provider_is_broken_is_named(entry, problem, tmp_path):
    folder = installed(tmp_path, "other-package", f"test-other = {entry}")
    assert ask(ASK, folder) == f"provider 'test-other' of package other-package {problem}"


def test_a_provider_that_two_packages_declare_is_refused_and_one_that_is_registered_goes_first(tmp_path):
    folders = [
        installed(tmp_path / name, f"{name}-package", "test-other = test_provider:factory") for name in ("one", "two")
    ]
    assert ask(ASK, *folders) == (
        "provider 'test-other' is declared by one-package and two-package; uninstall one, or call `register`"
    )
    mine = "from minideep.models import OfflineModel, register\nregister('test-other', lambda name: OfflineModel())\n"
    assert "not a language model" in ask(mine + ASK, *folders)
