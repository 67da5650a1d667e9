"""What a request cost, in the shapes of both dialects."""

from collections.abc import Sequence
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


def joint_usage(usages: Sequence[Usage], n: int) -> Usage:
    """What all choices of a request took together.

    The ``n`` answers to a prompt share it: it counts once, and as cached only as far
    as none of them had to compute it.

    Args:
        usages: Of the choices, in the order of their indices.
        n: Answers to each prompt.
    """
    prompts = [usages[at : at + n] for at in range(0, len(usages), n)]
    return Usage(
        prompt_tokens=sum(answers[0].prompt_tokens for answers in prompts),
        output_tokens=sum(usage.output_tokens for usage in usages),
        cached_tokens=sum(min(u.cached_tokens for u in answers) for answers in prompts),
    )


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
