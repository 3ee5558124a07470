"""The promises that a life is judged by while it happens."""

from collections import Counter

from harness.simulation.ledger import Ledger


class Promises:
    """What processes and callers have seen, against what the ledger has."""

    def __init__(self, life, ledger: Ledger) -> None:
        self.life, self.ledger = life, ledger
        self.begun: Counter[tuple[str, int, tuple[str, ...], str]] = Counter()
        """How often a call that asks first has begun."""
        self.by_key: dict[tuple[int, str], int] = {}
        """The work done under each idempotency key."""
        self.effects: Counter[int] = Counter()

    def begins(self, process, ctx, n: int, word: str) -> None:
        """A tool begins: nothing that was recorded is done again, and nothing without permission."""
        n = process.life.edited.get(n, n)
        thread, place = ctx.thread_id, (ctx.path, ctx.call_id)
        known, life = self.ledger.threads.get(thread), self.ledger.deleted[thread]
        self.effects[n] += 1
        lease = process.server.leases.get(thread)
        holds = lease is not None and lease.store.process is process
        if holds and known is not None:
            self.ledger.expect(place not in known.returned, f"{thread}: call {place} ran again, though it had returned")
        self.ledger.expect(not process.has_lost(ctx), f"{thread}: call {place} began after its lease was lost")
        key = (life, ctx.idempotency_key)
        self.ledger.expect(self.by_key.setdefault(key, n) == n, f"{n} and {self.by_key[key]} have one key: {key}")
        if word == "paid":
            self.begun[thread, life, *place] += 1
            count = self.begun[thread, life, *place]
            started, allowed = (known.started[place], known.allowed[place]) if known else (0, 0)
            self.ledger.expect(count <= started, f"{thread}: {place} began {count} times, saved are {started}")
            self.ledger.expect(count <= allowed, f"{thread}: {place} began {count} times, allowed were {allowed}")

    def relied_upon(self, n: int, text: str) -> None:
        """A result is shown to the model: it is saved, if it may not be done again or if every step is saved."""
        life, saved = self.life, text.startswith("paid") or self.life.durability != "turn"
        if n not in life.done or not saved or life.unreliable or not life.calm or text.startswith("relayed"):
            return
        thread, *place = life.done[n]
        known = self.ledger.threads.get(thread)
        if known is not None and not self.ledger.deleted[thread]:
            self.ledger.expect(tuple(place) in known.returned, f"{thread}: the result of {place} was not saved in time")
