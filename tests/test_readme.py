"""The pages are true: their blocks run, their tables and links match the code, their figures say where they are from."""

import ast
import asyncio
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import minideep
from minideep import (
    Agent,
    Middleware,
    ToolContext,
    Turn,
    backends,
    blueprint,
    errors,
    evals,
    events,
    mcp,
    middleware,
    models,
    permissions,
    testing,
)
from minideep.core import ALWAYS, TABLE
from minideep.runtime.cancel import TurnScope

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "minideep"
README = ROOT / "README.md"
COMING_FROM = sorted(PACKAGE.glob("COMING_FROM_*.md"))
PAGES = sorted(
    [*PACKAGE.rglob("README.md"), *COMING_FROM, *(ROOT / "bench").rglob("README.md"), ROOT / "tests/README.md"]
)
TEXT = README.read_text()


def blocks(language, text=TEXT):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def section(title, text=TEXT):
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text):
    """The cells of each row of the tables in *text*, without the heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = {place - 1 for place, line in enumerate(lines) if re.fullmatch(r"[| :-]+", line)}
    body = [line for place, line in enumerate(lines) if place not in heads and place - 1 not in heads]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body]


def run_program(program, folder):
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_blocks_of_a_page_run_in_order_in_one_program(page, tmp_path):
    run_program("\n".join(blocks("python", page.read_text())), tmp_path)


def test_the_python_blocks_of_readme_run_in_order_in_one_program(tmp_path):
    run_program("\n".join(blocks("python")), tmp_path)
    assert "Jane Austen" in (tmp_path / "HERE.md").read_text()


@pytest.mark.parametrize("place", range(len(blocks("python"))))
def test_each_python_block_of_readme_runs_alone_in_an_empty_folder(place, tmp_path):
    run_program(blocks("python")[place], tmp_path)


def test_the_first_screen_says_what_it_is_and_shows_the_example_the_two_commands_and_the_picture():
    screen = TEXT.splitlines()[:60]
    fences = [line for line in screen if line.startswith("```")]
    assert fences == ["```python", "```", "```bash", "```", "```bash", "```"]
    pictures = [line for line in screen if line.startswith("![")]
    assert len(pictures) == 2
    assert all((ROOT / picture[picture.index("](") + 2 : -1]).exists() for picture in pictures)
    assert len([line for line in blocks("python")[0].splitlines() if line.strip()]) <= 15
    assert len(blocks("bash")) == 2
    assert "minideep run" in blocks("bash")[0]
    assert "pytest" in blocks("bash")[1]


def test_the_main_job_of_the_quick_start_does_what_it_announces(tmp_path):
    """The command itself; that it installs from nothing is what CI runs."""
    shutil.copytree(PACKAGE, tmp_path / "minideep", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(README, tmp_path)
    command = blocks("bash")[0].split("&&")[-1].strip().replace(".venv/bin/minideep", f"{sys.executable} -m minideep")
    run = subprocess.run(["bash", "-c", command], cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
                         capture_output=True, text=True)  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "/TOUR.md is written" in run.stdout
    assert "The loop: decide, perform, apply" in (tmp_path / "TOUR.md").read_text()


# ---- the code


def modules_in_order():
    """The row of each module in the table of modules."""
    named = [re.findall(r"`(\w+\.py|\w+/)`", row[0]) for row in rows(section("The modules"))]
    return {name: place for place, names in enumerate(named) for name in names}


def top(path):
    """A module of the package as the table names it."""
    part = path.relative_to(PACKAGE).parts[0]
    return part if part.endswith(".py") else f"{part}/"


def test_every_module_stands_in_the_table_and_the_table_names_no_other():
    there = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    there |= {f"{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert set(modules_in_order()) == there


def test_a_module_imports_only_what_stands_above_it_in_the_table():
    order = modules_in_order()
    by_name = {name.removesuffix(".py").removesuffix("/"): place for name, place in order.items()}
    for path in PACKAGE.rglob("*.py"):
        if top(path) not in order:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level == len(path.relative_to(PACKAGE).parts):
                for name in [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]:
                    assert by_name.get(name, 0) <= order[top(path)], f"{path}:{node.lineno}"


def test_what_the_reading_order_names_is_there():
    way = rows(section("One turn through the code", (PACKAGE / "runtime/README.md").read_text()))
    assert len(way) > 20
    for files, names, _ in way:
        first, *others = re.findall(r"`([\w./]+)`", files)
        # `runtime/calls.py`, `loop.py`: the second is beside the first, or at the root.
        beside = [
            path for file in others for path in [(PACKAGE / first).parent / file, PACKAGE / file] if path.exists()
        ]
        source = "\n".join(path.read_text() for path in [PACKAGE / first, *beside])
        assert len(beside) >= len(others)
        for name in re.findall(r"`([\w.]+)`", names):
            last = name.split(".")[-1]
            assert re.search(rf"^ *(async def|def|class) {last}\b|^{last}: ", source, re.MULTILINE), f"{files}: {name}"


def test_every_page_names_the_modules_of_its_package():
    for page in PAGES:
        if page.is_relative_to(PACKAGE) and page.name == "README.md":
            text = section("Modules", page.read_text()) if "\n## Modules\n" in page.read_text() else page.read_text()
            for module in page.parent.glob("[a-z]*.py"):
                assert f"`{module.name}`" in text, f"{page}: {module.name}"


def test_the_table_of_the_core_is_that_of_the_code():
    page = (PACKAGE / "runtime/README.md").read_text()
    written = {row[0]: row[1] for row in rows(section("The core", page))}
    legal = {f"`{kind.__name__}`": "any" if at is ALWAYS else ", ".join(at) for kind, (at, _) in TABLE.items()}
    assert written == legal


def test_the_table_of_hooks_is_that_of_the_code():
    page = (PACKAGE / "runtime/README.md").read_text()
    written = {row[0]: row[1].replace("\\|", "|") for row in rows(section("Hooks", page))}
    hooks = {name: hook for name, hook in vars(Middleware).items() if inspect.iscoroutinefunction(hook)}
    there = {}
    for name, hook in hooks.items():
        returns = [kind.strip() for kind in str(inspect.signature(hook).return_annotation).split("|")]
        names = " | ".join(re.sub(r"<class '|'>", "", kind).split(".")[-1] for kind in returns)
        there[f"`{name}({', '.join([*inspect.signature(hook).parameters][1:])})`"] = f"`{names}`"
    assert written == there


def test_the_statuses_of_a_turn_s_scope_are_those_of_the_code():
    page = (PACKAGE / "runtime/README.md").read_text()
    written = [row[0].strip("`") for row in rows(section("Cancellation", page))]
    assert written == re.findall(r"^ *\* `(\w+)`:", TurnScope.__doc__, re.MULTILINE)


def test_the_table_of_errors_names_each_error_and_says_whose_child_it_is():
    table = rows(section("Errors", (PACKAGE / "runtime/README.md").read_text()))
    about = {name: row[2] for row in table for name in re.findall(r"`(\w+)`", row[0])}
    assert {*about, "MinideepError"} == set(errors.__all__)
    for name, what in about.items():
        base = getattr(errors, name).__base__.__name__
        assert base == "MinideepError" or f"`{base}`" in what.split(":")[0].split(" of ")[0], name


# ---- coming from elsewhere

PARTS = (minideep, models, middleware, backends, permissions, mcp, evals, blueprint, testing)
HERE = {name: getattr(part, name) for part in PARTS for name in part.__all__}
HERE |= {"Noted": events.Noted, "StreamEvent": events.StreamEvent, "minideep": minideep, "asyncio": asyncio}
HERE |= {"agent": Agent, "turn": Turn, "ctx": ToolContext, "event": events.StreamEvent}
THEIRS = [
    "Report",
    "approvals",
    "backend",
    "call",
    "call_id",
    "message",
    "messages",
    "model",
    "other",
    "sandbox",
    "store",
    "thread",
]
THEIRS += ["is_large", "key", "tools", "user", "value", "without_secrets"]
"""What stands for something of the reader in the tables of the pages."""


def resolved(node):
    """What an expression names. Of what an object has, its class says enough."""
    if isinstance(node, ast.Name):
        return HERE.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolved(node.value)
        if not hasattr(owner, node.attr):
            assert node.attr in inspect.get_annotations(owner), f"{owner} has no {node.attr}"
        return getattr(owner, node.attr, None)
    assert isinstance(node, ast.Call), ast.dump(node)
    called = resolved(node.func)
    return called if inspect.isclass(called) else inspect.signature(called).return_annotation


def check_code(code):
    """Fail unless all that *code* names is there, and all that it calls takes the arguments that it gives."""
    for node in ast.walk(ast.parse(code, mode="eval")):
        if isinstance(node, ast.Name):
            assert node.id in HERE or node.id in THEIRS, f"{code}: {node.id}"
        elif isinstance(node, ast.Attribute):
            resolved(node)
        elif isinstance(node, ast.Call):
            called = resolved(node.func)
            above = [None] * (isinstance(node.func, ast.Attribute) and inspect.isclass(resolved(node.func.value)))
            inspect.signature(called).bind(*above, *node.args, **{word.arg: word.value for word in node.keywords})


def code_in(cell):
    """The pieces of code in a cell that are calls, attributes or classes, and no commands or names of tools."""
    return [code for code in re.findall(r"`([^`]+)`", cell) if re.search(r"\w[.(]|^[A-Z]\w+$", code)]


@pytest.mark.parametrize("page", COMING_FROM, ids=lambda page: page.stem)
def test_what_a_page_for_newcomers_says_is_here_is_here(page):
    cells = [row[-2:] for row in rows(page.read_text())]
    pieces = [code for cell in cells for text in cell for code in code_in(text)]
    assert len(pieces) > 30
    for code in pieces:
        check_code(code)


@pytest.mark.parametrize(
    "code", ["agent.unknown(thread)", "Limits(stepz=1)", "Nothing(1)", "agent.run()", "turn.x", "agent.runs().y"]
)
def test_code_that_is_not_true_is_noticed(code):
    with pytest.raises((AssertionError, TypeError)):
        check_code(code)


def test_the_47_features_of_langgraph_are_counted_and_each_has_its_answer():
    (page,) = [page for page in COMING_FROM if "LANGGRAPH" in page.name]
    table = [row for row in rows(section("47 features", page.read_text())) if row[0]]
    assert [row[0] for row in table] == [str(number) for number in range(1, 48)]
    assert {row[2] for row in table} == {"have", "differently", "not needed"}
    for number, feature, answer, how in table:
        assert answer == "not needed" or "`" in how, (number, feature)


def test_the_programs_of_a_page_for_newcomers_are_of_one_size():
    for page in COMING_FROM:
        (theirs,), (ours,) = blocks("py", page.read_text()), blocks("python", page.read_text())
        ast.parse(theirs)
        theirs, ours = ([line for line in code.splitlines() if line.strip()] for code in (theirs, ours))
        assert len(ours) <= 25, page.name
        assert len(ours) <= len(theirs) + 5, page.name


# ---- links and figures


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "page", [README, *sorted((ROOT / ".github").glob("*.md")), *PAGES], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_link_between_pages_has_its_target(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_readme_leads_to_every_page():
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in re.findall(r"\]\(([^)\s]+)\)", TEXT)}
    assert {page.resolve() for page in PAGES} <= linked


def test_every_figure_has_a_date_and_a_command():
    for page, title in ((README, "In numbers"), (ROOT / "bench/README.md", "Figures")):
        figures = section(title, page.read_text())
        assert re.search(r"20\d\d-\d\d-\d\d", figures)
        commands = re.findall(r"`(?:python|pytest) (?:-m )?(bench[\w./]*)", figures)
        assert commands
        for command in commands:
            module = ROOT / command.replace(".", "/")
            assert (ROOT / command).exists() or (module / "__main__.py").exists() or module.with_suffix(".py").exists()
        for row in rows(figures):
            assert page is README or re.search(r"`(python|pytest) (-m )?bench\b", row[-1]), row


def test_the_project_speaks_of_itself_alone():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    for name in files or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")]:
        text = (ROOT / name).read_text(errors="replace")
        for word in ("/wo" + "rk/", "../sha" + "red", "/ro" + "ot/", "clos" + "ing note"):
            assert word not in text, f"{name}: {word}"
