"""What errors of providers become: their reason, their class, and how long they ask to wait.

The wordings were seen, each at the source that its row names; a row without one is made up. The bodies come over a real
SDK from a server on loopback.
"""

import asyncio
import json
import time
from pathlib import Path

import pytest
from harness.providers import Answer, Provider, json_answer
from harness.wires import FORMATS, HELLO, WIRES, chat, claude

import minideep
from minideep import AuthenticationFailed, ContextOverflow, ModelError, Overloaded, RateLimited
from minideep.models.error_bodies import error_object
from minideep.models.failures import BadReply, StreamBroke, model_error
from minideep.models.waits import seconds_in

GITHUB = "https://github.com"


def failed(wire, answers):
    """The errors that a model raises for each of *answers*, in order."""

    async def go():
        errors = []
        with Provider(*answers) as provider:
            async with wire.connected(provider.url) as client:
                for _ in answers:
                    with pytest.raises(ModelError) as caught:
                        await wire.model(client, "m").complete(HELLO, None)
                    errors.append(caught.value)
        return errors

    return asyncio.run(go())


def refused(status, body, wire=chat, **headers):
    """The error for one body, as JSON unless it is bytes."""
    answer = Answer(body, status, headers) if isinstance(body, bytes) else json_answer(body, status, **headers)
    return failed(wire, [answer])[0]


# ---- the reason, in every shape of a body


def openrouter(raw, said="Provider returned error", **metadata):
    return {"error": {"message": said, "code": 400, "metadata": {"raw": raw, **metadata}}}


BEHIND = json.dumps({"error": {"message": "This model is no more.", "type": "Bad Request", "code": 400}})
PAGE = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title><style>h1 {}</style></head><body>" + b"x" * 9000
REASONS = [
    ({"error": {"message": "it is so", "type": "a_type"}}, "400 a_type: it is so"),
    ({"type": "error", "error": {"type": "a_type", "message": "it is so"}}, "400 a_type: it is so"),
    ({"error": "it is so"}, "400 BadRequestError: it is so"),
    ({"detail": "it is so"}, "400 BadRequestError: it is so"),
    ({"message": "it is so", "type": "a_type", "code": 400}, "400 a_type: it is so"),
    ({"message": "it is so", "type": "a_type", "code": "400"}, "400 a_type: it is so"),
    ({"error": {"message": {"detail": ["it is", "so"]}}}, "400 BadRequestError: it is; so"),
    ({"errors": [{"code": 7003, "message": "it is so"}], "success": False}, "400 BadRequestError: it is so"),
    (
        {"detail": [{"loc": ["body", "messages", 0], "msg": "Field required", "type": "missing", "input": {}}]},
        "400 BadRequestError: body.messages.0: Field required",
    ),
    ([{"error": {"code": 400, "message": "it is so", "status": "INVALID_ARGUMENT"}}], "400 INVALID_ARGUMENT: it is so"),
    ({"error": {"code": 400, "message": "it is so", "status": "INVALID_ARGUMENT"}}, "400 INVALID_ARGUMENT: it is so"),
    ({"error": {"message": json.dumps({"error": {"message": "it is so"}})}}, "400 BadRequestError: it is so"),
    ({"error": {"message": "{not json}"}}, "400 BadRequestError: {not json}"),
    (openrouter("it is so", provider_name="Chutes"), "400 BadRequestError: Chutes: it is so"),
    (openrouter(BEHIND, provider_name="Nvidia"), "400 BadRequestError: This model is no more"),
    (openrouter(""), "400 BadRequestError: Provider returned error"),
    ({"status": False, "code": 0, "type": None, "message": "it is so"}, "400 BadRequestError: it is so"),
    ({"Message": "it is so"}, "400 BadRequestError: it is so"),
    ({"type": "https://docs.example.com/e", "title": "Bad", "detail": "it is so"}, "400 BadRequestError: it is so"),
    ({"reasons": {"a": [1]}}, '400 BadRequestError: {"reasons":{"a":[1]}}'),
    ({}, "400 BadRequestError: the server gave no reason"),
    (b"", "400 BadRequestError: the server gave no reason"),
    (b"null", "400 BadRequestError: the server gave no reason"),
    (b"it is so\n", "400 BadRequestError: it is so"),
    (PAGE, "400 BadRequestError: 502 Bad Gateway"),
    (b"<h1>It&nbsp;is</h1>\n<script>no()</script><p>so</p>", "400 BadRequestError: It is so"),
    (b"[" * 5000, "400 BadRequestError: " + "[" * 1000),
]


@pytest.mark.parametrize("kind", FORMATS)
def test_whatever_form_a_body_has_its_reason_is_told(kind):
    bodies = [body if isinstance(body, bytes) else json.dumps(body).encode() for body, _ in REASONS]
    errors = failed(WIRES[kind], [Answer(body, 400, {"content-type": "application/json"}) for body in bodies])
    assert [str(error) for error in errors] == [f"m: {said}" for _, said in REASONS]


def test_a_reason_that_is_wrapped_again_and_again_ends():
    body = "it is so"
    for _ in range(500):
        body = {"error": {"message": body}}
    assert str(model_error("m", BadReply("deep", body), key_variable="KEY", secrets=[])) == "m: BadReply: deep"


def test_the_object_of_an_error_is_given_as_it_was_sent():
    said = {"code": "tool_use_failed", "message": "Failed to call a function.", "failed_generation": "<function=ls>"}
    assert error_object(BadReply("no", {"error": said})) == error_object(BadReply("no", said)) == said
    assert error_object(BadReply("no")) == error_object(ValueError("no")) == {}


# ---- what is an overflow

CONTEXT = "This model's maximum context length is"
OVERFLOWS = [
    # Each with its status, its body, and the source of its wording.
    (
        "Anthropic",
        400,
        {"error": {"type": "invalid_request_error", "message": "prompt is too long: 219898 tokens > 200000 maximum"}},
        f"{GITHUB}/earendil-works/pi/issues/102",
    ),
    (
        "Anthropic, with max_tokens",
        400,
        {
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease it",
            }
        },
        f"{GITHUB}/docker/docker-agent/issues/569",
    ),
    (
        "OpenAI",
        400,
        {
            "error": {
                "message": f"{CONTEXT} 4097 tokens. However, your messages resulted in 4301 tokens.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
        f"{GITHUB}/xtekky/gpt4free/issues/137",
    ),
    (
        "OpenAI, without a code",
        400,
        {
            "error": {
                "message": "Your input exceeds the context window of this model. Please adjust your input.",
                "code": None,
            }
        },
        f"{GITHUB}/badlogic/pi-mono/blob/main/packages/ai/src/utils/overflow.ts",
    ),
    (
        "OpenAI, GPT-5",
        400,
        {
            "error": {
                "message": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178."
            }
        },
        f"{GITHUB}/BerriAI/litellm/blob/main/tests/test_litellm/litellm_core_utils/test_exception_mapping_utils.py",
    ),
    (
        "OpenAI, more than the tokens of a minute",
        429,
        {
            "error": {
                "message": "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested"
                " 36278. The input or output tokens must be reduced in order to run successfully.",
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
        f"{GITHUB}/Aider-AI/aider/issues/1880",
    ),
    (
        "Azure",
        400,
        {
            "error": {
                "message": f"{CONTEXT} 8192 tokens, however you requested 10346 tokens (10346 in your prompt).",
                "type": "invalid_request_error",
                "innererror": {"code": "x"},
            }
        },
        f"{GITHUB}/pkdone/paul-genai-test-tools-ts/blob/main/src/llm/providers/openai/openai-error-patterns.ts",
    ),
    (
        "vLLM",
        400,
        {
            "object": "error",
            "message": f"{CONTEXT} 131072 tokens. However, you requested 351430 tokens. Please reduce the length of the"
            " messages or completion.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        f"{GITHUB}/THUDM/LongBench/issues/104",
    ),
    (
        "vLLM, decoder prompt",
        400,
        {"error": {"message": "The decoder prompt (length 2136) is longer than the maximum model length of 2048."}},
        f"{GITHUB}/OpenBMB/MiniCPM-V/issues/1048",
    ),
    (
        "vLLM, the input leaves too little for max_tokens",
        400,
        {
            "error": {
                "message": "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is"
                " 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104)."
            }
        },
        f"{GITHUB}/canfieldjuan/finetunelab.ai/blob/main/docs/MAX_TOKENS_CONTEXT_OVERFLOW_FIX.md",
    ),
    (
        "Xinference",
        500,
        {
            "detail": "[address=0.0.0.0:43769, pid=1] The decoder prompt (length 66501) is longer than the maximum model length"
        },
        f"{GITHUB}/langchain-ai/deepagents/issues/468",
    ),
    (
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 14429,
                "n_ctx": 8192,
            }
        },
        f"{GITHUB}/oobabooga/textgen/issues/7257",
    ),
    (
        "Lemonade",
        400,
        {
            "error": {
                "message": "request (67311 tokens) exceeds the available context size (65536 tokens), try increasing it"
            }
        },
        f"{GITHUB}/BerriAI/litellm/blob/main/tests/test_litellm/litellm_core_utils/test_exception_mapping_utils.py",
    ),
    (
        "llama-cpp-python",
        400,
        {
            "error": {
                "message": "Requested tokens (2285) exceed context window of 2048",
                "type": "internal_server_error",
            }
        },
        f"{GITHUB}/fedora-copr/logdetective-website/pull/193",
    ),
    (
        "LM Studio",
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the context length. Try to load it"
        },
        f"{GITHUB}/anomalyco/opencode/issues/2259",
    ),
    (
        "LM Studio, older",
        400,
        {
            "error": "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with"
            " context length of only 32768 tokens, which is not enough."
        },
        f"{GITHUB}/lmstudio-ai/lmstudio-bug-tracker/issues/546",
    ),
    (
        "LM Studio, newer",
        400,
        {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"},
        f"{GITHUB}/anomalyco/opencode/issues/11141",
    ),
    (
        "LM Studio, its window",
        400,
        {"error": "Input length 1581 exceeds context length 1500"},
        f"{GITHUB}/lmstudio-ai/model-catalog/issues/38",
    ),
    (
        "Ollama",
        400,
        {"error": "prompt too long; exceeded max context length by 540451 tokens (ref: 00ad71bb)"},
        f"{GITHUB}/dyad-sh/dyad/issues/3498",
    ),
    (
        "oMLX",
        400,
        {"error": {"message": "Prompt too long: 41911 tokens exceeds max context window of 32768 tokens"}},
        f"{GITHUB}/ValueCell-ai/ClawX/issues/658",
    ),
    (
        "MLX",
        400,
        {"error": {"message": "Prompt exceeds maximum context length"}},
        f"{GITHUB}/ddalcu/mlx-serve/issues/66",
    ),
    (
        "TGI",
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 6204 `inputs` tokens",
            "error_type": "validation",
        },
        f"{GITHUB}/huggingface/chat-ui/issues/1149",
    ),
    (
        "SGLang",
        400,
        {
            "object": "error",
            "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
            "type": "BadRequestError",
            "code": 400,
        },
        f"{GITHUB}/QwenLM/Qwen3/issues/1321",
    ),
    (
        "SGLang, its memory",
        400,
        {"message": "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."},
        f"{GITHUB}/sgl-project/sglang/issues/4048",
    ),
    (
        "Bedrock, Claude",
        400,
        {"message": "The model returned the following errors: Input is too long for requested model."},
        f"{GITHUB}/continuedev/continue/issues/9592",
    ),
    (
        "Bedrock, Nova, inside an answer",
        200,
        {
            "error": {
                "message": "The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds"
                " maximum length."
            }
        },
        f"{GITHUB}/LibreChat-AI/agents/pull/330",
    ),
    (
        "Gemini",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (2845475) exceeds the maximum number of tokens allowed (1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        f"{GITHUB}/google-gemini/gemini-cli/issues/4692",
    ),
    (
        "Groq",
        400,
        {
            "error": {
                "message": "Please reduce the length of the messages or completion.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
        f"{GITHUB}/thepersonalaicompany/amurex-backend/issues/51",
    ),
    (
        "Groq, more than the tokens of a minute",
        413,
        {
            "error": {
                "message": "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service tier"
                " `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your message size",
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
        f"{GITHUB}/ITSpecialist111/ai_automation_suggester/issues/61",
    ),
    (
        "Mistral",
        400,
        {
            "object": "error",
            "message": "Prompt contains 170397 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
            "type": "invalid_request_invalid_args",
            "code": "3051",
        },
        f"{GITHUB}/LibreChat-AI/agents/pull/330",
    ),
    (
        "DeepSeek",
        400,
        {
            "error": {
                "message": f"{CONTEXT} 65536 tokens. However, you requested 69648 tokens",
                "code": "invalid_request_error",
            }
        },
        f"{GITHUB}/RooCodeInc/Roo-Code/issues/1767",
    ),
    (
        "Fireworks",
        400,
        {"error": {"message": "The prompt is too long: 265392, model maximum context length: 262144"}},
        f"{GITHUB}/langchain-ai/langchain/pull/37457",
    ),
    (
        "DeepInfra",
        400,
        {"detail": {"error": {"message": "Requested input length 600010 exceeds maximum input length 131071"}}},
        f"{GITHUB}/anomalyco/opencode",
    ),
    (
        "xAI",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        },
        f"{GITHUB}/cline/cline/issues/3120",
    ),
    (
        "Cohere",
        400,
        {
            "message": "too many tokens: size limit exceeded by 168512 tokens. The limit for this model is 132000 tokens."
        },
        f"{GITHUB}/anomalyco/opencode",
    ),
    (
        "Cohere, older",
        400,
        {
            "message": "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354."
        },
        f"{GITHUB}/cohere-ai/sandbox-topically/issues/4",
    ),
    (
        "MiniMax",
        400,
        {"error": {"type": "invalid_request_error", "message": "invalid params, context window exceeds limit (2013)"}},
        f"{GITHUB}/agentscope-ai/QwenPaw/issues/1873",
    ),
    (
        "Kimi",
        400,
        {
            "error": {
                "message": "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
                "type": "invalid_request_error",
            }
        },
        f"{GITHUB}/MoonshotAI/kimi-cli/issues/2011",
    ),
    (
        "z.ai",
        400,
        {"error": {"code": "1261", "message": "Prompt exceeds max length"}},
        f"{GITHUB}/zeroclaw-labs/zeroclaw/issues/4124",
    ),
    (
        "z.ai, in Chinese",
        400,
        {"error": {"code": "1261", "message": "Prompt \u8d85\u957f"}},
        f"{GITHUB}/anomalyco/opencode",
    ),
    (
        "z.ai, by count",
        400,
        {
            "error": {
                "code": "1210",
                "message": "Request 182387 input tokens exceeds the model's maximum context length 202750",
            }
        },
        f"{GITHUB}/foreveryh/claude-code-switch/issues/12",
    ),
    (
        "DashScope",
        400,
        {
            "error": {
                "code": "invalid_parameter_error",
                "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]",
                "type": "invalid_request_error",
            }
        },
        f"{GITHUB}/agentscope-ai/QwenPaw/issues/6255",
    ),
    (
        "Cerebras",
        400,
        {
            "message": "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192"
        },
        f"{GITHUB}/BerriAI/litellm/pull/17587",
    ),
    ("Cerebras, without a body", 413, b"", f"{GITHUB}/earendil-works/pi/issues/129"),
    (
        "OpenRouter",
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 32768 tokens. However, you requested about 56827 tokens",
                "code": 400,
                "metadata": {"provider_name": None},
            }
        },
        f"{GITHUB}/LibreChat-AI/agents/pull/330",
    ),
    (
        "OpenRouter, the server behind it",
        400,
        openrouter(
            json.dumps(
                {"error": {"message": f"{CONTEXT} 262144 tokens. However, it is 262897", "type": "Bad Request"}}
            ),
            provider_name="Nvidia",
            is_byok=False,
        ),
        f"{GITHUB}/cline/cline/issues/13194",
    ),
    (
        "Together",
        400,
        {"error": {"message": "The input (516368 tokens) is longer than the model's context length (262144 tokens)."}},
        f"{GITHUB}/badlogic/pi-mono",
    ),
    (
        "Novita",
        400,
        {"message": "The input is longer than the model's context length trace_id: 39d8c3a5c6c91dbc8dd9055f0b37e084"},
        f"{GITHUB}/anomalyco/opencode",
    ),
    (
        "Poolside",
        400,
        openrouter(
            "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", provider_name="Poolside"
        ),
        f"{GITHUB}/anomalyco/opencode",
    ),
    (
        "GitHub Copilot",
        400,
        {
            "error": {
                "message": "prompt token count of 138898 exceeds the limit of 64000",
                "code": "model_max_prompt_tokens_exceeded",
            }
        },
        f"{GITHUB}/microsoft/copilot-intellij-feedback/issues/94",
    ),
    (
        "GitHub Copilot, without a code",
        400,
        {
            "error": {
                "message": "prompt token count of 65446 exceeds the limit of 64000",
                "param": "",
                "code": "",
                "type": "",
            }
        },
        f"{GITHUB}/microsoft/vscode-copilot-release/issues/6700",
    ),
    (
        "DS4",
        400,
        {"error": {"message": "Prompt tokens (9) exceeds context size (8)", "type": "context_exceeded", "n_ctx": 8}},
        f"{GITHUB}/antirez/ds4/pull/150",
    ),
    (
        "Cloudflare",
        413,
        {
            "errors": [
                {
                    "code": 5021,
                    "message": "The estimated number of input tokens exceeded this model context window limit",
                }
            ]
        },
        f"{GITHUB}/anomalyco/opencode",
    ),
]
OTHERS = [
    # Each with its status, its body, its class, and the source of its wording.
    (
        "max_tokens is too large for OpenAI",
        400,
        {"error": {"message": "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"}},
        ModelError,
        f"{GITHUB}/LibreChat-AI/agents/pull/330",
    ),
    (
        "max_tokens is larger than the window of vLLM",
        400,
        {
            "error": {
                "message": "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is"
                " 4096 tokens and your request has 4 input tokens (9000 > 4096 - 4)."
            }
        },
        ModelError,
        f"{GITHUB}/canfieldjuan/finetunelab.ai/blob/main/docs/MAX_TOKENS_CONTEXT_OVERFLOW_FIX.md",
    ),
    (
        "max_tokens is too large for Anthropic",
        400,
        {
            "error": {
                "type": "invalid_request_error",
                "message": "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens",
            }
        },
        ModelError,
        f"{GITHUB}/LibreChat-AI/agents/pull/330",
    ),
    (
        "max_tokens is too large for Groq",
        400,
        {
            "error": {
                "message": "`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens` is less than"
                " the `context_window` for this model"
            }
        },
        ModelError,
        f"{GITHUB}/RooCodeInc/Roo-Code/issues/5729",
    ),
    (
        "max_tokens is too large for Cohere",
        400,
        {
            "message": "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model"
        },
        ModelError,
        f"{GITHUB}/anomalyco/opencode",
    ),
    (
        "a schema",
        400,
        {
            "error": {
                "message": "Invalid schema for function 'ls': context length must be an integer",
                "code": "invalid",
            }
        },
        ModelError,
        "",
    ),
    (
        "a field that is too long",
        400,
        {
            "error": {
                "message": "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64",
                "code": "string_above_max_length",
            }
        },
        ModelError,
        f"{GITHUB}/BerriAI/litellm/blob/main/litellm/litellm_core_utils/exception_mapping_utils.py",
    ),
    (
        "an unknown model",
        404,
        {"error": {"message": "No endpoints found that support tool use", "code": 404}},
        ModelError,
        "",
    ),
    (
        "a rejected key",
        401,
        {"error": {"message": "Incorrect API key provided: the prompt is too long", "code": "invalid_api_key"}},
        AuthenticationFailed,
        "",
    ),
    (
        "a key that xAI rejects",
        400,
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***23."},
        AuthenticationFailed,
        f"{GITHUB}/continuedev/continue/issues/10778",
    ),
    (
        "a key that Gemini rejects",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "API key not valid. Please pass a valid API key.",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        AuthenticationFailed,
        f"{GITHUB}/continuedev/continue/issues/10748",
    ),
    (
        "tokens per minute",
        429,
        {
            "error": {
                "message": "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 10000, Used 8554,"
                " Requested 3082. Please try again in 9.816s.",
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
        RateLimited,
        f"{GITHUB}/FoundationAgents/MetaGPT/issues/523",
    ),
    (
        "requests per minute, of which there are none",
        429,
        {"error": {"message": "Rate limit reached on requests per min (RPM): Limit 0, Used 0, Requested 1."}},
        RateLimited,
        "",
    ),
    (
        "too many tokens for Bedrock at the moment",
        200,
        {"error": {"message": "Throttling error: Too many tokens, please wait before trying again."}},
        RateLimited,
        f"{GITHUB}/jin-bo/agentao/pull/88",
    ),
    (
        "too many requests of Azure, as another status",
        400,
        {
            "error": {
                "message": "An error occurred when calling Azure OpenAI: Rate limit is exceeded. Try again in 2 seconds."
            }
        },
        RateLimited,
        f"{GITHUB}/microsoft/copilot-camp/issues/551",
    ),
    (
        "too many requests, without a code",
        400,
        {"message": "Request rate increased too quickly"},
        RateLimited,
        f"{GITHUB}/anomalyco/opencode",
    ),
    (
        "an empty account at OpenAI",
        429,
        {
            "error": {
                "message": "You exceeded your current quota, please check your plan.",
                "code": "insufficient_quota",
            }
        },
        RateLimited,
        f"{GITHUB}/LibreChat-AI/agents/pull/330",
    ),
    (
        "an empty account at Kimi",
        403,
        {
            "error": {
                "message": "Your account is not active, exceeded current quota",
                "type": "exceeded_current_quota_error",
            }
        },
        RateLimited,
        f"{GITHUB}/MoonshotAI/Kimi-K2/issues/5",
    ),
    (
        "too little money for max_tokens",
        402,
        {
            "error": {
                "message": "This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can"
                " only afford 16000.",
                "code": 402,
            }
        },
        ModelError,
        f"{GITHUB}/astrio-labs/forall/issues/76",
    ),
    (
        "a busy server behind OpenRouter, inside an answer",
        200,
        {"error": {"code": 503, "message": "no capacity", "metadata": {"provider_name": "x"}}},
        Overloaded,
        "",
    ),
    (
        "a busy Gemini",
        503,
        [
            {
                "error": {
                    "code": 503,
                    "message": "The model is overloaded. Please try again later.",
                    "status": "UNAVAILABLE",
                }
            }
        ],
        Overloaded,
        f"{GITHUB}/lobehub/lobehub/issues/9728",
    ),
]


@pytest.mark.parametrize(
    ("server", "status", "body", "source"), OVERFLOWS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_overflow_of_every_known_server_is_an_overflow(server, status, body, source):
    error = refused(status, body)
    of_a_minute = "tokens of a minute" in server
    assert (type(error), error.transient, error.retry_after) == (ContextOverflow, of_a_minute, None), str(error)


def test_the_page_of_the_models_counts_the_servers_of_this_table():
    page = (Path(minideep.__file__).parent / "models" / "README.md").read_text(encoding="utf-8")
    assert f"wordings of an overflow of {len({server.split(',')[0] for server, *_ in OVERFLOWS})} servers" in page


@pytest.mark.parametrize(("what", "status", "body", "kind", "source"), OTHERS, ids=[row[0] for row in OTHERS])
def test_what_looks_like_an_overflow_and_is_none_is_none(what, status, body, kind, source):
    error = refused(status, body)
    assert type(error) is kind, str(error)


def test_the_sdk_of_anthropic_makes_no_difference():
    kinds = [(status, body, ContextOverflow) for _, status, body, _ in OVERFLOWS if status != 200]
    kinds += [(status, body, kind) for _, status, body, kind, _ in OTHERS if status != 200]
    answers = [
        Answer(body, status) if isinstance(body, bytes) else json_answer(body, status) for status, body, _ in kinds
    ]
    assert list(map(type, failed(claude, answers))) == [kind for *_, kind in kinds]


# ---- how long to wait

RETRY_INFO = [
    {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45.837906927s"},
]
OPENROUTER = {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800000"}
TPM = "Rate limit reached on tokens per minute (TPM): Limit 6000, Used 5994, Requested 600. Please try again in {}."
GEMINI = (
    "You exceeded your current quota.\\n* Quota exceeded for metric: x, limit: 4000000\\nPlease retry in 47.434392449s."
)
WAITS = [
    # What is said: headers, the error object, the seconds to wait, and the end of the error's text.
    ("nothing", {}, {}, None, "slow"),
    ("a header", {"retry-after": "20"}, {}, 20.0, "slow; it asks to wait 20 s"),
    ("a short one", {"retry-after-ms": "250"}, {}, 0.25, "slow; it asks to wait 0.25 s"),
    ("a long one", {"retry-after": "3600"}, {}, 3600.0, "slow; it asks to wait 3,600 s"),
    ("at once", {"retry-after": "0"}, {}, 0.0, "slow"),
    ("Google's field", {}, {"details": RETRY_INFO}, 45.837906927, "slow; it asks to wait 46 s"),
    ("Google's words", {}, {"message": GEMINI}, 47.434392449, "Please retry in 47.434392449s"),
    ("Groq's words", {}, {"message": TPM.format("1m2.5s")}, 62.5, "Please try again in 1m2.5s"),
    ("OpenAI's words", {}, {"message": TPM.format("6ms")}, 0.006, "Please try again in 6ms"),
    ("Azure's words", {}, {"message": "Please retry after 45 seconds."}, 45.0, "Please retry after 45 seconds"),
    ("hours", {}, {"message": "It will reset after 18h31m10s"}, 66670.0, "It will reset after 18h31m10s"),
    ("a header and words", {"retry-after": "7"}, {"message": TPM.format("9s")}, 7.0, "Please try again in 9s"),
    ("words without a time", {}, {"message": "please try again later"}, None, "please try again later"),
    (
        "a limit that is used up",
        {"x-ratelimit-reset-tokens": "1m30s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-requests": "24h",
         "x-ratelimit-remaining-requests": "7"},
        {}, 90.0, "slow; it asks to wait 90 s",
    ),
]  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
def test_a_wait_is_read_wherever_a_server_states_it_and_is_part_of_the_text(kind):
    bodies = [{"type": "error", "error": {"message": "slow", "type": "a_type"} | error} for _, _, error, _, _ in WAITS]
    errors = failed(WIRES[kind], [json_answer(body, 429, **row[1]) for body, row in zip(bodies, WAITS, strict=True)])
    assert [error.retry_after for error in errors] == [pytest.approx(wait) for *_, wait, _ in WAITS]
    assert [str(error)[-len(end) :] for error, (*_, end) in zip(errors, WAITS, strict=True)] == [
        row[-1] for row in WAITS
    ]


def test_a_moment_at_which_a_limit_ends_becomes_seconds():
    error = refused(
        429, {"error": {"message": "free-models-per-day", "code": 429, "metadata": {"headers": OPENROUTER}}}
    )
    assert error.retry_after == pytest.approx(4102444800 - time.time(), abs=60)


def test_of_an_error_that_would_come_again_no_wait_is_told():
    big = "Request too large for `x` on tokens per minute (TPM): Limit 6000, Requested 12089, please reduce it."
    error = refused(413, {"error": {"message": big, "code": "rate_limit_exceeded"}}, **{"retry-after": "64"})
    assert (type(error), error.retry_after, "wait" in str(error)) == (ContextOverflow, None, False)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("6m0s", 360), ("12ms", 0.012), ("59.7", 59.7), ("1h2m", 3720), ("2 minutes", 120), ("5 milliseconds", 0.005),
     ("1d", 86400), ("20 seconds", 20), ("soon", None), ("", None), ("-3", None), ("nan", None), ("5 metres", None)],
)  # fmt: skip
def test_a_duration_is_read_in_any_unit(text, seconds):
    assert seconds_in(text) == (None if seconds is None else pytest.approx(seconds))


# ---- what may pass


@pytest.mark.parametrize(
    ("exc", "transient"),
    [
        (BadReply("no", {"type": "api_error"}), True),
        (BadReply("no", {"code": 502}), True),
        (BadReply("no", {"code": "429"}), True),
        (BadReply("no", {"code": 400}), False),
        (BadReply("no"), False),
        (StreamBroke("ended"), True),
    ],
)
def test_an_error_inside_an_answer_says_itself_whether_it_may_pass(exc, transient):
    assert model_error("m", exc, key_variable="KEY", secrets=[]).transient is transient
