"""Systems without POSIX: everything can be imported, and what cannot work there says so.

Windows is simulated in a child process, from whose `os` is taken what Windows lacks before anything is imported. On
Windows itself the same tests run as they are.
"""

from harness.processes import python

WITHOUT_POSIX = """
import os, sys
for name in ("CLOEXEC", "DIRECTORY", "NOFOLLOW", "NONBLOCK", "PATH"):
    vars(os).pop(f"O_{name}", None)
for name in ("fchmod", "fork", "geteuid", "register_at_fork"):
    vars(os).pop(name, None)
os.supports_dir_fd = set()
"""

RUN = """
from minideep import MemoryCheckpointer, ToolCall, create_deep_agent, ConfigError
from minideep.backends import FilesystemBackend, StateBackend
from minideep.models import ScriptedModel
model = ScriptedModel([ToolCall("write_file", {"file_path": "/a", "content": "x"}), ToolCall("ls", {}), "done"])
agent = create_deep_agent(model, backend=StateBackend(), checkpointer=MemoryCheckpointer())
turn = agent.run_sync("go", "t")
print(turn.status, turn.saved, list(turn.artifacts))
try:
    FilesystemBackend(".")
except ConfigError as exc:
    print(exc)
"""

IMPORT_ALL = """
import importlib, pkgutil, minideep
for module in pkgutil.walk_packages(minideep.__path__, "minideep."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_without_posix_every_module_can_be_imported():
    assert python(WITHOUT_POSIX + IMPORT_ALL) == ""


def test_without_posix_an_agent_runs_over_the_state_and_a_disk_is_refused():
    assert python(WITHOUT_POSIX + RUN).splitlines() == [
        "ended True ['/a']",
        "FilesystemBackend needs a POSIX system; on Windows use WSL, or StateBackend()",
    ]
