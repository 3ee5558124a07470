"""The model that the command finds on this machine: real servers on loopback, good, slow and hostile ones."""

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness.providers import sse
from harness.terminal import at_a_terminal, minideep
from harness.wires import chat

from minideep.cli import discovery
from minideep.cli.discovery import Found, find, loopback

PATIENT = 20.0
"""Seconds: the machine may be slow, and a server that answers is not waited for."""


@contextlib.contextmanager
def serving(routes):
    """A server of *routes*: a path, and for `/api/show` the model behind it, to JSON or to an `Answer`."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            self.answer(None)

        def do_POST(self):
            self.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def answer(self, body):
            path = f"{self.path} {body['model']}" if self.path == "/api/show" else self.path
            asked.append((path, body))
            found = routes.get(path)
            content = found.body if hasattr(found, "body") else json.dumps(found).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("content-type", getattr(found, "headers", {}).get("content-type", "application/json"))
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 50  # Some ask for many models at once.

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def raw(*parts, pause=0.0, hold=False):
    """A server that says *parts* to everybody, whatever it is asked, and hangs up; with *hold* it never does."""
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve(connection):
        with contextlib.suppress(OSError), connection:
            connection.recv(65536)  # Hanging up on what is not read would take the answer back.
            for part in parts:
                connection.sendall(part)
                ended.wait(pause)
            if hold:
                ended.wait()

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        ended.set()
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def tags(*names, **fields):
    return {"models": [{"name": name, "model": name} | fields for name in names]}


def can(*words):
    return {"capabilities": list(words)}


def found_at(url, *, name="ollama"):
    found = find({name: url}, PATIENT)
    return found and found.model


# ---- Ollama


def test_the_first_model_of_ollama_that_can_call_tools_is_taken():
    routes = {
        "/api/tags": tags("gemma3", "qwen3:8b", "llama3"),
        "/api/show gemma3": can("completion", "vision"),
        "/api/show qwen3:8b": can("completion", "tools"),
        "/api/show llama3": can("completion", "tools"),
    }
    with serving(routes) as (url, asked):
        assert find({"ollama": url}, PATIENT) == Found("ollama:qwen3:8b", f"Ollama at {url[7:-3]}")
    assert sorted(path for path, _ in asked) == sorted(routes)


def test_a_list_that_says_what_models_can_do_is_enough():
    listed = {"models": tags("a", **can("completion"))["models"] + tags("b", **can("completion", "tools"))["models"]}
    with serving({"/api/tags": listed}) as (url, asked):
        assert found_at(url) == "ollama:b"
    assert len(asked) == 1


@pytest.mark.parametrize(
    "listed",
    [
        tags("big:cloud", **can("tools")),
        tags("big:120b-cloud", **can("tools")),
        tags("mine", remote_host="https://ollama.com", **can("tools")),
        tags("mine", remote_model="big", **can("tools")),
    ],
)
def test_a_model_that_runs_in_the_cloud_is_not_on_this_machine(listed):
    with serving({"/api/tags": listed}) as (url, _):
        assert found_at(url) is None


def test_of_many_models_only_some_are_asked():
    names = [f"m{number}" for number in range(50)]
    with serving({"/api/tags": tags(*names)} | {f"/api/show {name}": can() for name in names}) as (url, asked):
        assert found_at(url) is None
    assert len(asked) == 1 + discovery.MAX_ASKED


# ---- LM Studio


def lm(version, *models):
    """The list of models of LM Studio, each a (name, type, can call tools, is loaded)."""
    if version == 1:
        entries = [
            {
                "key": name,
                "type": kind,
                "capabilities": {"trained_for_tool_use": able},
                "loaded_instances": [{}] * loaded,
            }
            for name, kind, able, loaded in models
        ]
        return {"/api/v1/models": {"models": entries}}
    entries = [
        {"id": name, "type": kind, "state": "loaded" if loaded else "not-loaded"} | (can("tool_use") if able else {})
        for name, kind, able, loaded in models
    ]
    return {"/api/v0/models": {"object": "list", "data": entries}}


@pytest.mark.parametrize("version", [0, 1])
def test_a_loaded_model_of_lm_studio_goes_before_others_and_must_call_tools_itself(version):
    models = [
        ("nomic-embed", "embedding", True, True),
        ("gemma", "llm", False, True),
        ("qwen/qwen3-8b", "llm", True, False),
        ("qwen/qwen3-vl", "vlm", True, True),
    ]
    with serving(lm(version, *models)) as (url, _):
        assert found_at(url, name="lmstudio") == "lmstudio:qwen/qwen3-vl"
    with serving(lm(version, *models[:3])) as (url, _):
        assert found_at(url, name="lmstudio") == "lmstudio:qwen/qwen3-8b"
    with serving(lm(version, *models[:2])) as (url, _):
        assert found_at(url, name="lmstudio") is None


def test_ollama_goes_first_and_lm_studio_second():
    with serving({"/api/tags": tags("a", **can("tools"))}) as (one, _), serving(lm(0, ("b", "llm", 1, 1))) as (two, _):
        assert find({"ollama": one, "lmstudio": two}, PATIENT).model == "ollama:a"
        with serving({"/api/tags": tags()}) as (empty, _):
            assert find({"ollama": empty, "lmstudio": two}, PATIENT).model == "lmstudio:b"


# ---- what cannot be trusted


OK = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize("name", ["ollama", "lmstudio"])
@pytest.mark.parametrize("parts", [(), (OK,), (b"HTTP/1.1 ",)], ids=["nothing", "head", "half a head"])
def test_a_server_that_never_answers_costs_the_budget_and_no_more(name, parts):
    with raw(*parts, hold=True) as url, raw(hold=True) as other:
        begun = time.monotonic()
        assert find({"lmstudio": other, name: url}, 0.05) is None
        assert time.monotonic() - begun < PATIENT  # A hang would be for ever: this bounds no speed.


def test_a_silent_server_does_not_hide_one_that_answers():
    with raw(hold=True) as silent, serving(lm(1, ("b", "llm", True, True))) as (url, _):
        assert find({"ollama": silent, "lmstudio": url}, 1.0).model == "lmstudio:b"


@pytest.mark.parametrize(
    "parts",
    [
        (OK + b'{"models": [',) + (b'{"name": "a", "capabilities": ["tools"]},' * 2000,) * 15 + (b"{}]}",),
        (OK + b"[" * 900_000,),
        (OK + b'{"models": {"name": "a"}}',),
        (OK + b'{"models": [7, null, {"name": 7}, {"name": []}, {"name": "a", "capabilities": {"tools": 1}}]}',),
        (OK + b"\xff\xfe\x00",),
        (b"\x00" * 100_000,),
        (b"SSH-2.0-OpenSSH_9.6\r\n",),
        (b"HTTP/1.1 500 Oops\r\n\r\n" + json.dumps(tags("a", **can("tools"))).encode(),),
        (b"",),
    ],
    ids=["huge", "deep", "no list", "odd entries", "no text", "zeros", "another protocol", "an error", "nothing"],
)
def test_what_is_no_list_of_models_is_passed_over(parts):
    with raw(*parts) as url:
        assert find({"ollama": url, "lmstudio": url}, PATIENT) is None


@pytest.mark.parametrize(
    "name", ["\x1b[2Jx", "a\nb", "a b", "", "-rf", "x" * 300, "a\u202eb", "é", "a'b", 7, None, ["a"]]
)
def test_a_name_that_is_not_a_plain_word_is_never_taken_nor_shown(name):
    listed = {"models": [{"name": name} | can("tools"), {"name": "good"} | can("tools")]}
    with serving({"/api/tags": listed}) as (url, _):
        assert found_at(url) == "ollama:good"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://127.0.0.1:11434/v1", ("127.0.0.1", 11434)),
        ("http://localhost:1/v1", ("127.0.0.1", 1)),
        ("http://[::1]:9/v1", ("::1", 9)),
        ("http://127.9.9.9/v1", ("127.9.9.9", 80)),
        ("http://192.168.0.5:11434/v1", None),
        ("http://127.0.0.1.evil.example:1/v1", None),
        ("http://localhost.evil.example:1/v1", None),
        ("http://me@box:1/v1", None),
        ("https://127.0.0.1:1/v1", None),
        ("http://0.0.0.0:1/v1", None),
    ],
)
def test_only_this_machine_is_looked_at(url, place):
    assert loopback(url) == place


# ---- the command


STREAM = sse(*chat.events(chat.said("Here is a local model.")))


def test_at_a_terminal_the_command_takes_the_model_that_it_finds_and_says_which(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    routes = {"/api/tags": tags("qwen3:8b", **can("completion", "tools")), "/v1/chat/completions": STREAM}
    with serving(routes) as (url, asked):
        env = {"OLLAMA_HOST": url[7:-3]}
        for attempt in range(5):  # The machine may be too busy to answer within the budget.
            code, shown = at_a_terminal("run", "Say hello", "--thread", f"t{attempt}", cwd=folder, env=env)
            if "using ollama:" in shown:
                break
    assert (
        "minideep: no --model and no ANTHROPIC_API_KEY or OPENAI_API_KEY: "
        f"using ollama:qwen3:8b, which can call tools, of Ollama at {url[7:-3]}\n"
    ) in shown
    assert "Here is a local model." in shown
    assert "$0.0000" in shown
    assert code == 0
    assert asked[-1][1]["model"] == "qwen3:8b"


def test_nothing_is_looked_for_without_a_terminal_with_a_key_or_with_a_model(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    with serving({"/api/tags": tags("a", **can("tools"))}) as (url, asked):
        env = {"OLLAMA_HOST": url[7:-3], "LMSTUDIO_BASE_URL": url}
        run = minideep("run", "hello", cwd=folder, env=env)
        assert "using offline:, a stand-in without a language model\n" in run.stderr
        (folder / "empty").mkdir()
        assert at_a_terminal("run", "hello", "--model", "offline:", cwd=folder / "empty", env=env)[0] == 0
        keys = env | {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": url}
        _, shown = at_a_terminal("run", "hello", cwd=folder, env=keys)
        assert "model openai:gpt-5" in shown
    assert [path for path, _ in asked] == ["/v1/responses"]


def test_where_nothing_is_found_it_is_the_stand_in(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    _, shown = at_a_terminal("run", "hello", cwd=folder, env={"OLLAMA_HOST": "http://nonsense:port"})
    assert (
        "using offline:, a stand-in without a language model; neither Ollama nor LM Studio has a model here that can "
        "call tools\n"
    ) in shown
