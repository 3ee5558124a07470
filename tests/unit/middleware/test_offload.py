"""Offloading: large texts go into files and the model sees where they are, on both backends."""

import asyncio

import pytest
from harness import media
from harness.stores import plain
from hypothesis import given, strategies as st
from msgspec import structs

from minideep import Agent, Image, MemoryCheckpointer, Middleware, Subagent, Text, ToolCall, ToolContext, UserMessage
from minideep.backends import FilesystemBackend, StateBackend
from minideep.events import FileWritten, ToolReturned, TurnEscalated
from minideep.messages import AssistantMessage, Audio, Document, MediaLink, Thinking, Video
from minideep.middleware import FilesystemMiddleware, OffloadMiddleware, SubAgentMiddleware
from minideep.middleware.context import tokens
from minideep.middleware.context.spill import digest, file_name, stub
from minideep.middleware.context.tokens import fitted
from minideep.models import ScriptedModel
from minideep.tools import tool

PNG = Image(media.PNG)
LINES = "".join(f"line {number} of the report\n" for number in range(6_000))


@pytest.fixture(params=["state", "disk"])
def backend(request, tmp_path):
    return StateBackend() if request.param == "state" else FilesystemBackend(tmp_path)


def agent(script, backend, *tools, store=None, **options):
    middleware = [FilesystemMiddleware(backend), OffloadMiddleware(backend, **options)]
    return Agent(ScriptedModel(script), tools, middleware=middleware, checkpointer=store or MemoryCheckpointer())


def answering(value, name="report"):
    """A tool that answers *value*."""

    @tool(name=name)
    async def report() -> str:
        """Report."""
        if isinstance(value, Exception):
            raise value
        return value

    return report


def place_of(backend, name, thread="t"):
    """Where a result is put: a folder of the machine is shared by threads, the state is not."""
    return f"/large_tool_results/{f'{digest(thread)}.' if backend.blocking else ''}{name}"


def result_of(value, backend, call_id="c1", **options):
    """The message that the model gets of a tool's answer, and the files that were written."""
    turn = agent([ToolCall("report", {}, call_id), "done"], backend, answering(value), **options).run_sync("go", "t")
    return turn.messages[2], list(turn.artifacts)


def read(helper, backend, path, thread="t"):
    """What a model reads of a file, page by page, as its lines."""
    lines, offset = [], 0
    while offset is not None:
        call = ToolCall("read_file", {"file_path": path, "offset": offset, "limit": 2000})
        reader = agent([call, "done"], backend, store=helper.checkpointer)
        header, _, body = reader.run_sync("read it", thread).messages[2].text.partition("\n")
        lines += body.split("\n")
        offset = int(header.split("next offset ")[1].split(" ")[0]) if "next offset" in header else None
    return lines


# ---- results


@pytest.mark.parametrize(
    ("text", "large"),
    [("x" * 80_000, False), ("x" * 80_001, True), ("字" * 20_000, False), ("字" * 20_001, True), ("é" * 40_001, True)],
    ids=["80,000", "80,001", "20,000 Chinese", "20,001 Chinese", "40,001 accented"],
)
def test_a_result_goes_into_a_file_above_20_000_tokens(backend, text, large):
    message, files = result_of(text, backend)
    assert (message.text != text, files) == (large, [place_of(backend, "c1")] if large else [])


def test_the_stub_says_how_much_where_and_how_to_read_it_and_shows_both_ends(backend):
    message, _ = result_of(LINES, backend)
    assert message.text == (
        "This result is too large to be shown: 142,890 characters, 6,000 lines. All of it is in "
        f"{place_of(backend, 'c1')!r}; read parts of it with read_file (offset, limit), or search it with grep (path). Only its "
        "ends follow:\n"
        "line 0 of the report\nline 1 of the report\nline 2 of the report\nline 3 of the report\nline 4 of the report\n"
        "... 5,990 lines ...\n"
        "line 5995 of the report\nline 5996 of the report\nline 5997 of the report\nline 5998 of the report\nline 5999 of the report"
    )


@given(st.text(alphabet="ab字\n", min_size=1), st.integers(1, 100_000))
def test_a_stub_is_small_for_any_text(text, times):
    assert len(stub("This result", text * times, "/large_tool_results/c1")) < 1_700


def test_the_whole_result_is_read_back_in_pages_and_nothing_goes_into_a_file_again(backend):
    helper = agent([ToolCall("report", {}, "c1"), "done"], backend, answering(LINES))
    helper.run_sync("go", "t")
    assert read(helper, backend, place_of(backend, "c1")) == LINES.removesuffix("\n").split("\n")
    assert list(helper.get_state("t").files) == [place_of(backend, "c1")]


def test_a_page_of_a_file_is_never_put_into_a_file(backend):
    script = [
        ToolCall("write_file", {"file_path": "/cjk", "content": "字" * 79_000}),
        ToolCall("read_file", {"file_path": "/cjk"}),
        "done",
    ]
    turn = agent(script, backend).run_sync("go")
    assert turn.messages[4].text.endswith("字" * 79_000)
    assert list(turn.artifacts) == ["/cjk"]


def test_the_prompt_says_what_to_do_with_a_file_that_stands_for_a_large_result(backend):
    assert OffloadMiddleware(backend).prompt == (
        "A result of more than 20,000 tokens is put into a file, and you see its path, size and ends instead. What you "
        "need may stand between them: find it with `grep`, or read that part with `read_file`, before you conclude "
        "anything."
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (["call/../1"], "call____1"),
        (["t1/part 2", "c1"], "t1_part_2.c1"),
        ([".."], "__"),
        (["x" * 100], "x" * 100),
        (["x" * 101], "c675a2e604b0cd12"),
    ],
)
def test_a_call_id_becomes_the_name_of_one_file(given, name):
    assert file_name(*given) == name


def test_an_id_cannot_lead_out_of_the_folder(backend):
    _, files = result_of("x" * 80_001, backend, call_id="..\\..:c 1")
    assert files == [place_of(backend, "______c_1")]


def test_images_stay_in_the_result_and_its_texts_go_into_one_file(backend):
    message, files = result_of((Text("a" * 50_000), PNG, Text("b" * 50_000), PNG), backend)
    assert files == [place_of(backend, "c1")]
    assert (message.content[0].text[:49], message.content[1:]) == (
        "This result is too large to be shown: 100,000 cha",
        (PNG, PNG),
    )


def test_an_image_alone_is_never_large(backend):
    assert result_of((Text("see"), Image(media.PNG + b"x" * 900_000)), backend)[1] == []


def test_a_large_error_stays_an_error(backend):
    message, files = result_of(ValueError("x" * 5_000), backend, result_tokens=1_000)
    assert (message.is_error, files) == (True, [place_of(backend, "c1")])


async def test_a_result_that_cannot_be_written_is_shown_whole(tmp_path, caplog):
    for backend in (StateBackend(), FilesystemBackend(tmp_path)):
        script = [
            ToolCall("write_file", {"file_path": "/large_tool_results", "content": "in the way"}),
            ToolCall("report", {}, "c1"),
            "done",
        ]
        turn = await agent(script, backend, answering("x" * 80_001)).run("go")
        assert turn.messages[4].text == "x" * 80_001
        assert "c1 was not written" in caplog.text


async def test_results_beside_an_escalation_are_offloaded_as_any_other():
    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask the person."""
        ctx.record(TurnEscalated(0.0, "which?"))
        return "asked"

    script = [[ToolCall("ask", {}, "a"), ToolCall("report", {}, "c1")], "done"]
    turn = await agent(script, StateBackend(), ask, answering("x" * 80_001)).run("go")
    assert turn.status == "escalated"
    assert turn.messages[3].text.startswith("This result is too large to be shown")
    assert [entry.content for entry in turn.artifacts.values()] == ["x" * 80_001]


def test_without_virtual_mode_results_are_still_written_below_the_folder(tmp_path):
    _, files = result_of("x" * 80_001, FilesystemBackend(tmp_path, virtual_mode=False))
    assert files == [f"{tmp_path}/large_tool_results/{digest('t')}.c1"]
    assert (tmp_path / "large_tool_results" / f"{digest('t')}.c1").read_text() == "x" * 80_001


def test_parallel_results_have_a_file_each(backend):
    script = [[ToolCall("report", {}, "c1"), ToolCall("report", {}, "c2"), ToolCall("other", {}, "c3")], "done"]
    helper = agent(script, backend, answering("x" * 80_001), answering("y" * 80_001, "other"))
    turn = helper.run_sync("go", "t")
    assert sorted(turn.artifacts) == [place_of(backend, f"c{number}") for number in (1, 2, 3)]
    assert read(helper, backend, place_of(backend, "c3")) == ["y" * 79_500]


def test_a_repeated_call_id_does_not_overwrite_the_first_result(tmp_path):
    """On a disk, threads of one name in different stores may each have a call of this id."""
    backend = FilesystemBackend(tmp_path)
    for text in ("x" * 80_001, "y" * 80_001, "x" * 80_001):
        _, files = result_of(text, backend)
    assert files == [place_of(backend, "c1")]
    texts = sorted((file.name[17:20], file.read_text()[0]) for file in (tmp_path / "large_tool_results").iterdir())
    assert texts == [("c1", "x"), ("c1-", "y")]


async def test_threads_that_write_to_one_folder_at_once_never_read_each_others_results(tmp_path):
    """Servers exist that call the first call of every thread `call_0`."""

    @tool
    async def report(ctx: ToolContext) -> str:
        """Report."""
        return f"{ctx.thread_id} " * 20_000

    backend = FilesystemBackend(tmp_path)
    helper = agent(
        lambda request: "done" if len(request.messages) > 1 else ToolCall("report", {}, "call_0"), backend, report
    )
    turns = await asyncio.gather(*(helper.run("go", f"thread {number}") for number in range(8)))
    for number, turn in enumerate(turns):
        path = next(path for path in turn.artifacts if repr(path) in turn.messages[2].text)
        assert (tmp_path / path[1:]).read_text() == f"thread {number} " * 20_000


def test_the_store_keeps_an_offloaded_result_once_and_apart_from_the_events():
    store = MemoryCheckpointer()
    helper = agent([ToolCall("report", {}, "c1"), "done"], StateBackend(), answering(LINES[:90_000]), store=store)
    turn = helper.run_sync("go", "t")
    assert turn.costs.tool_chars < 2_000
    assert len(plain(store).keys("blob/", "blob0")) == 1
    assert helper.get_state("t").files["/large_tool_results/c1"].content is None
    assert helper.read_file("t", "/large_tool_results/c1") == LINES[:90_000]
    assert len(helper.spec.model.requests[1].messages[2].text) < 1_700


async def test_the_stream_reports_the_file_before_the_result():
    helper = agent([ToolCall("report", {}, "c1"), "done"], StateBackend(), answering("x" * 80_001))
    told = [event async for event in helper.stream("go", "t") if isinstance(event, FileWritten | ToolReturned)]
    assert [type(event) for event in told] == [FileWritten, ToolReturned]
    assert told[0].file in told[1].content


def test_a_subagents_results_are_stored_beside_its_parents():
    backend = StateBackend()
    child = agent([ToolCall("report", {}, "c1"), "x" * 80_002], backend, answering("x" * 80_001))
    about = Subagent(name="reader", description="reads")
    task = ToolCall("task", {"description": "read", "subagent_type": "reader"}, "t1")
    parent = Agent(
        ScriptedModel([task, "done"]),
        middleware=[FilesystemMiddleware(backend), SubAgentMiddleware([(about, child)]), OffloadMiddleware(backend)],
    )
    assert list(parent.run_sync("go").artifacts) == ["/large_tool_results/t1.c1", "/large_tool_results/t1"]


# ---- messages of a person


def test_a_large_message_is_kept_whole_and_shown_as_a_stub_in_every_turn(backend, store):
    text = LINES * 2
    first = agent(["read", "again"], backend, store=store)
    turn = first.run_sync((Text(text), PNG), "t")
    [path] = turn.artifacts
    first.run_sync("and now?", "t")
    again = agent(["after a restart"], backend, store=store)
    again.run_sync("and now?", "t")
    views = [*first.spec.model.requests, *again.spec.model.requests]
    shown = {view.messages[0] for view in views}
    assert shown == {UserMessage((Text(stub("This message", text, path)), PNG))}
    assert turn.messages[0] == again.get_state("t").messages[0] == UserMessage((Text(text), PNG))
    assert path.startswith("/conversation_history/message-")
    assert read(again, backend, path) == text.removesuffix("\n").split("\n")


@pytest.mark.parametrize(("size", "large"), [(200_000, False), (200_001, True)])
def test_a_message_is_large_above_50_000_tokens(size, large):
    assert bool(agent(["read"], StateBackend()).run_sync("x" * size).artifacts) is large


def test_a_message_that_cannot_be_written_is_shown_as_it_is():
    backend = StateBackend()
    script = [ToolCall("write_file", {"file_path": "/conversation_history", "content": ""}), "ready", "read"]
    helper = agent(script, backend)
    helper.run_sync("prepare", "t")
    helper.run_sync("x" * 200_001, "t")
    assert helper.spec.model.requests[-1].messages[4].text == "x" * 200_001


def test_messages_of_other_hooks_are_left_alone():
    class Reminder(Middleware):
        async def before_model(self, ctx, request):
            return structs.replace(request, messages=[*request.messages, UserMessage("remember")])

    for text in ("short", "x" * 200_001):
        model = ScriptedModel([ToolCall("report"), "done"])
        Agent(model, [answering("fine")], middleware=[Reminder(), OffloadMiddleware(StateBackend())]).run_sync(text)
        assert [message.text[:8] for message in model.requests[1].messages] == [
            "This mes" if len(text) > 5 else text,
            "",
            "fine",
            "remember",
        ]


# ---- tokens


@given(st.text())
def test_an_estimate_lies_between_a_quarter_of_a_token_and_the_most_for_each_character(text):
    assert len(text) / 4 <= tokens.of_text(text) <= len(text) * tokens.MAX_PER_CHARACTER


@given(st.lists(st.text(), max_size=5))
def test_parts_count_as_much_as_the_whole(parts):
    assert tokens.of_text("".join(parts)) == sum(map(tokens.of_text, parts))


@given(st.text(alphabet="ab字é\n"), st.floats(0, 50))
def test_a_text_is_made_to_fit(text, room):
    assert tokens.of_text(fitted(text, room)) <= room
    assert fitted(text, tokens.of_text(text)) == text


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (Text("字"), 1),
        (ToolCall("ping", {"a": "字"}, "c"), 4 + 1 + 3),
        (Thinking("hm", "x", b"signature"), 0.5),
        (Thinking("", "x", b"encrypted..."), 3),
        (PNG, 1600),
        (Audio(b"x" * 32_000), 32),
        (Audio(b"x" * 8_000, "audio/mpeg"), 32),
        (Video(b"x" * 149_910), 263),
        (Document(b"x" * 100_000), 6400),
        (Document(b"x" * 400, "text/plain"), 100),
        (MediaLink("https://example.com/a.png", "image/png"), 1600),
        (MediaLink("https://example.com/a.pdf", "application/pdf"), 16_000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_block_counts(block, expected):
    assert tokens.of_message(AssistantMessage((block,))) == 4 + expected
