"""`Aside`: a question that a hook asks beside the run's own."""

from ..ports import Request


class Aside(Request, frozen=True, gc=False):
    """A question beside the run's own, such as one for a grade. Hooks inside of the one that asks must not take its
    answer for the run's next reply.
    """
