"""Command lines, read as far as that is certain: nothing that a shell would run escapes a rule that refuses it."""

import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies

from minideep.command_lines import MAX_CARRIED, MAX_LENGTH, OPAQUE, commands, fits


def texts(line):
    return [command.text for command in commands(line)]


def hits(pattern, line):
    """Return whether a rule that refuses *pattern* would refuse the line."""
    return any(command.fits(pattern, restricts=True) is not False for command in commands(line))


def allows(pattern, line):
    """Return whether a rule that allows *pattern* would let the whole line run."""
    return all(command.fits(pattern, restricts=False) for command in commands(line))


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("git status", ["git status"]),
        ("  git   status\t", ["git status"]),
        ("a && b || c; d | e & f\ng", ["a", "b", "c", "d", "e", "f", "g"]),
        ("echo 'a && b' \"c; d\" e\\;f", ["echo a && b c; d e;f"]),
        ("git commit -m 'a $(b) `c`'", ["git commit -m a $(b) `c`"]),
        ("g''i\"t\" st\\atus", ["git status"]),
        ("git \\\n  status", ["git status"]),
        ("git # status", ["git"]),
        ("git a#b", ["git a#b"]),
        ("make 2>&1 | tail", ["make", "tail"]),
        ("make >/dev/null 2>&1 && make &> /dev/null", ["make", "make"]),
    ],
)
def test_simple_commands_are_read_as_a_shell_splits_them(line, read):
    assert texts(line) == read
    assert not any(command.opaque or command.redirected for command in commands(line))


REMOVES = [
    "rm x",
    "rm",
    "rm -rf /",
    "git status && rm x",
    "git status;rm x",
    "git status||rm x",
    "git status|rm x",
    "git status&rm x",
    "git status\nrm x",
    "git status &>/dev/null rm x",
    "FOO=1 rm x",
    "FOO=1 BAR+=2 rm x",
    "/bin/rm x",
    "../../bin/rm x",
    "/bin/RM x",
    "r\\m x",
    "r''m x",
    '"rm" x',
    "r\\\nm x",
    ">log rm x",
    "2>&1 rm x",
    "</dev/null rm x",
    "$(echo rm) x",
    "`echo rm` x",
    "echo $(rm x)",
    'echo "$(rm x)"',
    'echo "`rm x`"',
    "$RM x",
    "${RM} x",
    "${RM:-rm} x",
    "$'rm' x",
    "r? x",
    "/bin/r[m] x",
    "{ rm x; }",
    "(rm x)",
    "! rm x",
    "if true; then rm x; fi",
    "for f in *; do rm $f; done",
    "f() { rm x; }; f",
    "function f { rm x; }",
    "cat <(rm x)",
    "cat <<E\n$(rm x)\nE",
    "sh -c 'rm x'",
    "bash -lc 'rm x'",
    "/bin/sh -c 'rm x'",
    "echo 'rm x' | sh",
    "eval rm x",
    "eval 'rm x'",
    ". ./script",
    "trap 'rm x' EXIT",
    "alias l=rm\nl x",
    "env rm x",
    "env -i FOO=1 rm x",
    "env -S 'rm x'",
    "sudo rm x",
    "sudo -u root /bin/rm x",
    "nohup rm x",
    "timeout 5 rm x",
    "time rm x",
    "exec rm x",
    "command rm x",
    "xargs rm",
    "ls | xargs -n1 rm",
    "find . -name x -exec rm {} ;",
    "find . -exec sh -c 'rm x' ;",
    "busybox rm x",
    "git $X; rm x",
    "echo " + "a" * MAX_LENGTH,
    "env " + "a " * (MAX_CARRIED + 1),
    "rm 'unfinished",
    "rm \\",
    "",
    "\0rm x",
    "rm\u00a0x; rm x",
]


@pytest.mark.parametrize("line", REMOVES, ids=range(len(REMOVES)))
@pytest.mark.parametrize("pattern", ["rm *", "rm"])
def test_a_rule_against_a_program_hits_every_line_that_may_run_it(line, pattern):
    assert hits(pattern, line)


@pytest.mark.parametrize(
    "line",
    [
        "git rm x",
        "echo rm x",
        "grep -r 'rm x' .",
        "rmdir x",
        "ls *.py",
        "echo $HOME $?",
        "make >log 2>&1",
        "FOO=rm git status",
        "git commit -m 'rm $(x)'",
        "timeout 60 pytest -q",
        "xargs grep foo",
    ],
)
def test_a_rule_against_a_program_spares_lines_that_surely_do_not_run_it(line):
    assert not hits("rm *", line)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("git *", "git status"),
        ("git *", "git"),
        ("git *", "git log >/dev/null 2>&1"),
        ("git status", "git  'status'"),
        ("git * --stat", "git diff a --stat"),
        ("ls *", "ls *.py $HOME"),
        ("sh *", "sh -c 'git status'"),
        ("git *", "git status; git log && git diff"),
        ("FOO=1 make *", "FOO=1 make all"),
    ],
)
def test_a_rule_allows_a_line_if_it_describes_each_of_its_commands_whole(pattern, line):
    assert allows(pattern, line)


@pytest.mark.parametrize(
    "line",
    [
        *(line for line in REMOVES if not line.startswith(("git $X", "env a"))),
        "git status && rm x",
        "git $(rm x)",
        "git status > /etc/passwd",
        "git status >> x",
        "git status < /etc/passwd",
        "git log &> x",
        "git log >&2x",
        '"git"2>&1 status',
        "LD_PRELOAD=x git status",
        "PATH=/evil; git status",
        "./git status",
        "/usr/bin/git status",
        "'git status'x",
        "GIT status",
        "gitx status",
        "git status `x`",
        "git status; > x",
        "git status\n>> x",
        "git log | > x",
        "< x; git status",
        "\ngit status\nrm",
    ],
)
def test_a_rule_never_allows_a_line_with_anything_else_in_it(line):
    assert not allows("git *", line)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("test *", "test -v 'a[$(rm x)]'"),
        ("printf *", "printf -v 'a[`rm x`]' 1"),
        ("read *", "read 'a[0$(rm x)]'"),
        ("let *", "let 'a[$(rm x)]'"),
        ("declare *", "declare -i x='a[$(rm x)]'"),
        ("RANDOM=*", "RANDOM='a[$(rm x)]'"),
        ("RANDOM=*", "RANDOM='a[$(rm x)]' ls"),
    ],
)
def test_a_quoted_index_that_bash_evaluates_may_be_any_command(pattern, line):
    assert not allows(pattern, line)
    assert hits("rm *", line)
    assert hits("rm *", f"builtin {line}")


def test_a_bracket_that_is_only_printed_is_no_index():
    assert allows("printf *", "printf '[%s]' \"$HOME\"")
    assert allows("grep *", "grep 'a[$`]' x")


def test_what_only_the_shell_knows_fits_a_star_alone():
    assert allows("git * status", "git $X status")
    assert not allows("git push", "git $X")
    assert not allows("git push *", "git $X origin")
    assert hits("git push *", "git $X origin")
    assert hits("git push *", "git pus? origin")
    assert not hits("git push *", "hg $X origin")


def test_a_line_that_cannot_be_read_is_opaque_from_there_on():
    assert commands("git status; $(x)")[-1] == OPAQUE
    assert commands("x" * (MAX_LENGTH + 1)) == (OPAQUE,)
    assert commands(" \n ") == (OPAQUE,)


def test_a_pattern_takes_no_more_than_its_length_times_that_of_the_text():
    assert not fits("*a" * 500, "a" * 499 + "b" * 500)
    assert fits("*a" * 500, "a" * 500)


SHELL = shutil.which("bash") or shutil.which("sh")
WORDS = (
    "say say ok ok; ; & && | || ' \" \\ $X ${X} $( ` ) ( { } # > < >& 2>&1 >/dev/null &>/dev/null * ? [ ] ~ ! = A=1 a 1 "
    "sh -c env then fi / $'say'"
)
PIECES = strategies.sampled_from([*WORDS.split(), " ", " ", " ", "\n", "\t", "\\\n"])


@pytest.mark.skipif(SHELL is None, reason="no shell")
@settings(max_examples=150, deadline=None)
@given(strategies.lists(PIECES, min_size=1, max_size=12), strategies.sampled_from(["bash", "dash", "sh"]))
def test_what_a_real_shell_runs_is_hit_by_a_rule_against_it(pieces, shell):
    """`say` notes that it ran, in a file. Whenever it did, a rule against `say` must have hit the line."""
    if shutil.which(shell) is None:
        return
    line = "".join(pieces)
    # Each line has a mark of its own: one that an earlier line left running in the background must not count here.
    folder, ran = Path(FOLDER), Path(FOLDER, f"ran {uuid.uuid4().hex}")
    subprocess.run(
        [shell, "-c", line],
        cwd=folder / "empty",
        env={"PATH": f"{folder}:/usr/bin:/bin", "X": "say", "RAN": str(ran)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
    )
    if ran.exists():
        assert hits("say *", line)
        assert not allows("ok *", line)


FOLDER = ""


@pytest.fixture(autouse=True, scope="module")
def says(tmp_path_factory):
    global FOLDER  # Hypothesis takes no fixture of a function.
    folder = tmp_path_factory.mktemp("shell")
    (folder / "empty").mkdir()
    (folder / "say").write_text('#!/bin/sh\n: > "$RAN"\n')
    (folder / "say").chmod(0o755)
    FOLDER = str(folder)
