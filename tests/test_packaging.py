"""The release: what is built, that it installs and runs, and that what says which versions are supported agrees."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import minideep

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def git(*args, cwd=ROOT):
    return subprocess.run(["git", *args], cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def clone(tmp_path):
    """The files that git tracks here, as they are now, in a repository of their own."""
    pytest.importorskip("hatchling", reason="pip install -e '.[dev]'")
    if not (ROOT / ".git").exists():
        pytest.skip("no repository")
    clone = tmp_path / "clone"
    for name in git("ls-files").splitlines():
        if (ROOT / name).exists():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
    git("init", "-q", cwd=clone)
    git("add", "-A", cwd=clone)
    return clone


def module(name, *args, cwd):
    """Run a module of the development environment, and return what it printed."""
    done = subprocess.run([sys.executable, "-m", name, *map(str, args)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(archive):
    with tarfile.open(archive) as packed:
        return {member.name.partition("/")[2] for member in packed.getmembers() if member.isfile()}


def test_the_source_distribution_holds_tracked_files_only(clone, tmp_path):
    for stray in ("state/cache.db", "minideep/stray.py", "tests/new/x.py", "odd [x]/a*b", ".minideep/t.json", "NOTES"):
        (clone / stray).parent.mkdir(exist_ok=True)
        (clone / stray).touch()
    module("hatchling", "build", "-t", "sdist", "-d", tmp_path / "out", cwd=clone)
    (archive,) = (tmp_path / "out").iterdir()
    assert files(archive) == {*git("ls-files", cwd=clone).splitlines(), "PKG-INFO"}


def test_both_distributions_have_the_version_of_the_package_and_are_accepted_by_twine(clone, tmp_path):
    pytest.importorskip("twine", reason="pip install -e '.[dev]'")
    module("hatchling", "build", "-d", tmp_path / "out", cwd=clone)
    archives = sorted((tmp_path / "out").iterdir())
    assert [archive.name for archive in archives] == [
        f"minideep-{minideep.__version__}-py3-none-any.whl", f"minideep-{minideep.__version__}.tar.gz"
    ]  # fmt: skip
    assert module("twine", "--no-color", "check", "--strict", *archives, cwd=clone).count("PASSED") == 2
    with zipfile.ZipFile(archives[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        about = message_from_bytes(wheel.read(f"minideep-{minideep.__version__}.dist-info/METADATA"))
    # The modules, their stubs and their pages; no tests, no benchmarks.
    assert names == {name for name in git("ls-files", cwd=clone).splitlines() if name.startswith("minideep/")}
    assert {"minideep/py.typed", "minideep/__init__.pyi", "minideep/runtime/README.md"} <= names
    assert about["License-Expression"] == "MIT"
    assert about["Requires-Python"] == PROJECT["requires-python"]


def test_a_wheel_installed_into_an_empty_environment_runs_the_program_of_the_first_command(clone, tmp_path):
    """This test alone needs the package index, unless `uv` has the libraries in its cache."""
    pytest.importorskip("uv", reason="pip install -e '.[dev]'")
    module("hatchling", "build", "-t", "wheel", "-d", tmp_path / "out", cwd=clone)
    (wheel,) = (tmp_path / "out").iterdir()
    module("uv", "venv", "-q", "--python", sys.executable, tmp_path / "venv", cwd=tmp_path)
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", tmp_path / "venv/bin/python"]
    done = subprocess.run([*install, f"{wheel}[cli]"], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode and subprocess.run([*install, "msgspec"], cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    command = re.search(r"^```bash\n(.*)", (ROOT / "README.md").read_text(), re.MULTILINE)[1].split("&& ")[-1]
    command = command.replace(".venv/bin/minideep", str(tmp_path / "venv/bin/minideep"))
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    ran = subprocess.run(["bash", "-c", command], cwd=clone, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "The loop: decide, perform, apply" in (clone / "TOUR.md").read_text()


# ---- which versions


def workflow(name):
    return yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())


def commands(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def test_every_supported_python_is_tested_on_both_systems_and_the_lowest_with_the_floors():
    jobs = workflow("tests")["jobs"]
    supported = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    matrix = jobs["posix"]["strategy"]["matrix"]
    assert matrix["python"] == supported
    assert [name.split("-")[0] for name in matrix["os"]] == ["ubuntu", "macos"]
    assert matrix["include"] == [{"os": "ubuntu-latest", "python": f"{supported[-1]}t", "trial": True}]
    assert PROJECT["requires-python"] == f">={supported[0]}"
    steps = jobs["floors"]["steps"]
    assert [step["with"]["python-version"] for step in steps if "with" in step] == [supported[0]]
    assert any("--resolution lowest-direct" in command for command in commands(jobs["floors"]))


def test_a_release_is_tested_and_checked_before_it_is_published_without_a_password():
    jobs = workflow("release")["jobs"]
    order = [" ".join(command.split()[:3]) for command in commands(jobs["build"])]
    assert order[-3:] == ["python -m pytest", "python -m hatchling", "python -m twine"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert not [step for step in jobs["publish"]["steps"] if "password" in step.get("with", {})]


def test_every_dependency_has_a_floor():
    for name in (*PROJECT["dependencies"], *EXTRAS["cli"], *EXTRAS["dev"]):
        needed = Requirement(name)
        assert needed.name == "minideep" or any(floor.operator == ">=" for floor in needed.specifier), name


def test_the_lock_pins_every_dependency_within_its_bounds_by_hash_and_names_no_index():
    """`.github/CONTRIBUTING.md` says how to write it anew."""
    text = (ROOT / "requirements.lock").read_text()
    assert "://" not in text
    entries = re.findall(r"^([^#\s].*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert all("--hash=sha256:" in entry for entry in entries)
    locked = [Requirement(entry.split(" \\\n")[0]) for entry in entries]
    versions = {pin.name: str(pin.specifier).removeprefix("==") for pin in locked}
    for name in (*PROJECT["dependencies"], *EXTRAS["cli"], *EXTRAS["dev"]):
        needed = Requirement(name)
        if needed.name != "minideep":
            assert needed.specifier.contains(versions[needed.name.lower()]), name
