"""The names of the models package, for type checkers."""

from .addresses import loopback_host as loopback_host
from .anthropic.messages import Anthropic as Anthropic
from .background import begin_imports as begin_imports
from .batch import BatchModel as BatchModel
from .catalog import (
    ModelInfo as ModelInfo,
    Price as Price,
    add_model_info as add_model_info,
    model_info as model_info,
)
from .fallback import FallbackModel as FallbackModel
from .forbidden import forbid_requests as forbid_requests
from .offline import OfflineModel as OfflineModel
from .openai.chat import OpenAIChat as OpenAIChat
from .openai.responses import OpenAI as OpenAI
from .profile import Profile as Profile, profile_of as profile_of
from .provider_tools import CodeExecution as CodeExecution, FileSearch as FileSearch, WebSearch as WebSearch
from .rate_limit import RateLimiter as RateLimiter
from .redact_pii import RedactPII as RedactPII
from .registry import register as register
from .resolving import resolve as resolve
from .retry import RetryModel as RetryModel
from .scripted import Policy as Policy, Say as Say, ScriptedModel as ScriptedModel, as_reply as as_reply
from .servers import SERVERS as SERVERS, server_address as server_address
from .timeouts import Timeouts as Timeouts
from .tool_check import check_tools as check_tools
from .wrapper import ModelWrapper as ModelWrapper

__all__: list[str]
