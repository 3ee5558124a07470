"""Servers that break one promise of a store each: a simulation that they pass would prove nothing."""

from harness.simulation.server import Server


class Torn(Server):
    """An append now and then lands without one of its rows."""

    def land(self, store, thread, expected, head, rows, deletes, lease, release):
        if len(rows) > 1 and self.random.random() < 0.2:
            rows = dict(list(rows.items())[1:])
        super().land(store, thread, expected, head, rows, deletes, lease, release)


class Blind(Server):
    """The head is not compared, and the lease is not asked for."""

    def land(self, store, thread, expected, head, rows, deletes, lease, release):
        super().land(store, thread, self.head(thread), head, rows, deletes, None, False)
        if release and not lease.over:
            self.free(lease)


class Generous(Server):
    """A thread is given to whoever asks, and a lease is never asked for again."""

    async def open(self, store, thread, wait, purpose):
        return self.grant(store, thread, purpose)

    def land(self, store, thread, expected, head, rows, deletes, lease, release):
        super().land(store, thread, expected, head, rows, deletes, None, False)
        if release:
            self.free(lease)


class Forgetful(Server):
    """An append now and then is reported as done, and is not."""

    def land(self, store, thread, expected, head, rows, deletes, lease, release):
        if self.random.random() < 0.1:
            if release:
                self.free(lease)
            return
        super().land(store, thread, expected, head, rows, deletes, lease, release)


class Stale(Server):
    """Who opens a thread is now and then told that there is none."""

    def head(self, thread):
        return super().head(thread) if self.random.random() < 0.9 else None


BROKEN = (Torn, Blind, Generous, Forgetful, Stale)
