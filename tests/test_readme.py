"""README is the manual: its blocks run, its tables match the package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()


PAGES = sorted([*(ROOT / "minideep").rglob("README.md"), *(ROOT / name / "README.md" for name in ("bench", "tests"))])


def blocks(language, text=TEXT):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists()], ids=lambda page: page.parent.name)
def test_the_python_blocks_of_a_page_run_in_order_in_one_program(page, tmp_path):
    program = "\n".join(blocks("python", page.read_text()))
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_every_python_block_runs_in_order_in_one_program(tmp_path):
    (tmp_path / "NOTES.md").write_text("Jane Austen wrote six novels that are still read today.\n")
    program = "\n".join(blocks("python"))
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "Jane Austen" in (tmp_path / "HERE.md").read_text()


def test_the_quick_start_is_two_blocks_with_nothing_but_the_title_before_them():
    first = TEXT.index("```")
    assert TEXT[:first].count("\n\n") == 2
    assert len(blocks("bash")) == 2
    assert "minideep run" in blocks("bash")[0]
    assert "pytest" in blocks("bash")[1]


def test_the_main_job_of_the_quick_start_does_what_it_announces(tmp_path):
    """The command itself; that it installs from nothing is what CI runs."""
    shutil.copytree(ROOT / "minideep", tmp_path / "minideep", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", tmp_path)
    command = blocks("bash")[0].split("&&")[-1].strip().replace(".venv/bin/minideep", f"{sys.executable} -m minideep")
    run = subprocess.run(["bash", "-c", command], cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
                         capture_output=True, text=True)  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "/TOUR.md is written" in run.stdout
    assert "The loop: decide, perform, apply" in (tmp_path / "TOUR.md").read_text()


def test_every_module_stands_in_the_table_and_the_table_names_no_other():
    table = TEXT.split("## The modules")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+\.py|\w+/)`", table))
    package = ROOT / "minideep"
    top = {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    folders = {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").exists()}
    assert named == top | folders


def test_every_figure_has_a_date_and_a_command():
    costs = TEXT.split("## What it costs")[1].split("\n## ")[0]
    assert re.search(r"20\d\d-\d\d-\d\d", costs)
    for command in re.findall(r"`python (bench/\w+\.py)", costs):
        assert (ROOT / command).exists()
    assert "python bench/" in costs


def test_the_project_speaks_of_itself_alone():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    for name in files or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")]:
        text = (ROOT / name).read_text(errors="replace")
        for word in ("/wo" + "rk/", "../sha" + "red", "/ro" + "ot/", "clos" + "ing note"):
            assert word not in text, f"{name}: {word}"
