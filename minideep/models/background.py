"""Imports of SDKs: in the background, one at a time, and never half done in a forked process."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from threading import RLock, Thread

from ..ports import Model
from .forbidden import are_forbidden
from .wrapper import ModelWrapper

IMPORTING = RLock()
"""Held while an SDK is imported. Two SDKs have packages in common, and two threads could wait for each other's. In a
child that was forked meanwhile nobody would finish the import, and who needs it would wait for ever.
"""


def begin_imports(*models: Model) -> None:
    """Begin to import the SDKs of *models* on an OS thread. A request that needs one waits for the rest of that only.

    An import that fails is left to the first request, which tries again and says why.
    """
    names = () if are_forbidden() else sorted({*_sdks(models)} - {*sys.modules})
    if names:
        # Not a daemon: the end of the program would cut it off within an SDK's compiled code, which may abort.
        Thread(target=_import, args=names, name="minideep-import").start()


def _sdks(models: tuple[Model, ...]) -> Iterator[str]:
    for model in models:
        if isinstance(model, ModelWrapper):
            yield from _sdks(model.models)
        elif sdk := getattr(model, "sdk", ""):
            yield sdk


def _import(*names: str) -> None:
    with IMPORTING:
        for name in names:
            with suppress(Exception):
                import_module(name)


def _release() -> None:
    with suppress(RuntimeError):  # This module was imported by another thread while the fork was under way.
        IMPORTING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=IMPORTING.acquire, after_in_parent=_release, after_in_child=_release)
