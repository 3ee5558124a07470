"""Every exception that minideep raises, sorted by who must act.

* MinideepError
  x ConfigError             the programmer: raised before any model is called
  x IllegalEvent            the programmer: an event that does not fit the state, or a forged log
  x MiddlewareError         the programmer: a hook raised; the turn is `failed`, the thread is saved
  x ModelError              the operator: the model's API failed, after the SDK's own retries;
    |                       the turn is `failed`, the thread is saved
    - RateLimited           too many requests
    - Overloaded            the provider has no capacity
    - AuthenticationFailed  no key, or a key that is not accepted
    - ContextOverflow       the request is larger than the model's window, or than a minute's tokens
  x CheckpointError         the operator: a log could not be read or written
    - ThreadConflict        another writer appended to the thread first
    - ThreadBusy            another run holds the thread
    - UnknownThread         the thread does not exist
    - CorruptSegment        stored bytes differ from the bytes that an append wrote
    - SegmentTooLarge       an event, or stored bytes, over the size cap
    - UnknownVersion        stored in a format that this version does not know
    - HistoryCut            retention has removed the boundary
  x LimitExceeded           a person: raised by `Turn.raise_for_status()`, never by a run
  x ToolError               the model: raised by a tool, read by the model
  x ContractViolation       the model: a reply broke the contract that it was asked under
    - OutputViolation       any agent: no reply was of its `response_format`; the turn is `failed`, the thread is saved
    - PlanViolation         the planner: a plan that cannot be carried out
    - ArtifactViolation     a subagent: a reply that is not an artifact, or that its validator refuses
    - FileViolation         the virtual files: a file that does not exist, or a name that no file can have
    - ReflectionViolation   the reflection: a reply that is not a decision

A log records an error under the name of its class, and readers recreate the error from that name, so a renamed class
must still be found under its old name.
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
    "OutputViolation",
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
    """Base class of all errors of this package."""


class ConfigError(MinideepError):
    """A tool, an agent, a name or an argument is wrong. Raised before a model is called, except by `ToolContext.run`
    and `ask`.
    """


class IllegalEvent(MinideepError):
    """An event does not fit the state that it was applied to; nothing was changed."""


class MiddlewareError(MinideepError):
    """A middleware's hook raised; the text names the middleware and the hook."""


class ModelError(MinideepError):
    """The model's API failed after the SDK's own retries, or its answer cannot be used."""

    transient = False
    """True if the cause may pass by itself and might not affect another model: a rate limit, no capacity, a lost
    connection, a failure inside the provider. A `FallbackModel` then asks its next model.
    """
    retry_after: float | None = None
    """Seconds after which the provider says to ask again; None if it does not say, or if it would refuse again."""
    code: str = ""
    """The provider's own word for the error, such as `insufficient_quota`, or the HTTP status."""


class RateLimited(ModelError):
    """Too many requests: wait, or ask for a higher limit."""

    transient = True


class Overloaded(ModelError):
    """The provider has no capacity: try again later, or use another model."""

    transient = True


class AuthenticationFailed(ModelError):
    """The key is missing or is not accepted."""


class ContextOverflow(ModelError):
    """The request is larger than the model's window, or than the tokens that the account has for a whole minute."""


class CheckpointError(MinideepError):
    """A log could not be read or written."""


class ThreadConflict(CheckpointError):
    """Another writer appended to the thread since it was read; nothing of this append was written."""


class ThreadBusy(CheckpointError):
    """Another run holds the thread."""


class UnknownThread(CheckpointError):
    """The store has no thread with this id."""


class CorruptSegment(CheckpointError):
    """Stored bytes are not as an append wrote them: damaged, moved from another thread, or forged."""


class SegmentTooLarge(CheckpointError):
    """An event is too large to be recorded, or stored bytes claim more than the cap."""


class UnknownVersion(CheckpointError):
    """The bytes are in a format that this version does not know."""


class HistoryCut(CheckpointError):
    """Retention has removed the boundary that was asked for."""


class LimitExceeded(MinideepError):
    """A turn stopped at a limit. Raised only by `Turn.raise_for_status()`."""


class ToolError(MinideepError):
    """Raise this in a tool to tell the model what went wrong and what to do next.

    It becomes the call's error result and never leaves a run.
    """


class ContractViolation(MinideepError):
    """A model broke the contract that its reply was asked under.

    A part of a blueprint is asked once to correct itself. If it breaks the contract again the turn escalates; for a
    subagent, the subtask fails.
    """


class OutputViolation(ContractViolation):
    """No reply was of the type that `response_format` asks for, however often the model was asked again; or its last
    reply was cut off or refused. A `before_finish` hook that raises it is not blamed: the turn fails with this error.
    """


class PlanViolation(ContractViolation):
    """A plan cannot be carried out: it is not JSON, names an unknown role or file, or has no or too many subtasks."""


class ArtifactViolation(ContractViolation):
    """A subagent's reply is not an artifact, or the validator of its role refuses it."""


class FileViolation(ContractViolation):
    """The file is not one of the virtual files, or its name is not allowed for an artifact."""


class ReflectionViolation(ContractViolation):
    """A reflection's reply is not a decision, or its final answer is empty or names an unknown file."""
