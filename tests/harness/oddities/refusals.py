"""Errors with a status, in the forms that servers and gateways give them."""

from typing import Any

from harness.oddities.rows import INJECTED, Oddity, sent_as
from harness.providers import Answer
from minideep import AuthenticationFailed, ContextOverflow, ModelError, Overloaded, RateLimited

PAGE = "<html><head><title>502 Bad Gateway</title></head><body><hr><center>cloudflare</center></body></html>"
RAW = {
    "message": "Provider returned error",
    "code": 400,
    "metadata": {"raw": "at most 1 image", "provider_name": "Crucible"},
}

FORMS: list[tuple[str, int, Any, type[ModelError], str, str]] = [
    ("a text as the error", 400, {"error": "The model has crashed"}, ModelError, "The model has crashed", "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1347"),
    ("a detail", 400, {"detail": "no such model"}, ModelError, "no such model", "https://github.com/stanfordnlp/dspy/issues/1041"),
    ("a list of details", 422, {"detail": [{"loc": ["body", "tools"], "msg": "field required", "type": "value_error"}]}, ModelError, "field required", "https://github.com/az-scout/az-scout/pull/100"),
    ("a message", 400, {"message": "invalid tool"}, ModelError, "invalid tool", "https://docs.mistral.ai/api/"),
    ("a message that is an object", 422, {"object": "error", "message": {"detail": [{"msg": "field required"}]}}, ModelError, "field required", "https://docs.mistral.ai/api/"),
    ("a list of errors", 400, {"errors": [{"message": "bad tool"}]}, ModelError, "bad tool", "https://developers.cloudflare.com/workers-ai/"),
    ("a list with an error", 400, [{"error": {"code": 400, "message": "bad schema", "status": "INVALID_ARGUMENT"}}], ModelError, "bad schema", "https://github.com/googleapis/python-genai/issues/2868"),
    ("what the provider behind OpenRouter said", 400, {"error": RAW}, ModelError, "at most 1 image", "https://github.com/open-webui/computer/issues/293"),
    ("a number as the code", 429, {"error": {"code": 429, "message": "slow down"}}, RateLimited, "slow down", "https://openrouter.ai/docs/api/reference/errors-and-debugging"),
    ("a page", 502, PAGE, ModelError, "502 Bad Gateway", "https://github.com/QwenLM/qwen-code/issues/6465"),
    ("plain text", 503, "no healthy upstream", Overloaded, "no healthy upstream", "https://www.envoyproxy.io/docs/envoy/latest/faq/overview"),
    ("nothing", 401, "", AuthenticationFailed, "401", INJECTED),
    ("null", 400, None, ModelError, "400", INJECTED),
    ("an overflow of Bedrock", 400, {"message": "Input is too long for requested model."}, ContextOverflow, "too long", "https://repost.aws/knowledge-center/bedrock-validation-exception-errors"),
    ("an overflow of vLLM", 400, {"object": "error", "message": "The decoder prompt (length 9000) is longer than the maximum model length of 8192.", "code": 400}, ContextOverflow, "maximum model length", "https://github.com/vllm-project/vllm/issues/13197"),
    ("an overflow of TGI", 422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4091", "error_type": "validation"}, ContextOverflow, "inputs", "https://github.com/huggingface/huggingface_hub/pull/2558"),
]  # fmt: skip


def refused(status: int, body: Any) -> Answer:
    """The answer; the SDK must not ask again."""
    kind = "application/json" if not isinstance(body, str) else "text/html" if body.startswith("<") else "text/plain"
    return sent_as(body, kind, status)


ROWS = {
    kind: [
        Oddity(
            name=f"status {status} with {what}",
            source=source,
            document=refused(status, body),
            stream=refused(status, body),
            error=error,
            words=(words,),
        )
        for what, status, body, error, words, source in FORMS
    ]
    for kind in ("anthropic", "openai", "openai-chat")
}
