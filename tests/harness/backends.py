"""Every backend that there is, and every way to put one into another."""

from harness.stores import DistantStore
from minideep import DiskCheckpointer, MemoryCheckpointer
from minideep.backends import (
    CompositeBackend,
    FilesystemBackend,
    LocalShellBackend,
    StateBackend,
    StoreBackend,
)

NAMESPACE = ("memories", "acme")


def state(folder):
    return StateBackend()


def disk(folder):
    (folder / "root").mkdir(exist_ok=True)
    return FilesystemBackend(folder / "root")


def store(folder):
    return StoreBackend(MemoryCheckpointer(), NAMESPACE)


def store_on_disk(folder):
    return StoreBackend(DiskCheckpointer(folder / "store"), NAMESPACE)


def store_far_away(folder):
    return StoreBackend(DistantStore(), lambda ctx: NAMESPACE)


def shell(folder):
    (folder / "root").mkdir(exist_ok=True)
    return LocalShellBackend(folder / "root")


ALONE = {
    "state": state,
    "disk": disk,
    "shell": shell,
    "store": store,
    "store on disk": store_on_disk,
    "store far away": store_far_away,
}
"""Functions of a folder that make an empty backend. Sandboxes are not among them: a container is what confines those."""


def routed(make, default=state):
    """Return a function that makes a backend whose folder `/in/here` another one has, beside one of much the same name."""

    def composite(folder):
        routes = {"/in/here/": make(folder), "/in/hereby": StoreBackend(MemoryCheckpointer(), ("not", "used"))}
        return CompositeBackend(default(folder), routes)

    return composite


INSIDE = {f"{name} in a composite": routed(make, disk if name == "state" else state) for name, make in ALONE.items()}
"""The same, each as the folder `/in/here` of a composite."""
AROUND = {
    f"a composite around {name}": lambda folder, make=make: CompositeBackend(make(folder), {})
    for name, make in ALONE.items()
}
ROOTS = {**dict.fromkeys([*ALONE, *AROUND], ""), **dict.fromkeys(INSIDE, "/in/here")}
"""The folder of each that is empty, and that tests may use."""
MAKERS = {**ALONE, **AROUND, **INSIDE}
