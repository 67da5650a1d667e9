"""How a request wants its tokens chosen, and when it wants to end.

Knows the ranges of every option; what a runner does with them is not its business.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from .errors import InvalidRequest, UnknownOption
from .grammar import Grammar
from .options import OptionsMeta

MAX_STOP_STRINGS = 16
MAX_STOP_CHARACTERS = 1_000
MAX_STOP_TOKENS = 10_000
MAX_BIASED = 10_000
MAX_LOGPROBS = 20
# Of a refused value, in an error's text.
MAX_SHOWN = 100
MAX_SHOWN_BITS = 256


class SamplingParams(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    metaclass=OptionsMeta,
):
    """Choose tokens, and end the answer.

    Args:
        temperature: 0 is greedy; up to 100.
        top_k: Keep the k likeliest tokens; 0 keeps all.
        top_p: Keep the likeliest tokens that together reach this mass, in (0, 1].
        min_p: Drop tokens below this share of the likeliest one's probability, [0, 1].
        seed: Same seed, same request: same text, whatever else runs. None draws one.
        max_tokens: Most tokens to generate; None means up to the context's end.
        min_tokens: No end token before so many tokens.
        stop: Text that ends the answer; it is cut off unless ``include_stop``.
        stop_token_ids: Tokens that end the answer, beside the model's own.
        ignore_eos: Let the model's own end tokens pass.
        include_stop: Leave the stop string in the text.
        logprobs: Report the chosen token's log-probability and that of so many of the
            likeliest tokens, 0 to 20; None reports nothing.
        prompt_logprobs: The same of the prompt's own tokens, from the second on; the
            prompt is then computed whole, whatever is cached of it.
        presence_penalty: Subtracted from the logit of each token already generated,
            [-2, 2].
        frequency_penalty: Subtracted once per time it was generated, [-2, 2].
        repetition_penalty: Divides (or multiplies, if negative) the logits of tokens
            in prompt and answer, [0.01, 10].
        logit_bias: Token id to a value added to its logit, [-100, 100]; at most 10,000.
        grammar: What the answer must look like; it ends only where its form is
            complete, or by ``max_tokens``. Goes with neither ``min_tokens`` nor
            ``ignore_eos``.

    Raises:
        UnknownOption: No such field; names the nearest.
        InvalidRequest: A value is outside its range; the message names field and range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        for field in ("stop", "stop_token_ids"):
            if not isinstance(getattr(self, field), tuple | list):
                raise InvalidRequest("must be a sequence", field=field)
            # A list is as good to the caller; inside, only tuples are hashed and sent.
            msgspec.structs.force_setattr(self, field, tuple(getattr(self, field)))
        for field in ("ignore_eos", "include_stop"):
            if not isinstance(getattr(self, field), bool):
                raise InvalidRequest("must be true or false", field=field)
        within(self.temperature, "temperature", 0, 100)
        whole(self.top_k, "top_k", 0, 2**31 - 1)
        within(self.top_p, "top_p", 0, 1, low_open=True)
        within(self.min_p, "min_p", 0, 1)
        whole(self.min_tokens, "min_tokens", 0, 2**31 - 1)
        within(self.presence_penalty, "presence_penalty", -2, 2)
        within(self.frequency_penalty, "frequency_penalty", -2, 2)
        within(self.repetition_penalty, "repetition_penalty", 0.01, 10)
        if self.seed is not None:
            whole(self.seed, "seed", -(2**63), 2**64 - 1)
        if self.max_tokens is not None:
            whole(self.max_tokens, "max_tokens", 1, 2**31 - 1)
            if self.min_tokens > self.max_tokens:
                raise InvalidRequest(
                    f"{self.min_tokens} is more than max_tokens ({self.max_tokens})",
                    field="min_tokens",
                )
        self._check_counts()
        self._check_stops()
        self._check_grammar()
        if not isinstance(self.logit_bias, dict):  # pyright: ignore[reportUnnecessaryIsInstance] # as above
            raise InvalidRequest("must map token ids to numbers", field="logit_bias")
        if len(self.logit_bias) > MAX_BIASED:
            raise InvalidRequest(
                f"has at most {MAX_BIASED} tokens, got {len(self.logit_bias)}",
                field="logit_bias",
            )
        for token, bias in self.logit_bias.items():
            whole(token, "logit_bias", 0, 2**31 - 1)
            within(bias, "logit_bias", -100, 100)

    def _check_counts(self) -> None:
        for field in ("logprobs", "prompt_logprobs"):
            count = getattr(self, field)
            if count is not None:
                whole(count, field, 0, MAX_LOGPROBS)

    def _check_grammar(self) -> None:
        if self.grammar is None:
            return
        if not isinstance(self.grammar, Grammar):  # pyright: ignore[reportUnnecessaryIsInstance] # callers may pass anything
            raise InvalidRequest("must be a Grammar", field="grammar")
        for field in ("min_tokens", "ignore_eos"):
            if getattr(self, field):
                raise InvalidRequest(
                    "cannot be combined with a form that the answer must have",
                    field=field,
                )

    def _check_stops(self) -> None:
        if len(self.stop) > MAX_STOP_STRINGS:
            raise InvalidRequest(
                f"at most {MAX_STOP_STRINGS} stop strings, got {len(self.stop)}",
                field="stop",
            )
        for text in self.stop:
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] # callers may pass anything
                raise InvalidRequest(f"must be text, got {text!r}", field="stop")
            if not text:
                raise InvalidRequest("a stop string must not be empty", field="stop")
            if len(text) > MAX_STOP_CHARACTERS:
                raise InvalidRequest(
                    f"a stop string has at most {MAX_STOP_CHARACTERS} characters",
                    field="stop",
                )
        if len(self.stop_token_ids) > MAX_STOP_TOKENS:
            raise InvalidRequest(
                f"has at most {MAX_STOP_TOKENS} tokens, got {len(self.stop_token_ids)}",
                field="stop_token_ids",
            )
        for token in self.stop_token_ids:
            whole(token, "stop_token_ids", 0, 2**31 - 1)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "SamplingParams":
        """Build from loose options, strictly typed.

        Raises:
            UnknownOption: A name that is not a field, with the nearest one.
            InvalidRequest: A wrong type or a value outside its range.
        """
        for name in options:
            if name not in cls.__struct_fields__:
                raise UnknownOption(name, cls.__struct_fields__)
        try:
            return msgspec.convert(dict(options), cls)
        except msgspec.ValidationError as error:
            text, _, path = str(error).partition(" - at `$.")
            raise InvalidRequest(text, field=path.rstrip("`") or None) from error


def whole(value: object, field: str, low: int, high: int) -> None:
    """Refuse anything that is not an integer in its range.

    Raises:
        InvalidRequest: Names the field and the range.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"must be an integer, got {shown(value)}", field=field)
    within(value, field, low, high)


def within(
    value: object, field: str, low: float, high: float, *, low_open: bool = False
) -> None:
    """Refuse a number outside its range, and anything that is not a finite number.

    Raises:
        InvalidRequest: Names the field and the range.
    """
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        # An integer is finite, but may be too large to be asked as a float.
        or (isinstance(value, float) and not math.isfinite(value))
        or not low <= value <= high
        or (low_open and value == low)
    ):
        bracket = "(" if low_open else "["
        raise InvalidRequest(
            f"must be a number in {bracket}{low:g}, {high:g}], got {shown(value)}",
            field=field,
        )


def shown(value: object) -> str:
    """A refused value for an error's text, which an endless one must not fill."""
    if isinstance(value, int) and value.bit_length() > MAX_SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
