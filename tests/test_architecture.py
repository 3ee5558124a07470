"""The ideas of the layout, checked: imports point down, packages have faces, one function changes a state."""

import ast
import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from harness.lines import code_lines

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "minideep"
LAYERS = [
    [
        "errors",
        "kinds",
        "access",
        "command_lines",
        "mistakes",
        "documented",
        "field_docs",
        "checks",
        "plain_json",
        "messages",
        "media",
        "loops",
        "workers",
        "backoff",
        "folders",
        "coercion",
        "strict_schema",
        "datatypes",
        "structured",
    ],
    ["columns", "costs", "state", "export", "forms", "decoding", "events", "effects"],
    ["core", "ledger", "hints", "docstrings", "parameters", "arguments", "results", "tools", "content", "history"],
    ["turn", "context"],
    ["exchange", "ports", "spec"],
    ["checkpoint", "backends"],
    ["models", "permissions"],
    ["runtime"],
    ["middleware", "mcp"],
    ["live", "stored", "stored_async", "replay", "agent"],
    ["deep_agent"],
    ["evals"],
    ["behaviours"],
    ["blueprint"],
    ["testing"],
    ["cli", "__init__", "__main__"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FACES = [
    "checkpoint",
    "runtime",
    "models",
    "backends",
    "middleware",
    "mcp",
    "replay",
    "blueprint",
    "evals",
    "behaviours",
    "testing",
    "cli",
]
"""Packages of which the rest of the package knows `__init__` only."""
FAN_OUT = 21
"""Modules of the package that one module may import; most import half as many."""
MODULES = sorted(PACKAGE.rglob("*.py"))
THIRD_PARTY = {
    "anthropic",
    "openai",
    "httpx2",
    "msgspec",
    "zstandard",
    "diskcache",
    "rich",
    "yaml",
    "jsonschema",
    "mcp",
    "cryptography",
}
TYPE_CHECKERS_OWN = {"typing_extensions"}
"""Every type checker brings it along; it is imported under `TYPE_CHECKING` only."""
MUTATORS = "append clear extend insert pop popitem remove reverse setdefault sort update"


@cache
def parsed(path):
    return ast.parse(path.read_text())


def parts(path):
    return path.relative_to(PACKAGE).with_suffix("").parts


@cache
def imports(path):
    """Return each import of the package's own modules, in functions and for typing too, as a dotted path from its top."""
    home, found = path.relative_to(PACKAGE).parts[:-1], []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            target = [*home[: len(home) - node.level + 1], *(node.module or "").split(".")]
            base = tuple(part for part in target if part)
            for alias in node.names:
                module = PACKAGE.joinpath(*base, alias.name)
                is_module = module.with_suffix(".py").exists() or module.is_dir()
                found.append((*base, alias.name) if is_module else base or ("__init__",))
    return found


def test_imports_point_down_or_stay_in_the_folder():
    for path in MODULES:
        for target in imports(path):
            if target != ("__init__",) or path.name != "__init__.py":  # Which has what the faces of packages share.
                assert RANK[target[0]] <= RANK[parts(path)[0]], f"{path} imports {'.'.join(target)}"


def test_nobody_outside_a_package_imports_its_insides():
    for path in MODULES:
        for target in imports(path):
            if len(target) > 1 and target[0] in FACES:
                assert target[0] == parts(path)[0], f"{path} imports {'.'.join(target)}; the face is {target[0]}"


def test_a_module_knows_few_others():
    known = {str(path): len(set(imports(path))) for path in MODULES}
    assert {path: count for path, count in known.items() if count > FAN_OUT} == {}


def test_no_module_imports_itself_over_others():
    edges = {parts(path): set(imports(path)) for path in MODULES if parts(path) != ("__init__",)}
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join(".".join(step) for step in [*path, module])
        if module in done:
            return
        path.append(module)
        for target in edges.get(module, edges.get((*module, "__init__"), ())):
            visit(target)
        done.add(path.pop())

    for module in edges:
        visit(module)


def test_nobody_outside_of_checkpoint_reaches_behind_its_face():
    for path in MODULES:
        if parts(path)[0] != "checkpoint":
            behind = {target for target in imports(path) if target[0] == "checkpoint" and len(target) > 1}
            assert not behind, f"{path.name} imports {behind}"


@pytest.mark.parametrize("name", ["errors", "messages", "state", "events", "core", "costs", "ledger", "turn"])
def test_the_core_knows_no_loop_no_clock_and_no_library_but_msgspec(name):
    tree = parsed(PACKAGE / f"{name}.py")
    outside = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
    }
    allowed = {"msgspec", "typing", "collections", "json", "operator", "types"} | (
        {"time"} if name == "ledger" else set()
    )
    assert outside <= allowed
    assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(tree))


def changes(tree):
    """What a module assigns to, deletes, or calls a mutating method of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Delete):
            yield from map(ast.unparse, node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS.split():
            yield ast.unparse(node.func.value)


def test_only_the_core_changes_a_state():
    fields = re.findall(r"^    (\w+): ", (PACKAGE / "state.py").read_text().split("class State(")[1], re.MULTILINE)
    of_a_state = re.compile(rf"(?:\b\w*state|\broot|\bchild|\bstates\[.*\])\.(?:{'|'.join(set(fields))})\b")
    for path in MODULES:
        if parts(path) not in (("core",), ("state",)):
            for changed in changes(parsed(path)):
                assert not of_a_state.search(changed), f"{path.relative_to(PACKAGE)}: {changed}"


def test_what_a_bare_agent_with_a_disk_loads_stays_small(tmp_path):
    """Minimal is measured: code lines, without blanks, comments and docstrings, of all that one turn loads."""
    code = f"""
import asyncio, sys
from minideep import Agent, DiskCheckpointer
from minideep.models import ScriptedModel
agent = Agent(ScriptedModel(["hello"]), checkpointer=DiskCheckpointer({str(tmp_path / "state")!r}))
assert asyncio.run(agent.run("hi")).saved
for name, module in sys.modules.items():
    if name.partition(".")[0] == "minideep":
        print(module.__file__)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [Path(line) for line in run.stdout.split("\n") if line]
    # On a busy machine a turn takes so long that it has an address.
    address = {"exchange.py", "addresses.py", "frames.py"}
    assert sum(code_lines(path) for path in loaded if path.name not in address) < 6_560


OPT_IN = {
    "": "command_lines mcp mistakes permissions",
    "backends.": "bubblewrap commands composite docker filesystem ignoring sandbox scripts shell store supervisor",
    "checkpoint.": "encryption",
    "middleware.": (
        "asking background call_limits context.clearing continuing forking grading leaving_out permissions result_cache rubric "
        "shell tool_retry tool_selector"
    ),
    "models.": "provider_tools redact_pii retry",
    "runtime.": "decisions jobs options questions updating",
}


def test_a_default_agent_loads_nothing_that_nobody_asked_for():
    opt_in = {f"minideep.{package}{name}" for package, names in OPT_IN.items() for name in names.split()}
    assert all(importlib.util.find_spec(name) for name in opt_in)
    code = """
import asyncio, sys
from minideep import MemoryCheckpointer, ToolCall, create_deep_agent
from minideep.models import ScriptedModel
model = ScriptedModel([ToolCall("write_file", {"file_path": "a", "content": "b"}), "done"])
turn = asyncio.run(create_deep_agent(model, checkpointer=MemoryCheckpointer()).run("hi"))
assert turn.status == "ended"
print(*sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert opt_in & {*run.stdout.split()} == set()


def test_rules_that_comments_name_are_written_down():
    for path in MODULES:
        text = path.read_text()
        for number in re.findall(r"#.*\bRule (\d+)\b", text):
            assert f"Rule {number}:" in text, f"{path.name} names rule {number}"


def test_a_module_says_what_it_is_for_and_its_functions_fit_on_a_screen():
    for path in MODULES:
        first = (ast.get_docstring(parsed(path)) or "").split("\n")[0].rstrip()
        assert first.endswith((".", ":")), f"{path} has no first sentence"
        assert len(path.read_text().splitlines()) <= 400, path
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 45, f"{path}: {node.name} does not fit on a screen"


def test_a_broad_except_stands_at_the_four_doors_only():
    found = {}
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ExceptHandler) and (
                node.type is None or re.search(r"\b(Base)?Exception\b", ast.unparse(node.type))
            ):
                found[".".join(parts(path))] = found.get(".".join(parts(path)), 0) + 1
    assert found == {
        "runtime.calls": 1,  # the tool door
        "tools": 1,  # and before it, where arguments are made to what the user's classes take
        "arguments": 1,  # the same, in another reading of them
        "runtime.hooks": 4,  # the hook door: of one hook, of all that change a request or a result, and of wraps
        "runtime.model_calls": 3,  # the model door, without wraps and below them
        "models.adapter": 1,  # the model door, of every adapter
        "models.registry": 1,  # the import of another package's provider
        "checkpoint.sync_store": 1,  # the release of a lock, whose work is done
        "checkpoint.adapter": 1,  # releases a thread whose head cannot be read, and raises again
        "checkpoint.encryption": 1,  # the same, where the head does not open
        "checkpoint.store_loop": 1,  # stops what nobody waits for any more, and raises again
        "checkpoint.maintenance": 1,  # and behind the answer's back
        "checkpoint.redaction": 1,  # the hook door
        "checkpoint.disk_rows": 1,  # closes what could not be opened whole, and raises again
        "blueprint.pool": 1,  # the hook door: the validator of a role
        "middleware.context.spill": 1,  # the door to a backend, where no tool's stands before it
        "middleware.context.compaction": 1,  # the model door: the summarizer
        "mcp.session": 2,  # the door to a server: of its connection, and of one call
        "evals.running": 1,  # the hook door: an agent that is evaluated, and what it is held against
        "runtime.turns": 1,  # takes back what a refused input has recorded
        "loops": 2,  # hand an exception from a tool's thread to the loop, and back
    }


def test_nothing_but_the_declared_libraries_is_imported():
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                known = THIRD_PARTY | TYPE_CHECKERS_OWN
                assert top in known or top in sys.stdlib_module_names, f"{path.name} imports {name}"
                assert top not in {"pickle", "marshal", "shelve"}


def test_using_the_public_names_and_building_an_agent_loads_no_sdk():
    code = """
import sys
from minideep import *
from minideep import create_deep_agent
from minideep.models import ScriptedModel
from minideep.mcp import MCPClient
MCPClient("uvx some-server")
create_deep_agent(model=ScriptedModel([]))
create_deep_agent(model="anthropic:x"), create_deep_agent(model="openai:x"), create_deep_agent(model="openai-chat:x")
heavy = {"anthropic", "openai", "httpx", "httpx2", "mcp", "pydantic", "rich", "yaml", "langchain", "langgraph"}
print(sorted(heavy & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_importing_the_package_alone_loads_nothing_of_it():
    code = "import sys, minideep; print([name for name in sys.modules if name.startswith('minideep.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize(
    "command", [["ruff", "check"], ["ruff", "format", "--check"], ["pyright", "--pythonpath", sys.executable]]
)
def test_the_linter_and_the_type_checker_are_content(command):
    run = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
