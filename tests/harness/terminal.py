r"""Runs `minideep` in tests: in a process of its own or at a pseudo-terminal, with a scripted model on loopback.

    with scripted([call("write_file", file_path="/a.md", content="x")], "Done.") as env:
        minideep("run", "Change a.md", cwd=folder, env=env)               # nobody can be asked
        at_a_terminal("run", "Change a.md", cwd=folder, env=env, typed="y\n")   # a person types

Threads are kept beside *cwd*, in `state/`, unless *env* says otherwise. `minideep` runs each command in a fork of one
process that has imported everything: hundreds of commands would otherwise spend their time on imports.
"""

import atexit
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

from harness.providers import Provider, sse
from minideep.cli import main

ENV = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")} | {"COLUMNS": "100"}
ENV |= {"OLLAMA_HOST": "127.0.0.1:9", "LMSTUDIO_BASE_URL": "http://127.0.0.1:9/v1"}  # Where nothing listens.
ENV.pop("XDG_STATE_HOME", None)
_ids = count(1)


def process(args, cwd, env):
    """Return the arguments of `Popen` that start `minideep`."""
    env = {"XDG_STATE_HOME": str(Path(cwd).resolve().parent / "state")} | ENV | (env or {})
    return {"args": [sys.executable, "-m", "minideep", *args], "cwd": cwd, "env": env}


class Ran(NamedTuple):
    """The outcome of a command."""

    returncode: int
    stdout: str
    stderr: str


def minideep(*args, cwd, env=None):
    """Run a command without a terminal, to its end."""
    about = process(args, cwd, env)
    _server().stdin.write(json.dumps([args, str(about["cwd"]), about["env"]]) + "\n")
    _server().stdin.flush()
    return Ran(*json.loads(_server().stdout.readline()))


@cache
def _server():
    server = subprocess.Popen(
        [sys.executable, "-m", "harness.terminal"],
        env=ENV,
        text=True,
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(server.communicate)  # Closing its input ends it.
    return server


def serve():
    """Run a command for each line of input, in a child that has 60 seconds."""
    from minideep.cli import commands

    assert commands
    for line in sys.stdin:
        args, cwd, env = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            if not (child := os.fork()):
                _become(args, cwd, env, out, err)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said = [os.pread(file.fileno(), 10**8, 0).decode(errors="replace") for file in (out, err)]
        print(json.dumps([code, *said]), flush=True)


def _become(args, cwd, env, out, err):
    signal.alarm(60)
    for ours, theirs in ((os.open(os.devnull, os.O_RDONLY), 0), (out.fileno(), 1), (err.fileno(), 2)):
        os.dup2(ours, theirs)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    code = 1
    try:
        code = main(args)
    except SystemExit as exc:
        code = exc.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def at_a_terminal(*args, cwd, env=None, typed="", stderr=None):
    """Run a command at a terminal where *typed* is typed; return its exit code and everything that was shown.

    Its errors go into the file *stderr*, if that is given.
    """
    ours, theirs = pty.openpty()
    with subprocess.Popen(**process(args, cwd, env), stdin=theirs, stdout=theirs, stderr=stderr or theirs) as run:
        os.close(theirs)
        os.write(ours, typed.encode())
        timer = threading.Timer(60, run.kill)
        timer.start()
        shown = b""
        with contextlib.suppress(OSError):  # Linux raises EIO when the other side is closed.
            while part := os.read(ours, 65536):
                shown += part
        run.wait()
        timer.cancel()
    os.close(ours)
    return run.returncode, shown.decode(errors="replace").replace("\r\n", "\n")


def call(name, **args):
    """Return a tool call in the form of Chat Completions."""
    return {"id": f"call{next(_ids)}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}


@contextlib.contextmanager
def scripted(*replies):
    """Yield an environment for the model `openai-chat:script`, which answers with *replies*: texts, or lists of calls."""
    with Provider(*map(_answer, replies)) as provider:
        yield {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": provider.url}


def _answer(reply):
    if isinstance(reply, str):
        delta, finish = {"content": reply}, "stop"
    else:
        delta, finish = {"tool_calls": [one | {"index": index} for index, one in enumerate(reply)]}, "tool_calls"
    chunk = {"choices": [{"index": 0, "delta": {"role": "assistant"} | delta, "finish_reason": finish}]}
    return sse(chunk, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}, "[DONE]")


if __name__ == "__main__":
    serve()
