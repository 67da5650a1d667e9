"""What the engine core says of requests: tokens, and how they ended."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from .errors import Failure
from .steps import TokenLogprobs


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


class Usage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens a request took.

    Args:
        prompt_tokens: Of the prompt.
        output_tokens: Generated, an end token included.
        cached_tokens: Prompt tokens served from the prefix cache.
    """

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0


class Ended(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The one terminal event of a request.

    Args:
        request: Whose.
        reason: Why.
        usage: What it took.
        failure: Set if and only if the reason is ``error``.
        end_token: The emitted last token is an end token, and no text.
        admitted_s: The clock as the scheduler took it in; 0: it did not.
        started_s: And as it got its first slot; 0: it never did.
    """

    request: int
    reason: FinishReason
    usage: Usage
    failure: Failure | None = None
    end_token: bool = False
    admitted_s: float = 0.0
    started_s: float = 0.0


class Emitted(NamedTuple):
    """One token of one request.

    Args:
        request: Whose.
        token: The id.
        logprobs: If asked for.
    """

    request: int
    token: int
    logprobs: TokenLogprobs | None = None


class Scored(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Log-probabilities of tokens of a prompt.

    Args:
        request: Whose; each of its tokens after the first is told once, in order.
        logprobs: Of the next ones.
    """

    request: int
    logprobs: tuple[TokenLogprobs, ...]


class StepOutput(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that one step means to the streams: one message a step.

    Tokens are held in columns, an object for each would cost more than all the rest
    of their way. A request's tokens always come before its ``Ended``.

    Args:
        requests: Whose each token is; at most one for each request and each step
            merged in.
        tokens: The ids.
        ended: Terminal events.
        finished_s: ``time.perf_counter()`` at the end of the (first) step.
        logprobs: Of the tokens whose requests asked for them, by their position in
            ``tokens``, ascending.
        scored: Of prompts. All of a prompt come before the answer's first token.
    """

    requests: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    ended: tuple[Ended, ...] = ()
    finished_s: float = 0.0
    logprobs: tuple[tuple[int, TokenLogprobs], ...] = ()
    scored: tuple[Scored, ...] = ()

    @classmethod
    def of(
        cls,
        emitted: Iterable[Emitted],
        ended: tuple[Ended, ...] = (),
        finished_s: float = 0.0,
    ) -> "StepOutput":
        """Make it of single tokens."""
        rows = tuple(emitted)
        return cls(
            tuple(row.request for row in rows),
            tuple(row.token for row in rows),
            ended,
            finished_s,
            tuple(
                (position, row.logprobs)
                for position, row in enumerate(rows)
                if row.logprobs is not None
            ),
        )

    @property
    def emitted(self) -> tuple[Emitted, ...]:
        """Its tokens one by one, for whoever has the time."""
        logprobs = dict(self.logprobs)
        return tuple(
            Emitted(request, token, logprobs.get(position))
            for position, (request, token) in enumerate(
                zip(self.requests, self.tokens, strict=True)
            )
        )

    def merge(self, later: "StepOutput") -> "StepOutput":
        """Join a later step's output onto this one."""
        offset = len(self.tokens)
        return StepOutput(
            self.requests + later.requests,
            self.tokens + later.tokens,
            self.ended + later.ended,
            self.finished_s,
            (
                *self.logprobs,
                *((offset + position, entry) for position, entry in later.logprobs),
            ),
            self.scored + later.scored,
        )
