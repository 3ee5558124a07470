"""Every exception minideep raises, sorted by who must act.

* MinideepError
  x ConfigError             the programmer: raised before any model is called
  x IllegalEvent            the programmer: an event that does not fit the state, or a forged log
  x MiddlewareError         the programmer: a hook raised; the turn is `failed`, the thread is saved
  x ModelError              the operator: the model's API failed, after the SDK's own retries;
    |                       the turn is `failed`, the thread is saved
    - RateLimited           too many requests
    - Overloaded            the provider has no capacity
    - AuthenticationFailed  no key, or a key that is not accepted
    - ContextOverflow       the request is larger than the model's window
  x CheckpointError         the operator: a log could not be read or written
    - ThreadConflict        another writer appended to the thread first
    - ThreadBusy            another run holds the thread
    - UnknownThread         there is no such thread
    - CorruptSegment        stored bytes that were not written like this
    - SegmentTooLarge       an event, or stored bytes, over the size cap
    - UnknownVersion        stored by a format that this version does not know
    - HistoryCut            a boundary that retention has removed
  x LimitExceeded           a person: raised by `Turn.raise_for_status()`, never by a run
  x ToolError               the model: raised by a tool, read by the model
  x ContractViolation       the model: a part of a blueprint broke its contract; told to that part, once
    - PlanViolation         the planner: a plan that cannot be carried out
    - ArtifactViolation     a subagent: a reply that is no artifact, or that its validator refuses
    - FileViolation         the virtual files: a name that is not there, or that no file can have
    - ReflectionViolation   the reflection: a reply that is no decision
"""

__all__ = [
    "ArtifactViolation",
    "AuthenticationFailed",
    "CheckpointError",
    "ConfigError",
    "ContextOverflow",
    "ContractViolation",
    "CorruptSegment",
    "FileViolation",
    "HistoryCut",
    "IllegalEvent",
    "LimitExceeded",
    "MiddlewareError",
    "MinideepError",
    "ModelError",
    "Overloaded",
    "PlanViolation",
    "RateLimited",
    "ReflectionViolation",
    "SegmentTooLarge",
    "ThreadBusy",
    "ThreadConflict",
    "ToolError",
    "UnknownThread",
    "UnknownVersion",
]


class MinideepError(Exception):
    """Base class of every error of this package."""


class ConfigError(MinideepError):
    """The program is wrong: a tool, an agent, a name or an argument. Raised before any model is called."""


class IllegalEvent(MinideepError):
    """An event that does not fit the state it was applied to; the state is as it was before."""


class MiddlewareError(MinideepError):
    """A middleware's hook raised; the text names the middleware and the hook."""


class ModelError(MinideepError):
    """The model's API failed after the SDK's own retries, or answered what cannot be used."""

    transient = False
    """Whether it may pass, and another model need not meet it: a limit, no capacity, a connection that was lost, a
    failure at the provider's own end. A `FallbackModel` then asks the next.
    """
    retry_after: float | None = None
    """Seconds after which the provider wants to be asked again, where it says so."""
    code: str = ""
    """The provider's own word for what went wrong, such as `insufficient_quota`, or the HTTP status."""


class RateLimited(ModelError):
    """Too many requests: wait, or ask for a higher limit."""

    transient = True


class Overloaded(ModelError):
    """The provider has no capacity: try again later, or use another model."""

    transient = True


class AuthenticationFailed(ModelError):
    """The key is missing or is not accepted."""


class ContextOverflow(ModelError):
    """The request is larger than the model's window."""


class CheckpointError(MinideepError):
    """A log could not be read or written."""


class ThreadConflict(CheckpointError):
    """Another writer appended to the thread since it was read; nothing of this append was written."""


class ThreadBusy(CheckpointError):
    """Another run holds the thread."""


class UnknownThread(CheckpointError):
    """There is no thread of this name in the store."""


class CorruptSegment(CheckpointError):
    """Stored bytes that no append wrote: damaged, moved from another thread, or forged."""


class SegmentTooLarge(CheckpointError):
    """An event is too large to be recorded, or stored bytes claim more than the cap."""


class UnknownVersion(CheckpointError):
    """The bytes were written by a format that this version does not know."""


class HistoryCut(CheckpointError):
    """The boundary asked for was removed by retention."""


class LimitExceeded(MinideepError):
    """A turn stopped at a limit; raised by `Turn.raise_for_status()` only."""


class ToolError(MinideepError):
    """Raise this in a tool to tell the model what went wrong and what to do next.

    It becomes the call's error result; it never leaves a run.
    """


class ContractViolation(MinideepError):
    """A part of a blueprint broke its contract. It is told so once; after that the turn escalates, or, of a subagent,
    the subtask has failed.
    """


class PlanViolation(ContractViolation):
    """A plan that cannot be carried out: no JSON, a role or a file that is not there, none or too many subtasks."""


class ArtifactViolation(ContractViolation):
    """A subagent's reply that is no artifact, or that the validator of its role refuses."""


class FileViolation(ContractViolation):
    """A file that the virtual files do not have, or a name that no artifact can have."""


class ReflectionViolation(ContractViolation):
    """A reflection's reply that is no decision, or a final answer that is empty or names what is not there."""
