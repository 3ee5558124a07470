"""Media by their addresses: the real SDKs, and a server on loopback that is shown to the oracle."""

from base64 import b64encode

import pytest
from anthropic import AsyncAnthropicBedrock
from harness.media import PDF, PNG
from harness.providers import Provider
from harness.stores import plain
from harness.wires import FORMATS, WIRES, connected, reply

from minideep import (
    Agent,
    AssistantMessage,
    ConfigError,
    Document,
    Image,
    MediaLink,
    MemoryCheckpointer,
    Text,
    UserMessage,
    tool,
)
from minideep.models import Anthropic, FallbackModel, OpenAI, OpenAIChat, ScriptedModel
from minideep.models.anthropic.blocks import blocks_of

PHOTO, PLAN = "https://example.com/photo.PNG", "https://example.com/plan?as=pdf"
NOTES = "https://example.com/notes.md"
IMAGE, FILE = MediaLink(PHOTO), MediaLink(PLAN, "application/pdf")
NO_NOTES = {"type": "text", "text": f"[not shown: text/markdown at {NOTES}]"}
SENT = {
    "anthropic": [
        {"type": "image", "source": {"type": "url", "url": PHOTO}},
        {"type": "document", "source": {"type": "url", "url": PLAN}},
        NO_NOTES,
    ],
    "openai": [
        {"type": "input_image", "image_url": PHOTO, "detail": "auto"},
        {"type": "input_file", "file_url": PLAN},
        {"type": "input_file", "file_url": NOTES},
    ],
    "openai-chat": [
        {"type": "image_url", "image_url": {"url": PHOTO}},
        {"type": "text", "text": f"[not shown: application/pdf at {PLAN}]"},
        NO_NOTES,
    ],
}


def user_parts(kind, body):
    return body["input" if kind == "openai" else "messages"][-1]["content"]


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_link_is_sent_as_an_address_or_a_text_says_that_it_is_not_shown(kind):
    wire, store = WIRES[kind], MemoryCheckpointer()
    # As if the thread came from a model that takes all of them.
    agent = Agent(ScriptedModel(["seen"]), checkpointer=store)
    await agent.run([Text("Look."), IMAGE, FILE, MediaLink(NOTES)], "t")
    with Provider(wire.answer(wire.said("ok"), False)) as provider:
        async with connected(kind, provider.url) as model:
            turn = await Agent(model, checkpointer=store).run("and now?", "t")
    assert turn.text == "ok"
    (body,) = provider.bodies
    first = body["input" if kind == "openai" else "messages"][0]["content"]
    assert first[1:] == SENT[kind]


@pytest.mark.parametrize("kind", FORMATS)
async def test_an_image_by_its_address_goes_to_every_provider(kind):
    wire = WIRES[kind]
    with Provider(wire.answer(wire.said("ok"), False)) as provider:
        async with connected(kind, provider.url) as model:
            turn = await Agent(model).run([IMAGE])
    assert turn.text == "ok"
    assert user_parts(kind, provider.bodies[0]) == SENT[kind][:1]


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_tool_may_answer_with_a_link(kind):
    @tool
    async def ls() -> tuple[Text, MediaLink]:
        """Find the photo."""
        return Text("Here."), IMAGE

    with Provider(reply(kind, ("c1", {})), reply(kind, text="ok")) as provider:
        async with connected(kind, provider.url) as model:
            turn = await Agent(model, [ls]).run("find it")
    assert turn.text == "ok"
    assert turn.messages[2].content == (Text("Here."), MediaLink(PHOTO, "image/png"))
    assert str(SENT[kind][0])[1:-1] in str(provider.bodies[1])


@pytest.mark.parametrize(
    ("model", "link"),
    [
        (OpenAIChat("m", api_key="k"), FILE),
        (Anthropic("m", api_key="k"), MediaLink("https://example.com/notes.md")),
        (Anthropic("m", client=AsyncAnthropicBedrock(aws_region="x", aws_access_key="k", aws_secret_key="s")), IMAGE),
        (FallbackModel([OpenAIChat("m", api_key="k"), OpenAI("m", api_key="k")]), FILE),
    ],
    ids=["chat", "anthropic", "a cloud", "fallback"],
)
@pytest.mark.parametrize("form", [list, UserMessage, lambda blocks: [UserMessage(blocks), UserMessage("well?")]])
async def test_what_the_model_does_not_fetch_is_refused_before_anything_is_recorded(model, link, form):
    store = MemoryCheckpointer()
    with pytest.raises(ConfigError, match=r"does not fetch; fetch it and give its bytes, or .* load_media\(path\)"):
        await Agent(model, checkpointer=store).run(form((Text("Look."), link)), "t")
    assert plain(store).keys("", "\x7f") == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        (MediaLink("photo.png"), "give an address that begins with https://"),
        (MediaLink("ftp://example.com/a.png"), "give an address that begins with https://"),
        (MediaLink("https://[bad/a.png"), "give an address that begins with https://"),
        (MediaLink("https://example.com/a b.png"), "give an address that begins with https://"),
        (MediaLink("https://example.com:abc/a.png"), "give an address that begins with https://"),
        (MediaLink("data:text/plain,"), "a data URL that is empty"),
        (MediaLink("https://example.com/photo"), 'say it: MediaLink\\(url, "image/png"\\)'),
        (MediaLink("https://example.com/a.mp3"), "of type audio/mpeg.* fetch it and give its bytes"),
        (MediaLink("https://example.com/a.mp4"), "of type video/mp4.* fetch it and give its bytes"),
        (MediaLink("https://example.com/a.svg"), "of type image/svg.xml"),
        (MediaLink("data:image/png;base64,!!!"), "cannot be decoded"),
        (MediaLink("data:image/png"), "cannot be decoded"),
        (MediaLink("data:image/bmp;base64,Qk06AAAAAAAAADYAAAA="), "an image of type image/bmp"),
        (MediaLink("data:application/zip;base64,UEsDBP8="), "no known type"),
        (MediaLink(f"data:text/plain,{'x' * 10_000_001}"), "a data URL of 10,000,001 bytes, more than the 10,000,000"),
        (MediaLink(5), "url must be text, not 5"),
    ],
)
async def test_a_link_that_nobody_takes_is_refused_with_the_remedy(link, problem):
    with pytest.raises(ConfigError, match=problem):
        await Agent("offline:").run([Text("Look."), link])


@pytest.mark.parametrize("address", ["https://me:sesame99@example.com/a.png", "ftp://sesame99@[bad/a.png"])
async def test_a_link_with_a_password_is_refused_and_not_shown(address):
    with pytest.raises(ConfigError, match="a password in its address; fetch it") as refused:
        await Agent("offline:").run([Text("Look."), MediaLink(address)])
    assert "sesame99" not in str(refused.value)


async def test_a_data_url_becomes_the_block_that_it_holds():
    given = [
        MediaLink(f"data:image/jpeg;base64,{b64encode(PNG).decode()}"),  # Labelled as its bytes are.
        MediaLink(f"DATA:;base64,{b64encode(PDF).decode()}"),
        MediaLink("data:text/plain,two%20words"),
    ]
    turn = await Agent("offline:").run(given)
    assert turn.messages[0].content == (Image(PNG), Document(PDF), Document(b"two words", "text/plain"))


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_link_that_a_history_ascribes_to_the_model_is_not_sent_as_its_own(kind):
    wire = WIRES[kind]
    earlier = [UserMessage("draw"), AssistantMessage((Text("Here."), IMAGE)), UserMessage("and now?")]
    with Provider(wire.answer(wire.said("ok"), False)) as provider:
        async with connected(kind, provider.url) as model:
            assert (await Agent(model).run(earlier)).text == "ok"
    assert PHOTO not in str(provider.bodies)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_link_that_a_hook_shows_is_not_sent_if_no_api_fetches_its_type(kind):
    song = MediaLink("https://example.com/song.mp3", "audio/mpeg")
    body = WIRES[kind].sent(UserMessage((Text("Listen."), song)))
    assert "[not shown: audio/mpeg at https://example.com/song.mp3]" in str(body)


def test_a_cloud_of_anthropic_is_told_what_it_does_not_see():
    said = UserMessage((Text("Look."), MediaLink(PHOTO, "image/png")))
    assert f"[not shown: image/png at {PHOTO}]".encode() in b"".join(blocks_of(said, "anthropic", ()).parts)
