"""The names of the models package, for type checkers."""

from .anthropic.messages import Anthropic as Anthropic
from .catalog import PRICES as PRICES, Price as Price
from .fallback import FallbackModel as FallbackModel
from .forbidden import forbid_requests as forbid_requests
from .offline import OfflineModel as OfflineModel
from .openai.chat import OpenAIChat as OpenAIChat
from .openai.responses import OpenAI as OpenAI
from .profile import Profile as Profile, profile_of as profile_of
from .rate_limit import RateLimiter as RateLimiter
from .registry import resolve as resolve
from .scripted import Policy as Policy, Say as Say, ScriptedModel as ScriptedModel, as_reply as as_reply

__all__: list[str]
