"""The file tools, called as the loop calls them, on both backends."""

import asyncio
import itertools
import json
import re
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256

import pytest
from harness.files import Desk, RunAlone
from harness.media import JPEG, PDF, PNG
from hypothesis import given, settings, strategies as st

from minideep.backends import FilesystemBackend, Hit, Hits, StateBackend
from minideep.backends.search import Found
from minideep.core import apply
from minideep.errors import ToolError
from minideep.events import FileDeleted, FileEdited, FileWritten, ModelReplied, Noted, UserSaid
from minideep.messages import AssistantMessage, Document, Image, Text, ToolCall, UserMessage
from minideep.middleware import FilesystemMiddleware, edited
from minideep.middleware.filesystem.pages import explain_no_hits, render_found, render_hits
from minideep.state import Edit, State


@pytest.fixture(params=["state", "disk"])
def desk(request, tmp_path):
    return Desk(StateBackend() if request.param == "state" else FilesystemBackend(tmp_path))


# ---- what the model is told about the tools


def test_the_tools_and_the_prompt_cost_little_room():
    files = FilesystemMiddleware(StateBackend())
    told = [{"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in files.tools]
    assert len(json.dumps(told, separators=(",", ":"))) <= 4400
    assert len(files.prompt) <= 700


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("ls", ["path"], ["1,000", "`glob`", "Error", "folder above"]),
        ("read_file", ["file_path", "offset", "limit"], ["lines to skip", "80,000", "`grep`", "`glob`", "next offset"]),
        ("write_file", ["file_path", "content"], ["replace all", "`edit_file`", "read it again"]),
        (
            "edit_file",
            ["file_path", "old_string", "new_string", "replace_all", "edits"],
            ["exactly once", "all made or none", "`replace_all`", "`write_file`"],
        ),
        ("delete", ["file_path"], ["for good", "`write_file`", "`ls`"]),
        ("glob", ["pattern", "path"], ["any depth", "`grep`", "1,000", "10 s"]),
        (
            "grep",
            ["pattern", "path", "glob", "regex", "ignore_case", "output_mode", "context", "max_count"],
            ["literal", "`regex`", "`glob`", "10 MB", "15 s"],
        ),
    ],
)
def test_a_description_says_when_to_use_the_tool_when_not_and_what_to_do_next(name, arguments, says):
    tool = {tool.name: tool for tool in FilesystemMiddleware(StateBackend()).tools}[name]
    assert list(tool.schema["properties"]) == arguments
    assert [word for word in says if word not in tool.description] == []


def test_the_prompt_asks_for_several_reads_in_one_reply_and_for_large_things_in_files():
    assert re.search(
        r"independent reads.*one reply.*large material.*in files.*by path", FilesystemMiddleware(StateBackend()).prompt
    )


def test_without_virtual_mode_the_prompt_names_the_folder(tmp_path):
    desk = Desk(FilesystemBackend(tmp_path, virtual_mode=False))
    desk("write_file", file_path="a.txt", content="x")
    assert desk("ls") == f"{tmp_path}/a.txt"
    prompt = FilesystemMiddleware(desk.backend).prompt
    assert (
        f"the working folder is `{tmp_path}`. Files are real, and changes last; nothing confines you to that folder."
        in prompt
    )


def test_the_prompt_says_what_the_files_are_and_never_where_a_confined_folder_is(tmp_path):
    class Remote(StateBackend):
        about = "Files are on the moon."

    class Silent(StateBackend):
        about = ""

    prompts = [FilesystemMiddleware(one).prompt for one in (FilesystemBackend(tmp_path), Remote(), Silent())]
    assert (
        "the working folder is `/`. Files are real, and changes last; `/` is one folder of this machine" in prompts[0]
    )
    assert "nothing outside it can be reached" in prompts[0]
    assert str(tmp_path) not in prompts[0]
    assert "is `/`. Files are on the moon. Find with" in prompts[1]
    assert "is `/`. Find with" in prompts[2]


def test_the_error_for_wrong_arguments_names_the_right_ones(desk):
    assert desk("read_file", file_path="/f", offset=-1) == (
        "error: read_file: Expected `int` >= 0 - at `$.offset`; it takes file_path (string), "
        "offset (integer, optional), limit (integer, optional); fix the arguments and call it again"
    )
    assert "Expected `int` >= 1 - at `$.limit`" in desk("read_file", file_path="/f", limit=0)
    assert "Expected `int` >= 1 - at `$.max_count`" in desk("grep", pattern="x", max_count=0)


# ---- reading


def lines(count):
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def test_a_file_is_read_in_pages_that_say_how_to_go_on(desk):
    desk.put("/f", lines(250).encode())
    assert desk("read_file", file_path="/f") == "@@ lines 1-100 of 250 | next offset 100 @@\n" + lines(100)[:-1]
    assert desk("read_file", file_path="/f", offset=248) == "@@ lines 249-250 of 250 @@\nline 249\nline 250"
    assert desk("read_file", file_path="f", offset=1, limit=1) == "@@ lines 2-2 of 250 | next offset 2 @@\nline 2"


def test_the_error_for_an_offset_past_the_end_names_the_number_of_lines(desk):
    desk.put("/f", lines(250).encode())
    error = "error: '/f' has 250 lines, so offset must be from 0 to 249, not 250"
    assert desk("read_file", file_path="/f", offset=250) == error


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_is_said_to_be_there(desk, data):
    desk.put("/f", data)
    assert desk("read_file", file_path="/f") == "'/f' exists and is empty"


def test_the_error_for_a_missing_file_suggests_similar_names(desk):
    desk.put("/src/utils.py", b"")
    near = "error: '{}' does not exist; did you mean '/src/utils.py'? Else find it with ls or glob"
    for path in ("/src/util.py", "/utils.py", "/nowhere/utils.py"):
        assert desk("read_file", file_path=path) == near.format(path)
    assert desk("read_file", file_path="/README") == "error: '/README' does not exist; find it with ls or glob"


def test_a_page_is_cut_at_its_size_and_the_next_one_goes_on(desk):
    desk.put("/f", "".join(f"{number:04} {'x' * 995}\n" for number in range(200)).encode())
    page = desk("read_file", file_path="/f", limit=200)
    assert page.startswith("@@ lines 1-79 of 200 | cut at 80,000 characters | next offset 79 @@\n0000 x")
    assert len(page) <= 80_000
    assert "\n0079 " in desk("read_file", file_path="/f", offset=79)


def test_one_huge_line_cannot_fill_the_context(desk):
    desk.put("/f", b"x" * 1_000_000 + b"\nrest\n")
    page = desk("read_file", file_path="/f")
    assert page[:84] == "@@ lines 1-1 of 2 | line cut: 79,500 of its 1,000,000 characters | next offset 1 @@\n"
    assert len(page) <= 80_000


@given(st.lists(st.text(alphabet="ab \r", max_size=40000), max_size=6), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_pages_together_are_the_file(parts, limit):
    desk, text = Desk(StateBackend()), "\n".join(parts)
    desk.put("/f", text.encode())
    read, offset = [], 0
    while text and offset is not None:
        header, _, body = desk("read_file", file_path="/f", offset=offset, limit=limit).partition("\n")
        read.append(body)
        further = re.search(r"next offset (\d+)", header)
        offset = int(further[1]) if further else None
    assert "\n".join(read) == text.replace("\r\n", "\n").removesuffix("\n")


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"a\r\nb\r\n", "@@ lines 1-2 of 2 @@\na\nb"),
        (b"\xef\xbb\xbfa", "@@ lines 1-1 of 1 @@\na"),
        (b"caf\xe9", "@@ lines 1-1 of 1 | not UTF-8: read as latin-1 @@\ncafé"),
        (b"\n", "@@ lines 1-1 of 1 @@\n"),
        ("a\x0cb\u2028c".encode(), "@@ lines 1-1 of 1 @@\na\x0cb\u2028c"),
        (
            b"a\0b",
            "error: '/f' is binary (3 bytes) and cannot be shown; only text, PDFs, and PNG, JPEG, GIF and WebP images can",
        ),
        ("\ufeffhi\r\né".encode("utf-16-le"), "@@ lines 1-2 of 2 | not UTF-8: read as utf-16-le @@\nhi\né"),
        ("\ufeffhi".encode("utf-16-be"), "@@ lines 1-1 of 1 | not UTF-8: read as utf-16-be @@\nhi"),
        (
            b"\xff\xfea",
            "error: '/f' is binary (3 bytes) and cannot be shown; only text, PDFs, and PNG, JPEG, GIF and WebP images can",
        ),
    ],
    ids=ascii,
)
def test_bytes_are_shown_as_the_text_they_are(desk, data, shown):
    desk.put("/f", data)
    assert desk("read_file", file_path="/f") == shown


@pytest.mark.parametrize(
    ("name", "start", "kind"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("a.JPG", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("a.jpeg", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("a.gif", b"GIF89a", "image/gif"),
        ("a.webp", b"RIFF\0\0\0\0WEBP", "image/webp"),
        ("wrong.png", b"\xff\xd8\xff\xe0", "image/jpeg"),
    ],
)
def test_an_image_is_shown_as_one(desk, name, start, kind):
    data = start + b"\0" * 10
    desk.put(f"/{name}", data)
    [result] = desk.ask(("read_file", {"file_path": name}))
    assert result.content == (Text(f"/{name}: {kind}, {len(data)} bytes"), Image(data, kind))


def test_a_pdf_is_shown_as_a_document(desk):
    desk.put("/docs/a.pdf", b"%PDF-1.7")
    [result] = desk.ask(("read_file", {"file_path": "/docs/a.pdf"}))
    assert result.content == (Text("/docs/a.pdf: application/pdf, 8 bytes"), Document(b"%PDF-1.7", name="a.pdf"))


def test_a_file_that_is_an_image_by_name_only_is_not_sent_as_one(desk):
    desk.put("/text.png", b"no image")
    desk.put("/zeros.png", b"\0\0")
    assert desk("read_file", file_path="/text.png") == "@@ lines 1-1 of 1 @@\nno image"
    assert desk("read_file", file_path="/zeros.png").startswith("error: '/zeros.png' is binary")


@pytest.mark.parametrize(("name", "start"), [("a.png", PNG), ("a.pdf", PDF)])
def test_an_image_or_a_pdf_that_providers_would_refuse_is_an_error(desk, name, start):
    desk.put(f"/{name}", start + bytes(3_900_000 - len(start)))
    [shown] = desk.ask(("read_file", {"file_path": f"/{name}"}))
    assert (len(b64encode(shown.content[1].data)) <= 5 * 2**20, shown.is_error) == (True, False)
    desk.put(f"/{name}", start + bytes(3_900_001 - len(start)))
    said = desk("read_file", file_path=f"/{name}")
    assert said.endswith(", 3,900,001 bytes, more than the 3,900,000 that can be shown; make a smaller one")


def notebook(*cells):
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def code(source, *outputs):
    return {"cell_type": "code", "source": source, "outputs": outputs, "execution_count": 1, "metadata": {}}


def plot(data, kind="image/png"):
    forms = {kind: b64encode(data).decode(), "text/plain": ["<Figure>"]}
    return {"output_type": "display_data", "data": forms, "metadata": {}}


def test_a_notebook_is_shown_as_its_cells_and_their_results(desk):
    error = {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["\x1b[0;31mE\x1b[0m: x", "at line 1"]}
    desk.put("/n.ipynb", notebook(
        {"cell_type": "markdown", "source": ["# Title\n", "text"], "metadata": {}},
        code("print(1)\n1/0", {"output_type": "stream", "name": "stdout", "text": ["1\n"]}, error),
        code("table", {"output_type": "execute_result", "data": {"text/html": "<b>", "text/plain": ["a\n", "b"]}}),
        code("map", {"output_type": "display_data", "data": {"application/x-map": {}}}),
        code("big", {"output_type": "stream", "name": "stdout", "text": "x" * 3000}),
    ))  # fmt: skip
    assert desk("read_file", file_path="/n.ipynb") == (
        "@@ lines 1-25 of 25 | cells of a notebook; grep shows its JSON @@\n"
        "--- cell 1: markdown ---\n# Title\ntext\n--- cell 2: code ---\nprint(1)\n1/0\n--- output ---\n1\n"
        "--- output ---\nE: x\nat line 1\n--- cell 3: code ---\ntable\n--- output ---\na\nb\n--- cell 4: code ---\nmap\n"
        "--- output ---\n[application/x-map]\n--- cell 5: code ---\nbig\n--- output ---\n"
        + "x" * 2000 + "\n... 1,000 characters more"
    )  # fmt: skip


def test_images_of_a_notebook_are_shown_with_the_page_that_they_stand_on(desk):
    large = PNG + bytes(3_899_900)
    cells = code("a", plot(PNG)), code("b", plot(JPEG, "image/jpeg"), plot(b"none")), code("c", plot(large))
    desk.put("/n.ipynb", notebook(*cells))
    [all_of_it] = desk.ask(("read_file", {"file_path": "/n.ipynb"}))
    assert [block for block in all_of_it.content if isinstance(block, Image)] == [
        Image(PNG, "image/png"), Image(JPEG, "image/jpeg")
    ]  # fmt: skip
    assert f"\n[image/png, {len(large):,} bytes]" in all_of_it.text  # It is named, though there was no room for it.
    assert "\n<Figure>\n" in all_of_it.text
    [rest] = desk.ask(("read_file", {"file_path": "/n.ipynb", "offset": 12}))
    assert [len(block.data) for block in rest.content if isinstance(block, Image)] == [len(large)]
    [first] = desk.ask(("read_file", {"file_path": "/n.ipynb", "limit": 2}))
    assert [type(block) for block in first.content] == [Text]


@pytest.mark.parametrize("text", ["not JSON", "[1]", '{"cells": [7]}', '{"worksheets": []}', "[" * 100_000])
def test_a_file_that_is_a_notebook_by_name_only_is_shown_as_it_is(desk, text):
    desk.put("/n.ipynb", text.encode())
    assert desk("read_file", file_path="/n.ipynb").startswith("@@ lines 1-1 of 1")


def test_a_cell_that_is_edited_as_it_was_shown_gets_a_remedy_that_works(desk):
    desk.put("/n.ipynb", notebook(code('print("1")')))
    desk("read_file", file_path="/n.ipynb")
    said = desk("edit_file", file_path="/n.ipynb", old_string='print("1")', new_string='print("2")')
    assert said.endswith("read_file shows the cells, so copy the line of JSON that grep shows")
    line = desk("grep", pattern="print", path="/n.ipynb", output_mode="content")
    found = re.search(r'"source": ("print.*?[^\\]")', line)[1]
    assert not desk.ask(("edit_file", {
        "file_path": "/n.ipynb", "old_string": found, "new_string": '"two"'
    }))[0].is_error  # fmt: skip
    assert "\ntwo" in desk("read_file", file_path="/n.ipynb")


# ---- writing


def test_a_file_is_created_with_its_folders_and_then_replaced(desk):
    assert desk("write_file", file_path="/a/b/c.txt", content="né") == "created '/a/b/c.txt' (3 bytes)"
    assert desk("write_file", file_path="a/b/c.txt", content="") == "replaced '/a/b/c.txt' (0 bytes, 3 before)"
    assert desk.bytes("/a/b/c.txt") == b""


def test_a_write_where_no_file_can_be_is_an_error(desk):
    desk.put("/a/b", b"")
    assert desk("write_file", file_path="/a", content="") == (
        "error: '/a' is a folder, not a file; list it with ls, or give the path of a file"
    )
    assert desk("write_file", file_path="/a/b/c", content="").startswith("error: ")
    assert desk("write_file", file_path="/x", content="\ud800") == (
        "error: '/x' is utf-8, which cannot encode '\\ud800'; write it another way"
    )


def test_files_written_in_one_reply_all_land_and_are_read_in_the_next(desk):
    wrote = desk.ask(*(("write_file", {"file_path": f"/f{number}", "content": str(number)}) for number in range(20)))
    assert [result.is_error for result in wrote] == [False] * 20
    read = desk.ask(*(("read_file", {"file_path": f"/f{number}"}) for number in range(20)))
    assert [result.text for result in read] == [f"@@ lines 1-1 of 1 @@\n{number}" for number in range(20)]


def test_files_edited_in_one_reply_all_change(desk):
    for number in range(20):
        desk.put(f"/f{number}", b"old")
    edits = (("edit_file", {"file_path": f"/f{n}", "old_string": "old", "new_string": str(n)}) for n in range(20))
    assert [result.is_error for result in desk.ask(*edits)] == [False] * 20
    assert [desk.bytes(f"/f{number}") for number in range(20)] == [b"%d" % number for number in range(20)]


# ---- editing


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one two three", "two", "2", b"one 2 three"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "\nb", "\nx", b"a\r\nx\r\n"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"a\r\nb\n", "b", "x\ny", b"a\r\nx\ny\n"),
        (b"\xef\xbb\xbfa b", "a", "x", b"\xef\xbb\xbfx b"),
        (b"\xe9 a", "a", "\xfc", b"\xe9 \xfc"),
        ("\ufeffa\r\nb".encode("utf-16-le"), "a\nb", "é\n\u20ac", "\ufeffé\r\n\u20ac".encode("utf-16-le")),
        ("\ufeffa b".encode("utf-16-be"), "a", "x", "\ufeffx b".encode("utf-16-be")),
        ("né".encode(), "é", "ü", "nü".encode()),
        (b"a b", "a ", "", b"b"),
    ],
    ids=ascii,
)
def test_an_edit_changes_only_what_it_replaces(desk, before, old, new, after):
    desk.put("/f", before)
    assert desk("edit_file", file_path="/f", old_string=old, new_string=new) == "replaced 1 occurrence in '/f'"
    assert desk.bytes("/f") == after


def test_every_occurrence_is_replaced_when_asked(desk):
    desk.put("/f", b"a b a\r\na")
    desk("read_file", file_path="/f")
    edit = {"file_path": "/f", "old_string": "a", "new_string": "x\ny"}
    assert desk("edit_file", **edit) == (
        "error: '/f' was not changed: old_string is there 3 times; "
        "add the lines around the one you mean, or set replace_all"
    )
    assert desk("edit_file", **edit, replace_all=True) == "replaced 3 occurrences in '/f'"
    assert desk.bytes("/f") == b"x\r\ny b x\r\ny\r\nx\r\ny"


@pytest.mark.parametrize(
    ("before", "old", "new", "why"),
    [
        (b"a", "", "x", "old_string is empty"),
        (b"a", "a", "a", "old_string and new_string are the same"),
        (b"a\n", "a\r\n", "a\n", "old_string and new_string are the same"),
        (b"a", "A", "x", "old_string is not there; read the file and copy it exactly"),
        (b"new", "old", "new", "the new text is already there"),
        (b"a\nb", "b\n", "x\n", "only the final newline differs"),
        (b"a\r\nb\nc", "a\nb", "x", "only the line endings differ"),
        (b"a\0", "a", "x", "is binary and cannot be edited as text"),
        (b"\xe9", "\xe9", "\u20ac", "'/f' is latin-1, which cannot encode '\u20ac'; write it another way"),
    ],
    ids=ascii,
)
def test_an_edit_that_cannot_be_made_says_why_and_changes_nothing(desk, before, old, new, why):
    desk.put("/f", before)
    answer = desk("edit_file", file_path="/f", old_string=old, new_string=new)
    assert (answer.startswith("error: "), why in answer, desk.bytes("/f")) == (True, True, before)


def test_several_edits_are_made_in_one_call(desk):
    desk.put("/f", b"one\r\ntwo\r\nthree\r\n")
    edits = [["one\n", ""], ["two", "2\n2"]]
    assert desk("edit_file", file_path="/f", old_string="three", new_string="3", edits=edits) == (
        "replaced 3 occurrences in '/f'"
    )
    assert desk.bytes("/f") == b"2\r\n2\r\n3\r\n"


def test_the_order_of_edits_does_not_matter(desk):
    """Each is looked for in the file as it was, so one text may become the other and the other way round."""
    for number, pairs in enumerate(itertools.permutations([["a", "b"], ["b", "a"], ["c", "ab"]])):
        desk.put(f"/{number}", b"a b c")
        (old, new), *edits = pairs
        desk("edit_file", file_path=f"/{number}", old_string=old, new_string=new, edits=edits)
        assert desk.bytes(f"/{number}") == b"b a ab"


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ([["x", "y"]], "edits[0]: '/f' was not changed: old_string is not there; read the file"),
        ([["two", "2"], ["x", "y"]], "edits[1]: '/f' was not changed: old_string is not there; read the file"),
        ([["t", "T"]], "edits[0]: '/f' was not changed: old_string is there 2 times; add the lines"),
        ([["two", "two"]], "edits[0]: old_string and new_string are the same"),
        ([["", "two"]], "edits[0]: old_string is empty"),
        (
            [["e t", "x"]],
            "edits[0]: '/f' was not changed: old_string overlaps another edit of this call; make one of the two",
        ),
        (
            [["one", "x"]],
            "edits[0]: '/f' was not changed: old_string overlaps another edit of this call; make one of the two",
        ),
        ([["1", "x"]], "without the @@ header; all edits of a call are looked for in the file as it was before it"),
        ([["two"]], "edits[0]: it has 1 texts; give two, the old and the new one"),
    ],
    ids=str,
)
def test_if_one_edit_cannot_be_made_none_is(desk, edits, why):
    desk.put("/f", b"one two three")
    answer = desk("edit_file", file_path="/f", old_string="one", new_string="1", edits=edits)
    assert (answer.startswith("error: "), why in answer, desk.bytes("/f")) == (True, True, b"one two three")


PAIRS = st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.text("abcd", max_size=3)), min_size=1, max_size=4)


@given(st.text("abc", max_size=30), PAIRS, st.booleans())
@settings(max_examples=300, deadline=None)
def test_several_edits_are_recorded_so_that_a_replay_makes_the_same_file(text, pairs, every):
    desk = Desk(StateBackend())
    desk("write_file", file_path="/f", content=text)
    (old, new), *edits = pairs
    [result] = desk.ask(("edit_file", {
        "file_path": "/f", "old_string": old, "new_string": new, "edits": edits, "replace_all": every
    }))  # fmt: skip
    kept = desk.state.files["/f"]
    assert result.is_error == (kept.content == text)
    assert kept.sha256 == sha256(kept.content.encode()).hexdigest()


def test_a_missing_file_is_not_edited(desk):
    answer = desk("edit_file", file_path="/f", old_string="a", new_string="b")
    assert answer == "error: '/f' does not exist; find it with ls or glob"


SOME = st.text(alphabet="ab\r\né", max_size=8)


@given(SOME, SOME.filter(bool), SOME, SOME)
@settings(max_examples=200, deadline=None)
def test_text_outside_the_replacement_stays_byte_for_byte(left, old, right, new):
    text = left + old + right
    try:
        done = edited("/f", text, [(old, new)], replace_all=False)
    except ToolError:
        return
    (edit,) = done.parts
    start = text.index(edit.old)
    assert done.text == text[:start] + edit.new + text[start + len(edit.old) :]
    assert edit.old.replace("\r\n", "\n") == old.replace("\r\n", "\n")


# ---- who changed what


def test_a_file_that_another_run_changed_must_be_read_again(desk):
    other = desk.beside()
    desk("write_file", file_path="/f", content="one")
    other("edit_file", file_path="/f", old_string="one", new_string="two")
    stale = "error: '/f' changed since you read it; read it again, then decide whether to repeat the change"
    assert desk("write_file", file_path="/f", content="x") == stale
    assert desk("edit_file", file_path="/f", old_string="two", new_string="x") == stale
    desk("read_file", file_path="/f")
    assert desk("edit_file", file_path="/f", old_string="two", new_string="three") == "replaced 1 occurrence in '/f'"


UNREAD = "you have not read it; read it, then decide whether to make this change"


def test_a_file_that_this_run_has_not_read_is_not_replaced(desk):
    desk.put("/f", b"one")
    write = {"file_path": "/f", "content": "two"}
    assert (desk("write_file", **write), desk.bytes("/f")) == (f"error: '/f' was not changed: {UNREAD}", b"one")
    desk("read_file", file_path="/f")
    assert desk("write_file", **write) == "replaced '/f' (3 bytes, 3 before)"
    assert desk("write_file", **write | {"content": "three"}) == "replaced '/f' (5 bytes, 3 before)"


def test_what_a_file_loses_nothing_by_needs_no_reading(desk):
    desk.put("/empty", b"")
    desk.put("/same", b"same")
    assert desk("write_file", file_path="/empty", content="x") == "replaced '/empty' (1 bytes, 0 before)"
    assert desk("write_file", file_path="/same", content="same") == "replaced '/same' (4 bytes, 4 before)"


def test_a_text_that_is_there_once_proves_that_it_was_seen(desk):
    """In what a search or the prompt showed, for example."""
    desk.put("/f", b"one two two")
    assert desk("edit_file", file_path="/f", old_string="one", new_string="1") == "replaced 1 occurrence in '/f'"
    desk.put("/g", b"one two two")
    every = {"file_path": "/g", "old_string": "two", "new_string": "2", "replace_all": True}
    assert desk("edit_file", **every) == f"error: '/g' was not changed: it has 2 such places, and {UNREAD}"
    desk("read_file", file_path="/g")
    assert desk("edit_file", **every) == "replaced 2 occurrences in '/g'"


def test_what_another_run_of_the_thread_wrote_must_be_read_before_it_is_replaced(desk):
    desk.beside()("write_file", file_path="/f", content="one")
    assert UNREAD in desk("write_file", file_path="/f", content="two")


def test_a_file_deleted_since_it_was_read_may_be_written_again(desk):
    desk("write_file", file_path="/f", content="one")
    desk.beside()("delete", file_path="/f")
    assert desk("write_file", file_path="/f", content="two") == "created '/f' (3 bytes)"


def test_a_change_on_the_disk_is_noticed(tmp_path):
    desk = Desk(FilesystemBackend(tmp_path))
    desk("write_file", file_path="/f", content="one")
    (tmp_path / "f").write_text("formatted")
    assert "changed since you read it" in desk("edit_file", file_path="/f", old_string="formatted", new_string="x")


class Contested(FilesystemBackend):
    """A disk on which somebody else writes right after each reading."""

    def __init__(self, folder):
        super().__init__(folder)
        self.folder = folder

    def read(self, ctx, path):
        data = super().read(ctx, path)
        (self.folder / path[1:]).write_bytes(b"theirs")
        return data


def test_a_change_between_looking_and_writing_is_not_lost(tmp_path):
    desk = Desk(Contested(tmp_path))
    stale = "error: '/f' changed since you read it; read it again, then decide whether to repeat the change"
    for name, args in (
        ("edit_file", {"old_string": "old", "new_string": "mine"}),
        ("edit_file", {"old_string": "ol", "new_string": "mine", "replace_all": True}),
    ):
        (tmp_path / "f").write_text("old")
        assert (desk(name, file_path="/f", **args), (tmp_path / "f").read_text()) == (stale, "theirs")


def writes(*paths):
    return [("write_file", {"file_path": path, "content": "x"}) for path in paths]


def test_of_two_changes_of_one_path_in_one_reply_the_first_goes_through(desk):
    first, second = desk.ask(*writes("/f", "//f"))
    assert (first.text, second.text) == (
        "created '/f' (1 bytes)",
        "error: '/f' was not changed: this reply already has write_file of '/f'; "
        "see its result, then make this change in your next reply",
    )
    assert desk("delete", file_path="/f") == "deleted '/f'"


def test_deleting_a_folder_conflicts_with_changes_in_it(desk):
    desk.put("/a/b", b"x")
    remove = ("delete", {"file_path": "/a"})
    assert [result.is_error for result in desk.ask(*writes("/a/b", "/ab"), remove)] == [False, False, True]
    assert [result.is_error for result in desk.ask(remove, *writes("/a/c"))] == [False, True]


def test_reading_a_file_that_the_same_reply_changes_is_allowed(desk):
    desk("write_file", file_path="/f", content="before")
    read = ("read_file", {"file_path": "/f"})
    refused = [("write_file", {"file_path": ".."}), ("write_file", {}), ("write_file", {"file_path": 7})]
    results = desk.ask(*refused, read, *writes("/f"), read)
    assert [result.is_error for result in results] == [True, True, True, False, False, False]


def test_a_path_that_a_person_changed_is_the_one_that_counts(desk):
    edited = [Edit({"file_path": "/g", "content": "x"})]
    assert [result.is_error for result in desk.ask(*writes("/f", "/f"), decisions=edited)] == [False, False]
    assert [result.is_error for result in desk.ask(*writes("/f", "/g"), decisions=edited)] == [False, True]


# ---- deleting


def test_a_file_and_a_folder_are_deleted(desk):
    for path in ("/a", "/b/c", "/b/d/e"):
        desk.put(path, b"")
    assert desk("delete", file_path="/a") == "deleted '/a'"
    assert desk("delete", file_path="/b") == "deleted '/b' with all in it (files: 2)"
    assert desk("ls") == "no files in '/'"
    assert desk("delete", file_path="/b") == "error: '/b' does not exist; find it with ls or glob"


def test_the_note_on_a_deleted_file_is_deleted_too(desk):
    for path in ("/a/b", "/a/c", "/ab"):
        desk("write_file", file_path=path, content="x")
    desk("delete", file_path="/a")
    assert (list(desk.state.files), list(desk.state.notes["files"])) == (["/ab"], ["/ab"])


# ---- finding


def test_a_folder_is_listed_one_path_a_line(desk):
    for path in ("/b.txt", "/a/x", "/it's, a name"):
        desk.put(path, b"")
    assert desk("ls", path="/") == "/a/\n/b.txt\n/it's, a name"
    assert desk("ls", path="/b.txt") == "error: '/b.txt' is a file, not a folder; read it with read_file"


def test_long_lists_say_how_much_they_leave_out(desk):
    for number in range(1003):
        desk.put(f"/{number:04}.txt", b"needle")
    more = "/0999.txt\n... 3 more; narrow the request to see them"
    assert desk("ls").endswith(more)
    assert desk("glob", pattern="*").endswith(more)
    stopped = "/0999.txt\n... stopped at 1,000 matches; narrow pattern, path or glob to see others"
    assert desk("grep", pattern="needle").endswith(stopped)


def test_files_are_found_by_name(desk):
    for path in ("/b.py", "/src/a.py", "/src/a.md"):
        desk.put(path, b"")
    assert desk("glob", pattern="*.py") == "/b.py\n/src/a.py"
    assert desk("glob", pattern="*.py", path="src") == "/src/a.py"
    assert desk("glob", pattern="*.js") == (
        "no file below '/' matches '*.js'; "
        "hidden names, node_modules and __pycache__ are found only if the pattern or path begins with them"
    )
    assert desk("glob", pattern="*", path="/sr") == "error: '/sr' does not exist; find it with ls or glob"


@pytest.fixture
def library(desk):
    desk.put("/a.py", b"x = a.b(c)\ny = axb\r\nx = 1\n")
    desk.put("/src/b.md", "a.b\nnée\n".encode())
    desk.put("/bin", b"a.b\0")
    desk.put("/.git/c", b"a.b")
    return desk


def test_a_text_is_found_as_it_is(library):
    assert library("grep", pattern="a.b") == "/a.py\n/src/b.md"
    assert library("grep", pattern="a.b(") == "/a.py"
    assert library("grep", pattern="A.B") == "no line below '/' contains 'A.B'"


def test_matches_are_shown_as_files_lines_or_counts(library):
    assert (
        library("grep", pattern="x", output_mode="content") == "/a.py:1: x = a.b(c)\n/a.py:2: y = axb\n/a.py:3: x = 1"
    )
    assert library("grep", pattern="x", output_mode="count") == "/a.py: 3"
    assert library("grep", pattern="née", output_mode="content") == "/src/b.md:2: née"


def test_a_search_can_be_narrowed_to_a_folder_a_file_or_a_pattern(library):
    assert library("grep", pattern="a.b", path="/src") == "/src/b.md"
    assert library("grep", pattern="a.b", path="/.git/c") == "/.git/c"
    assert library("grep", pattern="a.b", glob="*.py") == "/a.py"
    assert library("grep", pattern="a.b", glob="src/*") == "/src/b.md"
    assert library("grep", pattern="a.b", path="/nope") == "error: '/nope' does not exist; find it with ls or glob"


def test_no_more_matches_are_shown_than_were_asked_for(library):
    stopped = "... stopped at 2 matches; narrow pattern, path or glob to see others"
    content = library("grep", pattern="x", output_mode="content", max_count=2)
    assert content == f"/a.py:1: x = a.b(c)\n/a.py:2: y = axb\n{stopped}"
    assert library("grep", pattern="x", output_mode="count", max_count=2) == f"/a.py: 2\n{stopped}"
    assert library("grep", pattern="a.b", max_count=2) == "/a.py\n/src/b.md"


@pytest.mark.parametrize("pattern", [r"def \w+", "a.*b", "[a-z]+z", "foo|bar", "(a|b)", "^import", "end$"])
def test_a_pattern_that_looks_like_a_regular_expression_and_finds_nothing_gets_a_hint(library, pattern):
    hint = "; the pattern is literal text, and a regular expression only with regex=true"
    assert library("grep", pattern=pattern).endswith(hint)
    assert not library("grep", pattern=pattern, glob="*.md").endswith(hint)


def test_a_regular_expression_is_searched_for_when_asked(library):
    assert library("grep", pattern=r"^y = \w+$", regex=True, output_mode="content") == "/a.py:2: y = axb"
    assert library("grep", pattern="A.B", regex=True, ignore_case=True) == "/a.py\n/src/b.md"
    assert library("grep", pattern="A.B", ignore_case=True) == "/a.py\n/src/b.md"
    assert library("grep", pattern="z+", regex=True) == "no line below '/' matches 'z+'"
    assert library("grep", pattern="z+", path="/nope", regex=True) == (
        "error: '/nope' does not exist; find it with ls or glob"
    )


def test_an_invalid_regular_expression_is_one_clear_line(library):
    assert library("grep", pattern="a(", regex=True) == (
        "error: pattern 'a(' is no valid regular expression: missing ), unterminated subpattern at position 1; "
        "correct it, or leave out regex"
    )


def test_a_pattern_that_would_have_to_match_two_lines_is_told_that_none_can(library):
    assert library("grep", pattern=r"1\ny", regex=True).endswith(
        "; each line is matched by itself, so no pattern finds a line break"
    )


def test_lines_round_a_match_are_shown_when_asked(desk):
    desk.put("/f", "".join(f"line {number}\n" for number in range(1, 10)).encode())
    desk.put("/g", b"line 5\r\nlast")
    search = {"pattern": "line [28]", "regex": True, "context": 1}
    assert desk("grep", **search, path="/f") == (
        "/f-1- line 1\n/f:2: line 2\n/f-3- line 3\n--\n/f-7- line 7\n/f:8: line 8\n/f-9- line 9"
    )
    assert desk("grep", pattern="line 5", context=1) == (
        "/f-4- line 4\n/f:5: line 5\n/f-6- line 6\n--\n/g:1: line 5\n/g-2- last"
    )
    assert desk("grep", pattern="line 5", context=99, output_mode="count") == "/f: 1\n/g: 1"
    everything = desk("grep", pattern="line", context=10**9, max_count=1).split("\n")
    assert (everything[0], everything[1], everything[8]) == ("/f:1: line 1", "/f-2- line 2", "/f-9- line 9")
    assert everything[9:] == ["... stopped at 1 matches; narrow pattern, path or glob to see others"]


async def test_a_regular_expression_does_not_hold_the_loop_though_its_backend_does_not_block():
    desk = Desk(StateBackend())
    desk.put("/f", b"text")
    desk.run.record(ModelReplied(AssistantMessage((ToolCall("grep", {"pattern": "t", "regex": True}, "c"),))))
    (entry,) = desk.state.open.values()
    answer = asyncio.ensure_future(desk.answer(entry))
    await asyncio.sleep(0)
    assert not answer.done()
    assert (await answer).text == "/f"


@pytest.mark.parametrize("pattern", ["", "a\nb"])
def test_a_pattern_that_no_line_can_contain_is_an_error(library, pattern):
    assert library("grep", pattern=pattern) == (
        f"error: pattern must be text within one line, not {pattern!r}; give one line of it"
    )


def test_a_long_line_is_cut_around_its_match(desk):
    desk.put("/f", b"x" * 10_000 + b"needle" + b"y" * 10_000)
    found = desk("grep", pattern="needle", output_mode="content")
    assert found == "/f:1: …" + "x" * 125 + "needle" + "y" * (500 - 131) + "…"


def test_many_long_matches_are_cut_at_the_size_of_a_page(desk):
    desk.put("/f", (b"needle " + b"x" * 400 + b"\n") * 500)
    found = desk("grep", pattern="needle", output_mode="content")
    assert len(found) <= 80_000
    assert found.endswith("more; narrow the request to see them")


def test_files_that_cannot_be_searched_are_counted(tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10_000_001)
    answer = Desk(FilesystemBackend(tmp_path))("grep", pattern="x.*")
    assert answer == ("no line below '/' contains 'x.*'\n... files skipped as too large or unreadable: 1")


def test_a_search_that_ran_out_of_time_says_so():
    seconds = "... stopped after {} seconds; narrow {} the rest"
    assert render_found(Found(["/a"], late=True), "*", "/") == "/a\n" + seconds.format(10, "pattern or path to see")
    long = Hits([Hit(f"/{number}", 1, "x" * 400) for number in range(500)], full=True, late=True, skipped=7)
    cut = render_hits(long, "content", 500).split("\n")[-4:]
    assert [line.partition(" more")[1] or line.split(";")[0] for line in cut] == [
        " more", "... stopped at 500 matches", "... stopped after 15 seconds",
        "... files skipped as too large or unreadable: 7",
    ]  # fmt: skip
    late = Hits([Hit("/a", 1, "x")], full=False, late=True, skipped=0)
    assert render_hits(late, "files_with_matches", 10) == "/a\n" + seconds.format(15, "path or glob to search")
    nothing = Hits([], full=False, late=True, skipped=0)
    assert explain_no_hits(nothing, "a.*b", "/", glob="", regex=False) == "no line below '/' contains 'a.*b'"


# ---- what is recorded


def plain(events):
    return [event for event in events if isinstance(event, FileWritten | FileEdited | FileDeleted | Noted)]


def test_the_state_holds_the_text_and_an_edit_costs_what_it_changes():
    desk = Desk(StateBackend(), RunAlone(("p",)))
    desk("write_file", file_path="/f", content="one\r\ntwo\r\n")
    desk("edit_file", file_path="/f", old_string="one\ntwo", new_string="1\n2")
    wrote, _, edited, _ = plain(desk.run.events)
    assert (wrote.file, wrote.content, wrote.size, wrote.by) == ("/f", "one\r\ntwo\r\n", 10, ("p",))
    assert (edited.old, edited.new, edited.all, edited.size) == ("one\r\ntwo", "1\r\n2", False, 6)
    assert desk.state.files["/f"].content == "1\r\n2\r\n"


def test_edits_that_would_make_another_text_one_after_the_other_are_recorded_as_the_whole_file():
    desk = Desk(StateBackend())
    desk("write_file", file_path="/f", content="baa")
    desk("edit_file", file_path="/f", old_string="b", new_string="a", edits=[["aa", "x"]])
    assert desk.state.files["/f"].content == "ax"


def test_several_edits_cost_what_they_change():
    desk = Desk(StateBackend())
    desk("write_file", file_path="/f", content="\ufeffone " + "x" * 1000 + " two")
    desk("edit_file", file_path="/f", old_string="one", new_string="1", edits=[["two", "2"]])
    desk("edit_file", file_path="/f", old_string="1", new_string="2", edits=[["2", "1"]])
    _, first, second, whole = [event for event in plain(desk.run.events) if not isinstance(event, Noted)]
    assert [(event.old, event.new, event.size) for event in (first, second)] == [("one", "1", 1009), ("two", "2", 1007)]
    assert whole.content == "\ufeff2 " + "x" * 1000 + " 1"  # One after the other they would make another text.


def test_content_that_is_not_utf8_is_kept_as_bytes():
    desk = Desk(StateBackend())
    desk.put("/f", b"\xe9 a")
    desk("edit_file", file_path="/f", old_string="a", new_string="b")
    assert desk.state.files["/f"].content == b"\xe9 b"


def test_events_do_not_carry_the_content_of_a_disk(tmp_path):
    desk = Desk(FilesystemBackend(tmp_path))
    desk("write_file", file_path="/f", content="one")
    desk("edit_file", file_path="/f", old_string="one", new_string="three")
    desk("delete", file_path="/f")
    wrote, noted, edited, _, deleted, forgotten = plain(desk.run.events)
    assert [(event.file, event.content, event.size) for event in (wrote, edited)] == [("/f", None, 3), ("/f", None, 5)]
    assert (noted.value, deleted.file) == (wrote.sha256[:16], "/f")
    assert (forgotten.key, forgotten.rule) == ("/f", "delete")


def test_a_deleted_folder_of_a_disk_is_recorded_by_what_the_thread_knew(tmp_path):
    desk = Desk(FilesystemBackend(tmp_path))
    desk("write_file", file_path="/a/known", content="")
    desk.put("/a/unknown", b"")
    desk("delete", file_path="/a")
    assert [event.file for event in desk.run.events if isinstance(event, FileDeleted)] == ["/a/known", "/a"]


def test_reading_the_same_text_again_records_nothing(desk):
    desk("write_file", file_path="/f", content="one")
    before = len(plain(desk.run.events))
    desk("read_file", file_path="/f")
    assert len(plain(desk.run.events)) == before


def test_replaying_the_events_restores_the_same_state(desk):
    desk.ask(*writes("/a", "/b/c", "/a"))
    desk("edit_file", file_path="/a", old_string="x", new_string="y\nz")
    desk("read_file", file_path="/b/c")
    desk("delete", file_path="/b")
    replayed = State()
    apply(replayed, UserSaid(UserMessage("go"), at=0.0))
    for event in desk.run.events:
        apply(replayed, event)
    assert replayed == desk.state


def test_missing_permissions_are_an_error_and_the_turn_goes_on():
    """In a process of its own, which gives up the rights of root if it has them."""
    code = """
import asyncio, os, tempfile
from pathlib import Path
from minideep import ToolCall, create_deep_agent
from minideep.backends import FilesystemBackend
from minideep.models import ScriptedModel

with tempfile.TemporaryDirectory() as folder:
    Path(folder).chmod(0o755)
    secret = Path(folder, "secret.txt")
    secret.write_text("secret")
    secret.chmod(0)
    calls = [
        ToolCall("read_file", {"file_path": "/secret.txt"}),
        ToolCall("write_file", {"file_path": "/new.txt", "content": "x"}),
        ToolCall("ls", {"path": "/"}),
    ]
    agent = create_deep_agent(ScriptedModel([["hello"], calls, "ok"]), backend=FilesystemBackend(folder))
    asyncio.run(agent.run("load what a turn needs, while that may be read"))
    Path(folder).chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(65534)
    turn = asyncio.run(agent.run("go"))
    if os.getuid() == 0:
        os.seteuid(0)
    Path(folder).chmod(0o755)
    print(*(message.text for message in turn.messages if message.role == "tool"), turn.status, sep="\\n")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert run.stdout.splitlines() == [
        "'/secret.txt': permission denied; leave it, or ask for access",
        "'/new.txt': permission denied; leave it, or ask for access",
        "/secret.txt",
        "ended",
    ], run.stderr
