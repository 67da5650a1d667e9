"""Sampling as clients write it: OpenAI's fields, and ours beside them.

Knows how both spell each field of ``SamplingParams``.
"""

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidRequest
from ..grammar import Grammar
from ..sampling import SamplingParams
from .document import Wire


class SamplingFields(Wire, kw_only=True):
    """What every generating request may say. Ranges: see ``SamplingParams``.

    ``top_k``, ``min_p``, ``repetition_penalty``, ``min_tokens``, ``ignore_eos``,
    ``stop_token_ids`` and ``include_stop_str_in_output`` are not OpenAI's; the names
    are those other engines use.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[int, float] | None = None


NAMES = {"include_stop": "include_stop_str_in_output"}


def sampling_params(
    fields: SamplingFields,
    defaults: Mapping[str, float],
    *,
    max_tokens: int | None = None,
    logprobs: int | None = None,
    prompt_logprobs: int | None = None,
    grammar: Grammar | None = None,
    names: Mapping[str, str] | None = None,
) -> SamplingParams:
    """Build the parameters from the client's fields, over the model's defaults.

    Args:
        fields: The request.
        defaults: Recommended sampling, used where the request is silent.
        max_tokens: Most tokens to generate.
        logprobs: How many of the likeliest tokens to report.
        prompt_logprobs: The same for the prompt's tokens.
        grammar: What the answer must look like.
        names: Our field names to the client's, where they differ.

    Raises:
        InvalidRequest: A value outside its range, under the client's name for it.
    """
    said: dict[str, Any] = {
        "max_tokens": max_tokens,
        "logprobs": logprobs,
        "prompt_logprobs": prompt_logprobs,
        "grammar": grammar,
        "include_stop": fields.include_stop_str_in_output,
    }
    for name in SamplingFields.__struct_fields__:
        if name != "include_stop_str_in_output":
            said[name] = getattr(fields, name)
    if said["top_k"] == -1:
        said["top_k"] = 0  # how clients of other engines say: keep all
    stop = said["stop"]
    if stop is not None:
        said["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    if said["stop_token_ids"] is not None:
        said["stop_token_ids"] = tuple(said["stop_token_ids"])
    options: dict[str, Any] = dict(defaults)
    options |= {name: value for name, value in said.items() if value is not None}
    try:
        return SamplingParams(**options)
    except InvalidRequest as error:
        theirs = {**NAMES, **(names or {})}
        if error.field:
            error.field = theirs.get(error.field, error.field)
        raise
