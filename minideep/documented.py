"""The base class of documented Structs: `help()` shows what they say about their fields.

Python drops those texts, so `field_docs.py` reads them from the source, when somebody reads the `__doc__` of a class.
"""

import sys
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from msgspec import Struct as Struct
else:

    class Struct(msgspec.Struct):
        """A Struct whose `__doc__` ends with what it says about its fields. Without its source, or under `python -OO`,
        that is the plain docstring.
        """

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            if sys.flags.optimize < 2:
                cls.__doc__ = _Doc.of(cls)


class _Doc(str):
    """The docstring of a class, which adds what its fields are when it is read.

    `cls.__doc__` and `inspect.getdoc` go through `__get__`. `help()` takes the object out of the class instead, and
    asks for its tabs first.
    """

    __slots__ = ("_kind",)

    @classmethod
    def of(cls, kind: type) -> "_Doc":
        doc = cls(vars(kind).get("__doc__") or "")
        doc._kind = kind
        return doc

    def __get__(self, instance: object, owner: type | None = None) -> str | None:
        from .field_docs import whole  # Only a reader needs it.

        return whole(str(self), self._kind)

    def expandtabs(self, tabsize: Any = 8) -> str:
        return (self.__get__(None) or "").expandtabs(tabsize)
