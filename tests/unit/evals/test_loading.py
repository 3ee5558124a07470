"""Golden sets from files: YAML lists; those in JSON are in `test_golden.py`."""

import pytest

from minideep import ConfigError
from minideep.evals import ExpectedCall, Golden, load

SET = """
# Two goldens.
- goal: Who wrote Emma?
  id: emma
  expected_final_answer: Austen
  expected_calls: [search, {name: read_file, args: {path: /notes.md}}]
  metadata: {since: 2026-11-22, difficulty: 3}
- goal: |
    Write a poem.
    Of two lines.
  expected_status: escalated
  earlier:
    - Hi
"""


@pytest.mark.parametrize("ending", ["yaml", "yml", "YAML"])
def test_a_yaml_list_is_read_like_lines_of_json(tmp_path, ending):
    file = tmp_path / f"golden.{ending}"
    file.write_text(SET)
    first = Golden(
        "Who wrote Emma?",
        "Austen",
        id="emma",
        expected_calls=("search", ExpectedCall("read_file", {"path": "/notes.md"})),
        metadata={"since": "2026-11-22", "difficulty": 3},
    )
    second = Golden("Write a poem.\nOf two lines.\n", expected_status="escalated", earlier=("Hi",))
    assert load(file) == [first, second]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- goal: a\n- goal: 42\n", "item 2: Expected `str`, got `int` - at `$.goal`; put it in quotes; expected"),
        ("- goal: a\n  gaol: b\n", "item 1: unknown field `gaol`; did you mean 'goal'?"),
        ("- a\n", "item 1: Expected `object`, got `str`"),
        ("goal: a\n", "must be a list of goldens: `- goal: ...`"),
        ("", "is empty"),
        ("[]", "is empty"),
        ("- goal: [a\n", "is not YAML: while parsing a flow sequence"),
        ("- goal: \x00\n", "is not YAML"),
        ("- !!python/object/apply:os.system [ls]\n", "is not YAML: could not determine a constructor"),
        ("- goal: &a b\n- goal: *a\n", "line 2: it uses an alias (*); write the value out"),
        ("- " * 50_000 + "a\n", "nests too deep"),
        ("- goal: a\n  metadata: {x: 1" + "0" * 5_000 + "}\n", "is not YAML"),
        ("- goal: a\n  metadata: " + "{a: " * 150 + "1" + "}" * 150, "item 1: its metadata nest deeper than 100"),
    ],
)
def test_what_is_no_set_of_goldens_is_one_error(tmp_path, text, problem):
    file = tmp_path / "golden.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(file)
    assert str(file) in str(raised.value)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_yaml_file_has_at_most_one_megabyte(tmp_path):
    file = tmp_path / "golden.yaml"
    file.write_text("- goal: a\n#" + "x" * 2**20)
    with pytest.raises(ConfigError, match="has more than 1,048,576 bytes; split it"):
        load(file)
