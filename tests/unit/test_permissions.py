"""Rules and their verdicts: what each describes, which one decides, and that a doubt falls to the stricter side."""

import pytest
from hypothesis import example, given, strategies

from minideep import ConfigError, ToolCall
from minideep.access import Access
from minideep.permissions import (
    ALLOWED,
    Allow,
    Ask,
    Asked,
    Deny,
    Policy,
    ask_before_writes,
    read_only,
    strictest,
    workspace,
)
from minideep.testing import tool_context


def asked(name="use", thread_only=False):
    return Asked(tool_context(), ToolCall(name, {}, "c1"), thread_only)


def verdict(rules, operation, subject="", tool="use", home="/"):
    """Return the verdict of one list of rules, as a word."""
    access = Access(operation, subject) if operation else None
    return type(Policy([rules], home).verdict(asked(tool), access)).__name__.lower()


def test_the_first_rule_that_describes_a_call_decides_and_without_one_it_is_allowed():
    rules = [Allow("read", "/secrets/public/**"), Deny("read", "/secrets/**"), Ask("read", "/**")]
    assert verdict(rules, "read", "/secrets/public/x") == "allow"
    assert verdict(rules, "read", "/secrets/x") == "deny"
    assert verdict(rules, "read", "/x") == "ask"
    assert verdict(rules, "write", "/secrets/x") == "allow"
    assert verdict([], "read", "/x") == "allow"


@pytest.mark.parametrize(
    ("pattern", "path", "described"),
    [
        ("/src/**", "/src/a.py", True),
        ("/src/**", "/src/deep/.hidden/a.py", True),
        ("/src/**", "/src", False),
        ("/src/**", "/srcs/a.py", False),
        ("/src/*.py", "/src/a.py", True),
        ("/src/*.py", "/src/deep/a.py", False),
        ("*.env", "/a/b/.env", True),
        ("*.{key,pem}", "/a/b.pem", True),
        ("**", "/.env", True),
        ("docs/**", "/home/me/docs/a", True),
        ("docs/**", "/docs/a", False),
        ("docs/**", "/home123/docs/a", False),  # As long as the folder that it is relative to.
        ("*.env", "/elsewhere/.env", True),
        ("/a[bc]", "/ab", True),
    ],
)
def test_a_pattern_of_a_path_is_a_glob_that_hidden_names_fit_too(pattern, path, described):
    for rule, meant in ((Allow("read", pattern), [Deny("read")]), (Deny("read", pattern), [])):
        found = verdict([rule, *meant], "read", path, home="/home/me")
        assert found == (type(rule).__name__.lower() if described else "deny" if meant else "allow")


@pytest.mark.parametrize(
    "path", ["/secret", "/secret/x", "/secret/deep/x", "/SECRET/x", "/Secret", "/secret/.x", "/secret/x\n/../ok"]
)
def test_a_rule_that_restricts_a_folder_holds_for_all_in_it_in_every_spelling(path):
    assert verdict([Deny("read", "/secret")], "read", path) == "deny"
    assert verdict([Ask("read", "/Secret")], "read", path) == "ask"


def test_a_name_in_another_form_of_unicode_is_the_same_name():
    composed, apart = "/caf\u00e9", "/cafe\u0301"
    for pattern, path in ((composed, apart), (apart, composed), ("/stra\u00dfe", "/STRASSE")):
        assert verdict([Deny("write", pattern)], "write", f"{path}/x") == "deny"
        assert verdict([Allow("write", f"{pattern}/**"), Deny("write")], "write", f"{path}/x") == "deny"


def test_a_rule_that_allows_describes_what_it_says_and_no_more():
    assert verdict([Allow("write", "*.md"), Deny("write")], "write", "/notes.md/evil.sh") == "deny"
    assert verdict([Allow("write", "/src"), Deny("write")], "write", "/src/a") == "deny"
    assert verdict([Allow("write", "/SRC/**"), Deny("write")], "write", "/src/a") == "deny"


def test_a_command_is_refused_if_any_part_of_its_line_is():
    rules = [Deny("execute", "rm *"), Ask("execute", "git push"), Allow("execute", "git *"), Ask("execute")]
    assert verdict(rules, "execute", "git status") == "allow"
    assert verdict(rules, "execute", "git status && git push -f") == "ask"
    assert verdict(rules, "execute", "git status && make") == "ask"
    assert verdict(rules, "execute", "git status && make; rm -r x") == "deny"
    assert verdict(rules, "execute", "git status > x") == "ask"


def test_a_line_that_cannot_be_read_gets_the_strictest_verdict_of_any_command():
    line = "for f in *; do $f; done"
    assert verdict([Deny("execute", "rm *")], "execute", line) == "deny"
    assert verdict([Ask("execute", "git push"), Deny("execute", "rm *"), Ask("execute")], "execute", line) == "deny"
    assert verdict([Allow("execute", "git *"), Ask("execute")], "execute", line) == "ask"
    assert verdict([Allow("execute", "git *")], "execute", line) == "allow"  # Nothing is refused here at all.
    assert verdict([Allow("execute"), Deny("execute", "rm *")], "execute", line) == "allow"
    assert verdict([Allow("execute", "*"), Deny("execute")], "execute", line) == "deny"


def test_a_subagent_is_described_by_its_name():
    rules = [Deny("task", "writer*"), Ask("task")]
    assert verdict(rules, "task", "writer-2") == "deny"
    assert verdict(rules, "task", "reader") == "ask"


def test_a_tool_is_described_by_its_name_and_by_what_it_says_that_it_reaches():
    assert verdict([Deny("send")], "", tool="send") == "deny"
    assert verdict([Deny("send")], "", tool="resend") == "allow"
    assert verdict([Ask("fetch", "https://*.example.com/*")], "network", "https://a.example.com/x", "fetch") == "ask"
    assert verdict([Ask("fetch", "https://*.example.com/*")], "network", "https://b.com", "fetch") == "allow"
    assert verdict([Deny("put", "/etc")], "write", "/etc/passwd", tool="put") == "deny"
    assert verdict([Deny("write", "/etc")], "write", "/etc/passwd", tool="put") == "deny"


@pytest.mark.parametrize("operation", ["read", "write", "execute", "task"])
def test_what_allows_an_operation_does_not_allow_a_tool_of_that_name(operation):
    assert verdict([Allow(operation), Deny("*")], "", tool=operation) == "deny"
    assert verdict([Allow(operation), Ask("*")], "network", "x", operation) == "ask"
    assert verdict([Allow(operation), Deny("*")], operation, "/x", operation) == "allow"
    assert verdict([Deny(operation)], "", tool=operation) == "deny"


def test_a_pattern_for_a_tool_that_tells_nothing_of_its_calls_is_a_doubt():
    assert verdict([Deny("send", "x*")], "", tool="send") == "deny"
    assert verdict([Allow("send", "x*"), Deny("send")], "", tool="send") == "deny"


@pytest.mark.parametrize(
    ("rules", "folder", "found"),
    [
        ([Deny("write", "/data/keep")], "/data", "deny"),
        ([Deny("write", "/data/keep")], "/data/keep/deep", "deny"),
        ([Deny("write", "/data/keep")], "/other", "allow"),
        ([Deny("write", "*.env")], "/data", "deny"),
        ([Ask("write", "/data/keep/**")], "/data", "ask"),
        ([Allow("write", "/data/**"), Deny("write")], "/data", "allow"),
        ([Allow("write", "/data/**"), Deny("write")], "/data/deep", "allow"),
        ([Allow("write", "/data/*"), Deny("write")], "/data", "deny"),
        ([Allow("write", "/data/**"), Deny("write")], "/", "deny"),
        ([Allow("write", "/data/**"), Deny("write", "/data/keep")], "/data", "allow"),
        ([Allow("write", "data/**"), Deny("write")], "/data", "allow"),
        ([Allow("write"), Deny("write")], "/", "allow"),
    ],
)
def test_a_call_that_reaches_all_below_a_folder_gets_the_strictest_verdict_of_what_may_be_there(rules, folder, found):
    rule = Policy([rules]).verdict(asked(), Access("write", folder, below=True))
    assert type(rule).__name__.lower() == found


def test_a_star_is_every_call_that_reaches_beyond_its_thread():
    assert (
        verdict([Deny("*")], "read", "/x") == verdict([Deny("*")], "") == verdict([Deny("*")], "execute", "x") == "deny"
    )
    assert Policy([[Deny("*")]]).verdict(asked("write_todos", thread_only=True), None) == ALLOWED
    assert Policy([[Deny("use")]]).verdict(asked(thread_only=True), None) == Deny("use")


def test_a_rule_counts_only_when_its_function_says_so():
    seen = []

    def at_night(ctx, call):
        seen.append((ctx.thread_id, call.name))
        return len(seen) > 1

    rules = [Deny("write", "/x", at_night)]
    assert [verdict(rules, "write", "/x") for _ in range(2)] == ["allow", "deny"]
    assert seen == [("test", "use")] * 2
    assert verdict(rules, "write", "/y") == "allow"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Allow("", "x"), "operation and pattern must not be empty"),
        (lambda: Deny("read", ""), "operation and pattern must not be empty"),
        (lambda: Deny("*", "/src/**"), r"Deny\('\*', '/src/\*\*'\): '\*' takes no pattern; write one rule for 'read'"),
        (lambda: Deny("read", "/a/../b"), r"Deny\('read', '/a/../b'\): pattern .* is refused"),
        (lambda: Deny("write", "{a,b}" * 50), "too large"),
        (lambda: Ask(5), "Ask: operation must be text, not 5"),
        (lambda: Ask("read", when="night"), "Ask: when must be a plain function, or None, not 'night'"),
    ],
)
def test_a_rule_that_could_not_work_is_refused_when_it_is_made(make, problem):
    with pytest.raises(ConfigError, match=problem):
        make()


def test_presets_say_what_their_names_say():
    def verdicts(rules):
        return [
            verdict(rules, operation, subject)
            for operation, subject in (
                ("read", "/a"),
                ("write", "/src/a"),
                ("write", "/b"),
                ("execute", "ls"),
                ("", ""),
            )
        ]

    assert verdicts(read_only()) == ["allow", "deny", "deny", "deny", "allow"]
    assert verdicts(ask_before_writes()) == ["allow", "ask", "ask", "ask", "allow"]
    assert verdicts(workspace("/src/**")) == ["allow", "allow", "deny", "ask", "allow"]


NAMES = strategies.sampled_from(["a", "b", "A", ".a", "a b", "\u00e9", "*", "**", "?", "x.py"])
PATHS = strategies.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
LINES = strategies.lists(
    strategies.sampled_from(["rm", "git", "x", " ", ";", "&&", "$(", "'", "*", "\n", "sh", "-c", ">"]), max_size=8
).map("".join)
OPERATIONS = strategies.sampled_from(["read", "write", "execute", "task"])
RULES = strategies.lists(
    strategies.one_of(
        *(
            strategies.builds(
                kind, OPERATIONS, strategies.one_of(strategies.just("**"), PATHS, strategies.just("rm *"))
            )
            for kind in (Allow, Ask, Deny)
        ),
        strategies.sampled_from([Allow("*"), Ask("*"), Deny("use")]),
    ),
    max_size=5,
)
ACCESSES = strategies.one_of(
    strategies.none(),
    strategies.builds(Access, strategies.sampled_from(["read", "write"]), PATHS),
    strategies.builds(Access, strategies.just("execute"), LINES),
    strategies.builds(Access, strategies.just("task"), NAMES),
)


@given(RULES, ACCESSES)
def test_a_rule_in_front_that_denies_everything_decides_whatever_follows(rules, access):
    first = Deny("*")
    assert Policy([[first, *rules]]).verdict(asked(), access) == first


@given(RULES, RULES, ACCESSES)
def test_of_two_lists_the_stricter_verdict_counts(above, own, access):
    both, apart = Policy([above, own]), [Policy([rules]).verdict(asked(), access) for rules in (above, own)]
    assert both.verdict(asked(), access).strictness == strictest(apart).strictness


@given(RULES, RULES, ACCESSES)
def test_a_rule_that_denies_is_never_weakened_by_what_follows_it(before, after, access):
    rule = Deny(access.operation, access.subject if access.operation == "task" else "**") if access else Deny("use")
    found = Policy([[*before, rule]]).verdict(asked(), access).strictness
    assert Policy([[*before, rule, *after]]).verdict(asked(), access).strictness == found


@given(RULES, strategies.lists(LINES, min_size=1, max_size=3))
@example([Allow("execute", "rm *"), Ask("*")], ["rm", ";"])
def test_a_line_is_at_least_as_strict_as_each_of_its_parts(rules, parts):
    policy = Policy([rules])
    whole = policy.verdict(asked(), Access("execute", "\n".join(parts))).strictness
    if all("'" not in part for part in parts):  # A quote may take in what follows.
        for part in parts:
            if part.strip(" ;&\n"):  # Else no command is in it.
                assert whole >= policy.verdict(asked(), Access("execute", part)).strictness
