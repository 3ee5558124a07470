"""Many runs share one model whose requests go as batches: the real SDKs, and a server that keeps batches on loopback."""

import asyncio
import json
import re
import threading
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness.oracle import faults
from harness.wires import chat, claude, responses

from minideep import Agent, ConfigError, Limits, ModelError, tool
from minideep.events import TextDelta
from minideep.messages import UserMessage
from minideep.models import Anthropic, BatchModel, OpenAI, OpenAIChat, Price, ScriptedModel
from minideep.ports import Request

PATHS = {"anthropic": "/v1/messages", "openai": "/responses", "openai-chat": "/chat/completions"}
KINDS = list(PATHS)
FAST = {"max_wait": 0.05, "poll": 0.01}
PRICE = Price(1_000_000, 0)


class Server:
    """A server that keeps batches; each is ended at the second question about it."""

    def __init__(self, kind):
        self.kind, self.batches, self.files, self.asked, self.failing = kind, {}, {}, [], 0
        self.cancelled, self.slow = threading.Event(), False
        self.faults = []
        handler = type("Handler", (_Handler,), {"at": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        assert self.faults == []

    # ---- what it knows

    def submit(self, bodies):
        """Keep a batch; return its id."""
        name = f"batch_{len(self.batches)}"
        self.faults += [
            fault for body in bodies.values() for fault in faults(json.dumps(body).encode(), PATHS[self.kind])
        ]
        self.batches[name] = bodies
        self.asked.append(0)
        return self.state(name)

    def state(self, name, ended=False):
        if self.kind == "anthropic":
            counts = dict.fromkeys(["processing", "succeeded", "errored", "canceled", "expired"], 0)
            return {"id": name, "type": "message_batch", "processing_status": "ended" if ended else "in_progress",
                    "request_counts": counts, "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-02T00:00:00Z",
                    "results_url": f"{self.url}/v1/messages/batches/{name}/results" if ended else None}  # fmt: skip
        state = {"id": name, "object": "batch", "status": "completed" if ended else "in_progress", "endpoint": "/v1/x",
                 "created_at": 1, "completion_window": "24h", "input_file_id": "f"}  # fmt: skip
        return state | ({"output_file_id": f"out_{name}", "error_file_id": f"bad_{name}"} if ended else {})

    def poll(self, name):
        at = int(name.partition("_")[2])
        self.asked[at] += 1
        return self.state(name, ended=self.asked[at] > 1 and not self.slow)

    def results(self, name, of=("good", "bad")):
        lines = []
        for custom_id, body in self.batches[name].items():
            said = str(body)
            if "be lost" in said:
                continue
            if ("be refused" in said) == ("bad" in of and "good" not in of) or len(of) == 2:
                lines.append(self.result(custom_id, said))
        return "\n".join(json.dumps(line) for line in lines)

    def result(self, custom_id, said):
        error = {"type": "invalid_request_error", "message": "not like this"}
        job = re.search(r"job (\d+)", said)
        text = f"done {job[1]}" if job else "done"
        if self.kind == "anthropic":
            if "be refused" in said:
                return {
                    "custom_id": custom_id,
                    "result": {"type": "errored", "error": {"type": "error", "error": error}},
                }
            if "be expired" in said:
                return {"custom_id": custom_id, "result": {"type": "expired"}}
            message = claude.message(claude.text(text), service_tier="batch")
            return {"custom_id": custom_id, "result": {"type": "succeeded", "message": message}}
        if "be refused" in said or "be expired" in said:
            return {"id": "r", "custom_id": custom_id, "response": {"status_code": 400, "body": {"error": error}}}
        wire = responses if self.kind == "openai" else chat
        return {"id": "r", "custom_id": custom_id, "response": {"status_code": 200, "body": wire.said(text)}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        at, sent = self.at, self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.endswith("/cancel"):
            at.cancelled.set()
            name = self.path.split("/")[-2]
            self.say(at.state(name))
        elif self.path.endswith("/files"):
            name = f"file_{len(at.files)}"
            at.files[name] = re.search(rb"\r\n\r\n(\{.*\})\r\n", sent, re.DOTALL)[1]
            self.say({"id": name, "object": "file", "bytes": 1, "created_at": 1, "filename": "f", "purpose": "batch",
                      "status": "processed"})  # fmt: skip
        elif at.kind == "anthropic":
            self.say(at.submit({one["custom_id"]: one["params"] for one in json.loads(sent)["requests"]}))
        else:
            lines = map(json.loads, at.files[json.loads(sent)["input_file_id"]].splitlines())
            self.say(at.submit({line["custom_id"]: line["body"] for line in lines}))

    def do_GET(self):
        at = self.at
        if at.failing:
            at.failing -= 1
            self.say({"error": {"message": "out of order"}}, 500)
        elif self.path.endswith("/results"):
            self.say(at.results(self.path.split("/")[-2]))
        elif self.path.endswith("/content"):
            kind, _, name = self.path.split("/")[-2].partition("_")
            self.say(at.results(name, ("good",) if kind == "out" else ("bad",)))
        else:
            self.say(at.poll(self.path.split("/")[-1]))

    def say(self, body, status=200):
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("content-type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


@asynccontextmanager
async def batching(kind, name="x", price=PRICE, **settings):
    with Server(kind) as server:
        if kind == "anthropic":
            client = claude.connected(server.url)
            model = Anthropic(name, client=client, price=price)
        else:
            client = responses.connected(f"{server.url}/v1")
            model = (OpenAI if kind == "openai" else OpenAIChat)(name, client=client, price=price)
        async with client:
            yield server, BatchModel(model, **FAST | settings)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_requests_of_many_runs_are_one_batch_and_each_run_has_its_own_answer(kind):
    async with batching(kind) as (server, model):
        agents = [Agent(model) for _ in range(5)]
        turns = await asyncio.gather(*(agent.run(f"job {n}") for n, agent in enumerate(agents)))
        assert [turn.text for turn in turns] == [f"done {n}" for n in range(5)]
        (batch,) = server.batches.values()
        assert len(batch) == 5
        assert all("stream" not in body for body in batch.values())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_full_batch_is_sent_at_once_and_the_next_request_begins_another(kind):
    async with batching(kind, max_size=2, max_wait=60.0) as (server, model):
        turns = await asyncio.gather(*(Agent(model).run(f"job {n}") for n in range(4)))
        assert [turn.text for turn in turns] == [f"done {n}" for n in range(4)]
        assert [len(batch) for batch in server.batches.values()] == [2, 2]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_that_is_refused_expired_or_lost_fails_its_own_run(kind):
    async with batching(kind) as (_, model):
        texts = ["job 1", "be refused", "be expired", "be lost"]
        fine, refused, expired, lost = await asyncio.gather(*(Agent(model).run(text) for text in texts))
        assert fine.text == "done 1"
        assert "not like this" in str(refused.error)
        assert expired.status == lost.status == "failed"
        assert "the batch has ended without an answer to this request" in str(lost.error)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_provider_that_is_out_of_reach_for_a_while_costs_no_answer(kind):
    async with batching(kind) as (server, model):
        server.failing = 3
        assert (await Agent(model).run("job 1")).text == "done 1"


@pytest.mark.parametrize("kind", KINDS)
async def test_when_all_runs_are_cancelled_so_is_the_batch(kind):
    async with batching(kind) as (server, model):
        server.slow = True
        turns = await asyncio.gather(*(Agent(model, limits=Limits(seconds=0.3)).run("job") for _ in range(2)))
        assert {turn.status for turn in turns} == {"exhausted"}
        assert await asyncio.to_thread(server.cancelled.wait, 10)


async def test_a_run_that_is_cancelled_leaves_the_others_alone():
    async with batching("anthropic") as (server, model):
        going = asyncio.create_task(Agent(model).run("job 1"))
        leaving = asyncio.create_task(Agent(model).run("job 2"))
        await asyncio.sleep(0.01)
        leaving.cancel()
        assert (await going).text == "done 1"
        assert not server.cancelled.is_set()
        with pytest.raises(asyncio.CancelledError):
            await leaving


@pytest.mark.parametrize("kind", KINDS)
async def test_listeners_have_the_text_at_once(kind):
    async with batching(kind) as (_, model):
        told = []
        reply = await model.complete(Request("", (UserMessage("job 7"),)), told.append)
        assert (told, reply.message.text) == ([TextDelta("done 7")], "done 7")


@pytest.mark.parametrize(("kind", "name"), [("anthropic", "claude-sonnet-5-5"), ("openai", "gpt-6.1-sol")])
async def test_a_batch_costs_half_of_the_listed_price(kind, name):
    async with batching(kind, name, None) as (_, model):
        reply = await model.complete(Request("", (UserMessage("job 1"),)), None)
        assert reply.cost == pytest.approx((7 * 2 + 3 * 10) / 2e6)  # Both cost 2 and 10 dollars.


async def test_a_batch_that_cannot_be_sent_is_the_error_of_each_run():
    async with batching("anthropic") as (server, model):
        server.__exit__()
        turns = await asyncio.gather(*(Agent(model).run("job") for _ in range(2)))
        assert ["APIConnectionError" in str(turn.error) for turn in turns] == [True, True]
        assert all(isinstance(turn.error, ModelError) and turn.error.transient for turn in turns)


def test_each_event_loop_has_batches_of_its_own():
    async def once():
        async with batching("anthropic") as (_, model):
            return (await Agent(model).run("job 3")).text

    assert [asyncio.run(once()) for _ in range(2)] == ["done 3"] * 2


async def test_the_calls_of_a_reply_run_and_the_next_step_is_in_the_next_batch():
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with batching("openai-chat") as (server, model):
        turn = await Agent(model, [add]).run("job 4")
        assert turn.text == "done 4"
        assert next(iter(server.batches["batch_0"].values()))["tools"][0]["function"]["name"] == "add"


def test_only_an_adapter_has_batches():
    with pytest.raises(ConfigError, match="must be an Anthropic, OpenAI or OpenAIChat, not "):
        BatchModel(ScriptedModel(["hi"]))
