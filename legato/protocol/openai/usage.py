"""What a request cost, in the shapes of both dialects."""

from typing import Any

from ..requests import Usage


def chat_usage(usage: Usage) -> dict[str, Any]:
    """For ``/v1/chat/completions`` and ``/v1/completions``."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def response_usage(usage: Usage) -> dict[str, Any]:
    """For the Responses API."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }
