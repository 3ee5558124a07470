"""The source distribution holds tracked files only."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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


def test_the_source_distribution_holds_tracked_files_only(clone, tmp_path):
    for stray in ("state/cache.db", "minideep/stray.py", "tests/new/x.py", "odd [x]/a*b", ".minideep/t.json", "NOTES"):
        (clone / stray).parent.mkdir(exist_ok=True)
        (clone / stray).touch()
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path / "out"]
    subprocess.run(build, cwd=clone, check=True, capture_output=True)
    (archive,) = (tmp_path / "out").iterdir()
    with tarfile.open(archive) as packed:
        names = {member.name.partition("/")[2] for member in packed.getmembers() if member.isfile()}
    assert names == {*git("ls-files", cwd=clone).splitlines(), "PKG-INFO"}
