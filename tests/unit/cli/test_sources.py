"""The sources of an answer, on the terminal."""

from minideep import Citation, Turn
from minideep.cli.render import Screen, sources


def test_sources_are_numbered_and_each_has_one_line():
    page = Citation("https://e.example/a", "A page", "so it is")
    cited = (page, Citation("https://f.example"), page, Citation(quote="words of\na file"), Citation())
    assert sources(cited) == [
        "Sources:",
        "[1] A page https://e.example/a",
        "[2] https://f.example",
        "[3] words of a file",
    ]
    assert sources(()) == sources((Citation(),)) == []


def test_the_end_of_a_turn_names_the_sources_of_its_answer_and_no_title_moves_the_cursor(capsys):
    cited = (Citation("https://e.example", "A\x1b[2J\u202epage"),)
    Screen().turn(Turn(thread_id="t", status="ended", reason="done", citations=cited), lambda call: (), again="")
    shown = capsys.readouterr().out
    assert "Sources:\n[1] A" in shown
    assert not {"\x1b", "\u202e"} & {*shown}
