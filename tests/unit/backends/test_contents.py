"""Searching the contents of files: by text and by regular expression, within a time that no pattern can break."""

import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest
from harness.files import context, put
from hypothesis import given, settings, strategies as st

from minideep.backends import FilesystemBackend, InMemory, StateBackend, find, grep
from minideep.backends.regexes import matching
from minideep.errors import ToolError
from minideep.events import FileWritten


@pytest.fixture
def ctx():
    return context()


@pytest.fixture(params=["state", "disk"])
def backend(request, tmp_path):
    return StateBackend() if request.param == "state" else FilesystemBackend(tmp_path)


def found(ctx, backend, pattern, **how):
    return [(hit.path, hit.line) for hit in grep(ctx, backend, pattern, "/", **how).hits]


@pytest.mark.parametrize("text", ["a.b", "a*", "[x]", "(", ")", "^", "$", "\\w", "a|b", "{2}", "?", "\\"])
def test_every_metacharacter_is_a_letter_of_a_literal_search(ctx, backend, text):
    put(backend, ctx, "/has", f"before{text}after\n".encode())
    put(backend, ctx, "/lacks", b"axb aa xx bb w ab")
    assert found(ctx, backend, text) == [("/has", 1)]
    assert found(ctx, backend, text, ignore_case=True) == [("/has", 1)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("Needle", "nEEDLE"), ("\u03a3\u039f\u03a3", "\u03c3\u03bf\u03c3"), ("stra\u00dfe", "STRASSE"), ("NÉE", "née")],
)
def test_case_is_ignored_in_every_script(ctx, backend, text, wanted):
    put(backend, ctx, "/f", f"first\r\nx {text} x\r\n".encode())
    assert (found(ctx, backend, wanted), found(ctx, backend, wanted, ignore_case=True)) == ([], [("/f", 2)])


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("^b", [2]),
        ("a$", [1]),
        (r"\Aa\Z", [1]),
        ("^$", [3]),
        ("[ab]", [1, 2]),
        ("(?i)B", [2]),
        (r"\bc\b", []),
        ("é", [4]),
        (r"\s", []),
    ],
)
def test_a_regular_expression_sees_one_line_at_a_time_without_its_end(ctx, backend, pattern, lines):
    put(backend, ctx, "/f", "a\r\nb\r\n\r\né\r\n".encode())
    put(backend, ctx, "/empty", b"")
    put(backend, ctx, "/binary", b"a\0b")
    assert found(ctx, backend, pattern, regex=True) == [("/f", line) for line in lines]


WORDS = st.text("abé\n", max_size=40)


@given(st.lists(WORDS, max_size=4), st.sampled_from("abé"), st.integers(0, 3), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_a_letter_is_found_alike_as_text_and_as_a_regular_expression(texts, letter, near, most):
    ctx, backend = context(), StateBackend()
    for number, text in enumerate(texts):
        put(backend, ctx, f"/{number}", text.encode())
    literal = grep(ctx, backend, letter, "/", context=near, most=most)
    assert grep(ctx, backend, letter, "/", context=near, most=most, regex=True) == literal
    lines = {f"/{number}": text.split("\n") for number, text in enumerate(texts)}
    assert all(lines[hit.path][hit.line - 1] == hit.text for hit in literal.hits)
    matches = sum(letter in line for text in lines.values() for line in text)
    assert sum(not hit.near for hit in literal.hits) == min(most, matches)
    assert literal.full == (matches > most)


def test_a_pattern_that_takes_for_ever_costs_its_time_and_not_what_was_found_before(ctx, tmp_path):
    backend = FilesystemBackend(tmp_path)
    put(backend, ctx, "/a", b"aaab\n")
    put(backend, ctx, "/b", b"a" * 64 + b"!\n")
    before = children()
    result = grep(ctx, backend, "^(a+)+b?$", "/", regex=True, seconds=4.0)
    assert [(hit.path, hit.line) for hit in result.hits] == [("/a", 1)]
    assert (result.late, children()) == (True, before)


class Endless(StateBackend):
    """Files of which the second takes longer to be found than a search may take."""

    def walk(self, ctx, path):
        for info in super().walk(ctx, path):
            yield info
            sleep(1.5)


def test_what_was_found_before_the_time_was_up_is_kept(ctx):
    for name in ("/a", "/b"):
        put(Endless(), ctx, name, b"needle")
    found, hits = find(ctx, Endless(), "*", "/", seconds=1.0), grep(ctx, Endless(), "needle", "/", seconds=1.0)
    assert (found.paths, found.late) == (["/a"], True)
    assert ([hit.path for hit in hits.hits], hits.late) == (["/a"], True)


def children():
    """The processes that this one has started and not reaped."""
    tasks = Path("/proc/self/task").glob("*/children")
    return sorted(number for task in tasks for number in task.read_text().split())


def test_a_search_that_stops_early_leaves_no_process(ctx, backend):
    for number in range(500):
        put(backend, ctx, f"/{number:03}", b"x" * 5000)
    before = children()
    assert grep(ctx, backend, "x", "/", regex=True, most=2).full
    texts = ((str(number), "x" * 1000) for number in range(10_000))
    matches = matching(texts, "x", False, 1, monotonic() + 60)
    assert next(matches).path == "0"
    matches.close()
    assert children() == before


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing ), unterminated subpattern at position 0"),
        ("*a", "nothing to repeat at position 0"),
        ("[z-a]", "bad character range z-a at position 1"),
        ("a{99999999999}", "the repetition number is too large"),
        ("(" * 900, "maximum recursion depth exceeded"),
        ("a" * 1001, "it has 1,001 characters, more than 1,000"),
    ],
    ids=["open", "repeat", "range", "many", "deep", "long"],
)
def test_an_invalid_regular_expression_is_an_error_that_says_where(ctx, backend, pattern, why):
    put(backend, ctx, "/f", b"text")
    with pytest.raises(ToolError) as caught:
        grep(ctx, backend, pattern, "/", regex=True)
    assert "is no valid regular expression: " in str(caught.value)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process so")
def test_a_pattern_that_needs_too_much_memory_skips_its_file(ctx, backend):
    put(backend, ctx, "/a", b"ab" * 4_900_000)
    put(backend, ctx, "/b", b"abc")
    result = grep(ctx, backend, "(?:(a)|(b))*c", "/", regex=True, seconds=60)
    assert ([hit.path for hit in result.hits], result.skipped) == (["/b"], 1)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("sys.executable = '/nonexistent'", "No such file or directory"),
        ("sys.executable = ''", "this program has no Python interpreter"),
        ("sys.frozen = True", "this program has no Python interpreter"),
        ("sys.executable = '/bin/false'", "the search with a regular expression broke off; simplify it"),
    ],
)
def test_where_no_process_can_be_started_only_regular_expressions_are_refused(line, why):
    code = f"""
import sys
from minideep.backends import StateBackend, grep
from minideep.errors import ToolError
from minideep.testing import tool_context

{line}
ctx = tool_context()
print(grep(ctx, StateBackend(), "text", "/").hits)
try:
    grep(ctx, StateBackend(), "text", "/", regex=True)
except ToolError as exc:
    print(exc)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    found, said = run.stdout.splitlines()
    assert (found, why in said, said.endswith("search for literal text")) == ("[]", True, True), run.stderr


def test_files_in_memory_are_searched_as_they_were(ctx):
    state = StateBackend()
    put(state, ctx, "/a", b"needle")
    ctx.record(FileWritten("/gone", None, 6, "", 0.0))
    files = InMemory(ctx, state, "/")
    put(state, ctx, "/a", b"")
    put(state, ctx, "/b", b"needle")
    result = grep(ctx, files, "needle", "/")
    assert ([hit.path for hit in result.hits], result.skipped) == (["/a"], 1)
