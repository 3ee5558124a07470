"""Contracts for your own implementations, as tests: inherit one, say how the thing is made, and run pytest.

    class TestMyStore(DurableStoreContract):
        def make(self, folder):
            return MyStore(folder / "rows")

Every test gets an empty folder. A failure says what was expected.
"""

from .durable_store import DurableStoreContract
from .store import StoreContract

__all__ = ["DurableStoreContract", "StoreContract"]
