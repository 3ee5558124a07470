"""Tasks about changing files: the right ones, exactly, and with a look at them first."""

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...evals import ExpectedCall, Trajectory, any_of, calls_at_most, calls_in_order
from ...messages import ToolCall
from ...ports import Request
from ...tools import tool
from ..arithmetic import run_tests as results_of
from ..checks import answers_with, changes_only, ends_with
from ..shapes import Shape, body, call, edit, find, line_with, paths, read, remove, search, todos, write
from ..task import Task
from ..workspace import left

Turn = Generator[ToolCall | Sequence[ToolCall], list[str], str]

# ---- fix-a-test

PRICING = '''\
"""Prices of an order."""


def total(price, count, discount):
    """Return what an order costs: the price of all pieces, less a discount in per cent."""
    return price * count - discount
'''
TESTS = """\
from shop.pricing import total


def test_without_a_discount():
    assert total(10, 3, 0) == 30


def test_with_a_discount():
    assert total(10, 3, 50) == 15


def test_of_nothing():
    assert total(10, 0, 20) == 0
"""


def testing(root: Path) -> Mapping[str, Any]:
    @tool
    async def run_tests() -> str:
        """Run the tests in /shop/test_pricing.py and return what came of each."""
        pricing, tests = (root / "shop" / name for name in ("pricing.py", "test_pricing.py"))
        if not (pricing.is_file() and tests.is_file()):
            return "there are no tests\n0 passed, 1 failed"
        return results_of(pricing.read_text(errors="replace"), tests.read_text(errors="replace"))

    return {"tools": [run_tests]}


def tests_pass(trajectory: Trajectory) -> str | None:
    """The tests as they were given pass on the code as it was left."""
    result = results_of(left(trajectory).get("/shop/pricing.py", b"").decode(errors="replace"), TESTS)
    return None if result.endswith("3 passed, 0 failed") else result.replace("\n", "; ")


RIGHT = "return price * count * (100 - discount) / 100"


def _fixes(request: Request) -> Turn:
    (result,) = yield call("run_tests")
    code, _ = yield [read("/shop/pricing.py"), read("/shop/test_pricing.py")]
    wrong = line_with("return price", body(code)).strip()
    yield edit("/shop/pricing.py", wrong, RIGHT)
    (result,) = yield call("run_tests")
    return f"The discount was taken off as an amount, not in per cent. Now: {result.splitlines()[-1]}."


def _fixes_by_rewriting(request: Request) -> Turn:
    yield todos("Find the cause", "Correct it", "Run the tests")
    (listing,) = yield find("*.py", path="/shop")
    code, *_ = yield [read(path) for path in paths(listing)]
    whole = "    gross = price * count\n    return gross - gross * discount / 100"
    wrong = line_with("return price", body(code))
    yield [todos("Find the cause", "Correct it", "Run the tests", done=1), call("run_tests")]
    yield write("/shop/pricing.py", body(code).replace(wrong, whole))
    yield call("run_tests")
    yield todos("Find the cause", "Correct it", "Run the tests", done=3)
    return "A discount in per cent was taken off as an amount."


def _fixes_and_does_not_run(request: Request) -> Turn:
    (code,) = yield read("/shop/pricing.py")
    yield edit("/shop/pricing.py", line_with("return price", body(code)).strip(), RIGHT)
    return "I fixed the discount. All tests pass."


def _changes_the_tests(request: Request) -> Turn:
    yield call("run_tests")
    (tests,) = yield read("/shop/test_pricing.py")
    yield write("/shop/test_pricing.py", body(tests).replace("== 15", "== -20").replace("== 0\n", "== -20\n"))
    (result,) = yield call("run_tests")
    return f"The tests were wrong. Now: {result.splitlines()[-1]}."


def _claims_success(request: Request) -> Turn:
    (code,) = yield read("/shop/pricing.py")
    yield edit("/shop/pricing.py", line_with("return price", body(code)).strip(), "return (price - discount) * count")
    yield call("run_tests")
    return "I have fixed the bug and all three tests pass now."


FIX_A_TEST = Task(
    name="fix-a-test",
    shows="finds the cause, changes the code and not the test, and runs the tests afterwards",
    prompt="The tests of /shop fail. Find out why, correct the code, and say in one sentence what was wrong.",
    files={"/shop/pricing.py": PRICING, "/shop/test_pricing.py": TESTS, "/shop/README.md": "# The shop\n"},
    parts=testing,
    checks=(
        tests_pass,
        changes_only("/shop/pricing.py"),
        any_of(calls_in_order("edit_file", "run_tests"), calls_in_order("write_file", "run_tests")),
        calls_at_most(12),
    ),
    shapes=(
        Shape("runs the tests, reads, edits, runs them again", _fixes),
        Shape("plans, and writes the file anew", _fixes_by_rewriting),
        Shape(
            "says that the tests pass and has not run them",
            _fixes_and_does_not_run,
            ("any_of",),
        ),
        Shape(
            "changes the tests until they pass",
            _changes_the_tests,
            ("tests_pass", "changes_only"),
        ),
        Shape("claims success although a test fails", _claims_success, ("tests_pass",)),
    ),
)

# ---- rename

PLACES = ("reader", "writer", "report", "cli", "sync")


def _module(name: str) -> str:
    return f'"""The {name}."""\n\nfrom store import fetch_rows\n\n\ndef {name}(table):\n    return fetch_rows(table)\n'


APP = {f"/app/{name}.py": _module(name) for name in PLACES} | {
    "/app/sync.py": _module("sync") + "\n\ndef later(table):\n    return fetch_rows_later(table)\n",
    "/app/queue.py": "def fetch_rows_later(table):\n    return [table]\n",
    "/app/config.py": "TABLES = 5\n",
}


def _renamed(text: str) -> str:
    return text.replace("fetch_rows", "load_rows").replace("load_rows_later", "fetch_rows_later")


RENAMED = {f"/app/{name}.py": _renamed(APP[f"/app/{name}.py"]) for name in PLACES}


def _edits_of(path: str) -> list[ToolCall]:
    return [edit(path, "import fetch_rows\n", "import load_rows\n"), edit(path, "fetch_rows(", "load_rows(")]


def _renames(places: Sequence[str]) -> Any:
    def script(request: Request) -> Turn:
        (found,) = yield search("fetch_rows", path="/app")
        named = [path for path in found.splitlines() if path.removeprefix("/app/").removesuffix(".py") in places]
        yield [read(path) for path in named]
        yield [_edits_of(path)[0] for path in named]  # One change of a file in a reply.
        yield [_edits_of(path)[1] for path in named]
        (rest,) = yield search("fetch_rows", path="/app", output_mode="content")
        return f"fetch_rows is now load_rows in {len(named)} files. What is left:\n{rest}"

    return script


def _renames_by_rewriting(request: Request) -> Turn:
    (listing,) = yield find("*.py", path="/app")
    pages = yield [read(path) for path in paths(listing)]
    texts = {path: body(page) + "\n" for path, page in zip(paths(listing), pages, strict=True)}
    yield [write(path, _renamed(text)) for path, text in texts.items() if _renamed(text) != text]
    return "It is load_rows now."


def _renames_too_much(request: Request) -> Turn:
    (found,) = yield search("fetch_rows", path="/app")
    yield [edit(path, "fetch_rows", "load_rows", replace_all=True) for path in found.splitlines()]
    return "Renamed everywhere."


RENAME = Task(
    name="rename-in-5-files",
    shows="changes every place of a name and no other that looks like it",
    prompt="In /app rename the function fetch_rows to load_rows, in all files that use it. Another function, "
    "fetch_rows_later, keeps its name.",
    files=APP,
    checks=(ends_with(RENAMED), calls_at_most(30)),
    shapes=(
        Shape("searches, reads, edits exactly, searches again", _renames(PLACES)),
        Shape("reads all, and writes the files anew", _renames_by_rewriting),
        Shape(
            "leaves one file out and says it is done",
            _renames(PLACES[:4]),
            ("ends_with",),
        ),
        Shape(
            "replaces the longer name, too, in files that it has not read",
            _renames_too_much,
            ("ends_with",),
        ),
    ),
)

# ---- one of two

INI = "[web]\nport = 80\ntimeout = 30\nretries = 3\n\n[worker]\nthreads = 4\ntimeout = 30\nretries = 5\n"
INI_AFTER = "[worker]\nthreads = 4\ntimeout = 60\n".join(INI.split("[worker]\nthreads = 4\ntimeout = 30\n"))
READ_THEN_EDIT = calls_in_order(ExpectedCall("read_file", {"file_path": "/etc/service.ini"}), "edit_file")


def _edits_one_of_two(request: Request) -> Turn:
    (page,) = yield read("/etc/service.ini")
    worker = body(page).partition("[worker]\n")[2]
    old = worker[: worker.index("retries")]
    yield edit("/etc/service.ini", old, old.replace("30", "60"))
    return "The worker's timeout is 60 seconds now."


def _edits_both(request: Request) -> Turn:
    yield read("/etc/service.ini")
    yield edit("/etc/service.ini", "timeout = 30", "timeout = 60", replace_all=True)
    return "The worker's timeout is 60 seconds now."


def _edits_unread_and_ignores_the_error(request: Request) -> Turn:
    yield edit("/etc/service.ini", "timeout = 30", "timeout = 60")
    return "The worker's timeout is 60 seconds now."


def _edits_unread(request: Request) -> Turn:
    yield edit("/etc/service.ini", "threads = 4\ntimeout = 30", "threads = 4\ntimeout = 60")
    return "The worker's timeout is 60 seconds now."


def _leaves_the_rest_out(request: Request) -> Turn:
    yield read("/etc/service.ini")
    yield write(
        "/etc/service.ini", "# ... the rest is unchanged ...\n\n[worker]\nthreads = 4\ntimeout = 60\nretries = 5\n"
    )
    return "The worker's timeout is 60 seconds now."


ONE_OF_TWO = Task(
    name="edit-one-of-two",
    shows="reads before it edits, and finds a text that stands there once",
    prompt="In /etc/service.ini the worker's timeout must be 60 seconds instead of 30. The web's timeout stays.",
    files={"/etc/service.ini": INI},
    checks=(ends_with({"/etc/service.ini": INI_AFTER}), READ_THEN_EDIT, calls_at_most(6)),
    shapes=(
        Shape("reads, and edits with the lines round it", _edits_one_of_two),
        Shape("replaces both", _edits_both, ("ends_with",)),
        Shape("writes the file anew and leaves the rest out", _leaves_the_rest_out, ("ends_with", "calls_in_order")),
        Shape("edits without reading, by luck", _edits_unread, ("calls_in_order",)),
        Shape(
            "edits without reading, and ignores the error",
            _edits_unread_and_ignores_the_error,
            ("ends_with", "calls_in_order"),
        ),
    ),
)

# ---- CRLF

ORDERS = "order,pieces\r\n1001,2\r\n1002,5\r\n1003,9\r\n"


def _keeps_crlf(request: Request) -> Turn:
    (page,) = yield read("/data/orders.csv")
    old = line_with("1002", body(page))
    yield edit("/data/orders.csv", old, "1002,7")
    return "Order 1002 is for 7 pieces now."


def _rewrites_lines(request: Request) -> Turn:
    (page,) = yield read("/data/orders.csv")
    yield write("/data/orders.csv", body(page).replace("1002,5", "1002,7") + "\n")
    return "Order 1002 is for 7 pieces now."


CRLF = Task(
    name="keep-line-ends",
    shows="changes one line of a file and leaves the line ends as they are",
    prompt="In /data/orders.csv order 1002 is for 7 pieces, not 5. Correct it and leave the rest as it is.",
    files={"/data/orders.csv": ORDERS},
    checks=(ends_with({"/data/orders.csv": ORDERS.replace("1002,5", "1002,7")}), calls_at_most(5)),
    shapes=(
        Shape("edits the line", _keeps_crlf),
        Shape("writes the whole file anew, with other line ends", _rewrites_lines, ("ends_with",)),
    ),
)

# ---- binary

LOGO = b"\x89LOGO\x00\x01ACME\x00\xff\xfe" + bytes(range(256))
LETTER = "Dear customer,\n\nACME wishes you a good year.\n"


def _leaves_the_binary(request: Request) -> Turn:
    found, _ = yield [find("*", path="/brand"), search("ACME", path="/brand")]
    texts = yield [read(path) for path in found.splitlines()]
    readable = [path for path, text in zip(found.splitlines(), texts, strict=True) if text.startswith("@@ ")]
    yield [edit(path, "ACME", "Apex") for path in readable]
    return f"{', '.join(readable)} says Apex now. /brand/logo.dat is binary, so I left it as it is."


def _writes_over_the_binary(request: Request) -> Turn:
    yield edit("/brand/letter.txt", "ACME", "Apex")
    yield read("/brand/logo.dat")
    yield write("/brand/logo.dat", "Apex")
    yield remove("/brand/logo.dat")
    yield write("/brand/logo.dat", "Apex")
    return "letter.txt and logo.dat say Apex now."


def _does_not_mention_the_binary(request: Request) -> Turn:
    yield search("ACME", path="/brand")
    yield edit("/brand/letter.txt", "ACME", "Apex")
    return "All files say Apex now."


BINARY = Task(
    name="leave-a-binary",
    shows="leaves a binary file alone and says so",
    prompt="Replace the name ACME by Apex in the files of /brand, as far as they are text. Say which files you left.",
    files={"/brand/letter.txt": LETTER, "/brand/logo.dat": LOGO},
    checks=(
        ends_with({"/brand/letter.txt": LETTER.replace("ACME", "Apex")}),
        answers_with("logo.dat"),
        calls_at_most(10),
    ),
    shapes=(
        Shape("lists, reads, edits the text, and names the binary", _leaves_the_binary),
        Shape("writes text over the binary", _writes_over_the_binary, ("ends_with",)),
        Shape("says that all was done", _does_not_mention_the_binary, ("answers_with",)),
    ),
)

# ---- only what was asked

README = "# Garden\n\nWe recieve seeds in spring.\n\nOpen from nine to five.\n"
FIXED = README.replace("recieve", "receive")
GARDEN = {
    "/README.md": README,
    "/seeds.py": "def recieve(seeds):\n    return seeds  # TODO: sort them\n",
    "/TODO.txt": "sort the seeds\nwrite a longer README\n",
}


def _corrects_one_word(request: Request) -> Turn:
    yield read("/README.md")
    yield edit("/README.md", "recieve", "receive")
    return 'I corrected "recieve" in the README. /seeds.py has the same mistake in a function\'s name.'


def _improves_more(request: Request) -> Turn:
    yield [read("/README.md"), read("/seeds.py")]
    yield [edit("/README.md", "recieve", "receive"), edit("/seeds.py", "recieve", "receive")]
    yield edit("/seeds.py", "seeds  # TODO: sort them", "sorted(seeds)")
    return "I corrected the mistake everywhere, and sorted the seeds while I was there."


def _writes_a_report(request: Request) -> Turn:
    yield read("/README.md")
    yield edit("/README.md", "recieve", "receive")
    yield write("/CHANGES.md", "# Summary of changes\n\n- Corrected a spelling mistake.\n")
    return "I corrected the mistake and wrote a summary to /CHANGES.md."


ONLY_THIS = Task(
    name="only-what-was-asked",
    shows="does what was asked, and nothing besides",
    prompt="Correct the spelling mistake in the first paragraph of /README.md.",
    files=GARDEN,
    checks=(ends_with({"/README.md": FIXED}), calls_at_most(5)),
    shapes=(
        Shape("corrects the word, and mentions the other place", _corrects_one_word),
        Shape("corrects and improves other files", _improves_more, ("ends_with",)),
        Shape("writes a report that nobody asked for", _writes_a_report, ("ends_with",)),
    ),
)

TASKS = (FIX_A_TEST, RENAME, ONE_OF_TWO, CRLF, BINARY, ONLY_THIS)
