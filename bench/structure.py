"""Measure the shape of the package: how much code a turn runs through, and what a reader of it meets.

    python bench/structure.py [directory of the package]

Static figures come from the syntax trees; the routes from a profile of real turns on a disk, after one of each kind to
warm up. An older version of the package can be given, to compare the two. Takes two seconds and writes nothing.
"""

import ast
import asyncio
import io
import re
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "minideep").resolve()
FACES = ("checkpoint", "runtime", "models", "middleware", "backends")
RUNTIME = {"runtime", "run.py", "calls.py", "loop.py", "threads.py", "stream.py", "sync.py", "decisions.py"}
"""The parts that run a turn, in a folder of their own or not."""
SPINE = {"core.py", "checkpoint", *RUNTIME}
MODULES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in MODULES}

# ---- static figures


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def walk(kind: type[Any], parts: set[str] | None = None) -> Iterator[Any]:
    """Yield the nodes of a *kind* in some parts of the package, or in all."""
    for path, tree in TREES.items():
        if parts is None or part(path) in parts:
            yield from (node for node in ast.walk(tree) if isinstance(node, kind))


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def lines(path: Path) -> tuple[int, int]:
    """Count the code lines of a module, without blanks, comments and docstrings, and its comments."""
    code, comments = set[int](), 0
    blank = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            comments += not re.match(r"# (noqa|pyright|type):", token.string)
        elif token.type not in blank:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(TREES[path]):
        for one in filter(is_text, node.body if isinstance(getattr(node, "body", None), list) else ()):
            code.difference_update(range(one.lineno, one.end_lineno + 1))
    return len(code), comments


def density(paths: list[Path]) -> float:
    code, comments = map(sum, zip(*map(lines, paths), strict=True))
    return comments / code * 100


def targets(path: Path, node: ast.ImportFrom) -> Iterator[Path]:
    """Yield the modules of the package that an import statement reads."""
    if node.level:
        folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        for place in {folder / alias.name for alias in node.names} | {folder}:
            yield from (module for module in (place.with_suffix(".py"), place / "__init__.py") if module in TREES)


def behind(face: str) -> int:
    """Count the import statements outside a package that reach a module inside it."""
    return sum(
        any(part(target) == face and target.name != "__init__.py" for target in targets(path, node))
        for path, tree in TREES.items()
        if part(path) != face
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    )


def below() -> dict[Path, set[Path]]:
    """Return the modules that each module imports, directly or over others."""
    direct = {
        path: {target for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for target in targets(path, node)}
        for path, tree in TREES.items()
    }
    found: dict[Path, set[Path]] = {}
    while found != (
        longer := {path: one.union(*(found.get(each, ()) for each in one)) for path, one in direct.items()}
    ):
        found = longer
    return found


def members(node: ast.ClassDef) -> tuple[int, int]:
    """Count the methods of a class, and the attributes that its body declares or its methods assign."""
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    declared = {
        one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    assigned = {
        one.attr
        for method in methods
        for one in ast.walk(method)
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
        if isinstance(one.value, ast.Name) and one.value.id == "self"
    }
    return len(methods), len(declared | assigned)


def is_broad(node: ast.ExceptHandler) -> bool:
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(one is None or ast.unparse(one) in ("Exception", "BaseException") for one in caught)


def static() -> None:
    code = sum(lines(path)[0] for path in MODULES)
    print(f"{code:,} code lines in {len(MODULES)} modules")
    spine = [path for path in MODULES if part(path) in SPINE]
    print(f"comments on 100 code lines: {density(MODULES):.1f}; core, runtime and checkpoint {density(spine):.1f}")
    docs = [ast.get_docstring(node) or "" for kind in (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            for node in walk(kind)]  # fmt: skip
    hidden = sum(bool(re.match(r"(What|Where|How|Whether|Who)\b", doc)) for doc in docs)
    print(f"docstrings: {sum(map(bool, docs))}, of which {hidden} begin with What, Where, How, Whether or Who")
    print("imports behind a face:", ", ".join(f"{face} {behind(face)}" for face in FACES))
    largest = sorted(((*members(node), node.name) for node in walk(ast.ClassDef)), key=lambda one: -one[0] - one[1])
    print("largest classes, methods/attributes:", ", ".join(f"{name} {m}/{a}" for m, a, name in largest[:5]))
    conflicts = sum("ThreadConflict" in ast.unparse(node.type or node) for node in walk(ast.ExceptHandler, RUNTIME))
    broad = sum(map(is_broad, walk(ast.ExceptHandler)))
    print(f"`except ThreadConflict` in the runtime: {conflicts}; broad handlers in the package: {broad}")


# ---- routes


class Trace:
    """The calls of the package's functions while it is active, on every thread, in their order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, FrameType]] = []

    def __enter__(self) -> "Trace":
        threading.setprofile_all_threads(self._note) if sys.version_info >= (3, 12) else threading.setprofile(
            self._note
        )
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile_all_threads(None) if sys.version_info >= (3, 12) else threading.setprofile(None)

    def _note(self, frame: FrameType, kind: str, _: object) -> None:
        if kind in ("call", "return") and frame.f_code.co_filename.startswith(f"{PACKAGE}/"):
            self.events.append((kind, frame))

    def functions(self) -> list[CodeType]:
        """Return each function once, in the order of their first calls; comprehensions belong to theirs."""
        codes = (frame.f_code for kind, frame in self.events if kind == "call")
        return [
            code
            for code in dict.fromkeys(codes)
            if not re.match(r"<(listcomp|setcomp|dictcomp|genexpr|module)", code.co_name)
        ]

    def within(self, *names: str) -> "Trace":
        """Return the part from the first call of the first of the functions *names* to the end of that call."""
        frame = next(frame for kind, frame in self.events if frame.f_code.co_qualname in names)
        places = [place for place, (_, one) in enumerate(self.events) if one is frame]
        part = Trace()
        part.events = self.events[places[0] : places[-1] + 1]
        return part


def files(codes: list[CodeType]) -> list[Path]:
    return [Path(code.co_filename) for code in codes]


def sizes(trace: Trace) -> str:
    codes = trace.functions()
    return f"{len(set(files(codes)))} files, {len(codes)} functions"


def steps(trace: Trace) -> str:
    """Describe the way from each function to the one that is called next for the first time."""
    under, route = below(), files(trace.functions())
    stays = returns = climbs = 0
    for place, (before, after) in enumerate(pairwise(route), 1):
        if before == after:
            stays += 1
        elif after in route[:place]:
            returns += 1
        else:
            climbs += before in under[after]
    return f"{stays} stays in a file, {returns} returns to one, {climbs} climbs to a module that imports the one before"


def loaded() -> str:
    modules = [
        Path(one.__file__)
        for one in list(sys.modules.values())
        if str(getattr(one, "__file__", "")).startswith(f"{PACKAGE}/")
    ]
    return f"{sum(lines(path)[0] for path in modules):,} code lines in {len(modules)} modules"


def routes() -> None:
    from minideep import Agent, Approve, DiskCheckpointer, ToolCall, tool
    from minideep.models import ScriptedModel

    @tool
    async def act() -> str:
        """Act."""
        return "done"

    def script(request: Any) -> Any:
        return "done" if request.messages[-1].role == "tool" else ToolCall("act")

    with tempfile.TemporaryDirectory() as folder, DiskCheckpointer(folder) as store:
        agent = Agent(ScriptedModel(script), [act], checkpointer=store)
        print(f"loaded by a bare Agent with a DiskCheckpointer: {loaded()}", end="")
        asyncio.run(agent.run("warm up", "turns"))
        print(f"; after its first turn {loaded()}")
        turn = traced(lambda: asyncio.run(agent.run("go", "turns")))
        from minideep.middleware import HumanInTheLoopMiddleware

        asking = Agent(
            ScriptedModel(script), [act], middleware=[HumanInTheLoopMiddleware({"act": True})], checkpointer=store
        )

        def decide() -> Any:
            return asyncio.run(asking.resume("asks", {waits.interrupts[0].call_id: Approve()}))

        waits = asyncio.run(asking.run("warm up", "asks"))
        decide()
        waits = asyncio.run(asking.run("go", "asks"))
        decision = traced(decide)
    append = turn.within("append", "Journal.append")
    print(f"a turn with one tool call:  {sizes(turn)}")
    print(f"a resume with a decision:   {sizes(decision)}")
    print(f"one append:                 {sizes(append)}; {steps(append)}")


def traced(act: Callable[[], Any]) -> Trace:
    with Trace() as trace:
        turn = act()
    assert turn.status == "ended", turn.error
    assert turn.saved
    return trace


def main() -> int:
    sys.path.insert(0, str(PACKAGE.parent))
    print(PACKAGE.relative_to(Path.cwd()) if PACKAGE.is_relative_to(Path.cwd()) else PACKAGE)
    static()
    routes()
    return 0


if __name__ == "__main__":
    sys.exit(main())
