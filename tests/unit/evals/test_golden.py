"""Golden sets: files of goals with expected results, one JSON object a line."""

import json

import pytest

from minideep import ConfigError
from minideep.evals import Golden, load


def test_a_golden_set_is_lines_of_json_with_blank_lines_between_them(tmp_path):
    file = tmp_path / "golden.jsonl"
    second = {"goal": "Two\u2028lines", "expected_final_answer": "b", "expected_artifact_set": ["b.md"]}
    file.write_bytes(b'\xef\xbb\xbf{"goal": "One"}\r\n\r\n  \n' + json.dumps(second, ensure_ascii=False).encode())
    assert load(file) == load(str(file)) == [Golden("One"), Golden("Two\u2028lines", "b", ("b.md",))]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"expected_final_answer": "x"}', "missing required field `goal`"),
        (b'{"goal": "x", "expected_answer": "y"}', "`expected_answer`; did you mean 'expected_final_answer'?"),
        (b'{"goal": "x", "expected_statu": "y"}', "unknown field `expected_statu`; did you mean 'expected_status'?"),
        (b'{"goal": "x", "expected_status": "ready"}', "Invalid enum value 'ready'"),
        (b'{"goal": "x", "expected_calls": [{"nam": "y"}]}', "missing required field `name`"),
        (b'{"goal": "x", "expected_calls": [""]}', "an expected call has no name"),
        (b'{"goal": "x", "expected_artifact_set": "a.md"}', "Expected `array`, got `str`"),
        (b'{"goal": "\xff"}', "can't decode byte 0xff"),
        (b'{"goal": " "}', "its goal is empty"),
    ],
)
def test_a_bad_line_is_one_error_that_names_it_and_what_was_expected(tmp_path, line, problem):
    file = tmp_path / "golden.jsonl"
    file.write_bytes(b'{"goal": "fine"}\n\n' + line + b"\n")
    with pytest.raises(ConfigError) as raised:
        load(file)
    said = str(raised.value)
    assert said.startswith(f"{str(file)!r}, line 3: ")
    assert problem in said
    assert 'expected {"goal": "...", "expected_final_answer": "...", ...}: all but the goal may be left out' in said


def test_a_golden_set_that_is_unreadable_empty_or_huge_is_refused(tmp_path):
    empty, huge = tmp_path / "empty", tmp_path / "huge"
    empty.write_text("\n \n")
    with huge.open("wb") as file:
        file.truncate(16 * 2**20 + 1)
    for path, problem in ((empty, "is empty"), (huge, "more than 16,777,216 bytes"), (tmp_path, "cannot be read")):
        with pytest.raises(ConfigError, match=problem):
            load(path)
    with pytest.raises(ConfigError, match=r"cannot be read: .*No such file"):
        load(tmp_path / "missing")


def test_a_golden_made_in_code_is_checked_too():
    with pytest.raises(ConfigError, match="its goal is empty"):
        Golden("")
    with pytest.raises(
        ConfigError, match=r"Golden: expected_artifact_set must be a list, not 'facts\.md'; write \['facts\.md'\]"
    ):
        Golden("x", expected_artifact_set="facts.md")
