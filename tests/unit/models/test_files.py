"""Files that are uploaded once, and tokens that the provider counts: the real SDKs, and a server on loopback."""

import json
from contextlib import asynccontextmanager

import pytest
from harness.providers import Provider, json_answer
from harness.wires import FORMATS, WIRES, connected, plain_ls

from minideep import Agent, ConfigError, Document, Image, ModelError, UserMessage
from minideep.messages import ProviderBlock
from minideep.ports import Request

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
FILE = {"id": "file_1", "object": "file", "bytes": 1, "created_at": 1, "filename": "f", "purpose": "user_data",
        "status": "processed", "mime_type": "application/pdf", "size_bytes": 1, "type": "file"}  # fmt: skip
DOCUMENTS = {
    "anthropic": {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
    "openai": {"type": "input_file", "file_id": "file_1"},
    "openai-chat": {"type": "file", "file": {"file_id": "file_1"}},
}
IMAGES = {
    "anthropic": {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    "openai": {"type": "input_image", "file_id": "file_1", "detail": "auto"},
}


@asynccontextmanager
async def serving(kind, *answers, **settings):
    with Provider(*answers) as provider:
        async with connected(kind, provider.url, **settings) as model:
            yield provider, model


def parts(kind, body):
    return body["input" if kind == "openai" else "messages"][0]["content"]


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_document_is_uploaded_once_and_named_by_its_id_in_every_request(kind):
    wire = WIRES[kind]
    answers = json_answer(FILE), *[wire.answer(wire.said("ok"), False)] * 2
    async with serving(kind, *answers) as (provider, model):
        block = await model.upload(Document(b"%PDF-1.4 x", name="a.pdf"))
        agent = Agent(model)
        await agent.run([block], "t")
        await agent.run("and now?", "t")
    assert provider.paths[0].endswith("/files")
    assert provider.bodies[0]["content-type"].startswith("multipart/form-data")
    assert b'filename="a.pdf"' in provider.bodies[0]["sent"]
    assert [parts(kind, body)[0] for body in provider.bodies[1:]] == [DOCUMENTS[kind]] * 2


@pytest.mark.parametrize("kind", IMAGES)
async def test_an_image_is_uploaded_too(kind):
    wire = WIRES[kind]
    async with serving(kind, json_answer(FILE), wire.answer(wire.said("ok"), False)) as (provider, model):
        block = await model.upload(Image(PNG))
        await Agent(model).run([block])
    assert parts(kind, provider.bodies[1]) == [IMAGES[kind]]


@pytest.mark.parametrize("kind", IMAGES)
async def test_a_wrong_label_is_corrected_before_the_upload(kind):
    async with serving(kind, json_answer(FILE)) as (provider, model):
        await model.upload(Image(PNG, "image/jpeg"))
    assert b"image/png" in provider.bodies[0]["sent"]
    assert b"image/jpeg" not in provider.bodies[0]["sent"]


async def test_chat_completions_takes_no_uploaded_image():
    async with serving("openai-chat") as (_, model):
        with pytest.raises(ConfigError, match="takes uploaded documents only"):
            await model.upload(Image(PNG))


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_file_of_one_provider_is_not_sent_to_another(kind):
    wire = WIRES[kind]
    other = ProviderBlock("elsewhere", json.dumps(DOCUMENTS[kind]).encode())
    async with serving(kind, wire.answer(wire.said("ok"), False)) as (provider, model):
        await Agent(model).run(UserMessage((*UserMessage("look").blocks, other)))
    assert "file_1" not in json.dumps(provider.bodies[0])


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_refused_upload_is_the_models_error(kind):
    async with serving(kind, WIRES[kind].refusal(413, "too_large", "the file is too large")) as (_, model):
        with pytest.raises(ModelError, match="the file is too large"):
            await model.upload(Document(b"%PDF-1.4 x"))


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_the_provider_counts_the_tokens_of_a_request(kind):
    settings = {"thinking": {"type": "adaptive"}} if kind == "anthropic" else {"reasoning": {"effort": "low"}}
    request = Request("Be brief.", (UserMessage("hello"),), (plain_ls,))
    async with serving(kind, json_answer({"input_tokens": 1234}), **settings) as (provider, model):
        assert await model.count_tokens(request) == 1234
    (path,), (body,) = provider.paths, provider.bodies
    assert path == {"anthropic": "/v1/messages/count_tokens", "openai": "/responses/input_tokens"}[kind]
    assert {"model", "tools", *settings} < set(body)
    assert not {"max_tokens", "store", "include", "stream"} & set(body)


@pytest.mark.parametrize("said", [{}, {"input_tokens": None}, {"input_tokens": -1}])
async def test_an_answer_without_a_count_is_an_error(said):
    async with serving("anthropic", json_answer(said)) as (_, model):
        with pytest.raises(ModelError, match="should hold input_tokens"):
            await model.count_tokens(Request("", (UserMessage("hello"),)))


async def test_an_api_that_counts_no_tokens_says_so():
    async with serving("openai-chat") as (_, model):
        with pytest.raises(ConfigError, match="this API counts no tokens"):
            await model.count_tokens(Request("", (UserMessage("hello"),)))
