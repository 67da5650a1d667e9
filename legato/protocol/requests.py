"""What the front end and the engine core say to each other about requests.

A request's number (``request``) is the engine's own, dense and never reused; the names
clients see belong to the front end.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from .errors import Failure
from .prompts import ChatMessage as ChatMessage
from .prompts import Conversation as Conversation
from .prompts import Prompt
from .sampling import SamplingParams
from .steps import RowSampling, TokenLogprobs


class Generate(msgspec.Struct, frozen=True, gc=False):
    """Ask the tokenizer to render and encode, then pass on to the scheduler.

    Args:
        request: The engine's number.
        prompt: Plain text, token ids, or a conversation for the chat template, with or
            without functions at hand.
        params: Sampling and endings.
        priority: Lower runs earlier; 0 is usual.
        tenant: Who shares fairly with whom.
        created_s: ``time.perf_counter()`` at the engine's door.
        ttft_deadline_s: Seconds from ``created_s`` to the first token; 0 is none.
        total_deadline_s: Seconds from ``created_s`` to the end; 0 is none.
    """

    request: int
    prompt: Prompt
    params: SamplingParams
    priority: int = 0
    tenant: str = ""
    created_s: float = 0.0
    ttft_deadline_s: float = 0.0
    total_deadline_s: float = 0.0


class Admit(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Ask the scheduler to run a sequence.

    Args:
        request: The engine's number.
        prompt: Token ids, at least one.
        max_tokens: Most tokens to generate, at least one; already cut to the context.
        sampling: For the device. Its ``ends`` are also the tokens that end the answer
            from ``min_tokens`` on, unless ``ignore_eos``.
        stop_token_ids: Tokens that end the answer even if ``ignore_eos``.
        ignore_eos: ``sampling.ends`` do not end the answer.
        emitted: Tokens generated before a crash, to go on from; usually empty.
        priority: Lower runs earlier.
        tenant: For fair shares.
        created_s: The engine's clock at its door.
        ttft_deadline_s: Seconds from ``created_s``; 0 is none.
        total_deadline_s: Seconds from ``created_s``; 0 is none.
    """

    request: int
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: RowSampling
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    emitted: tuple[int, ...] = ()
    priority: int = 0
    tenant: str = ""
    created_s: float = 0.0
    ttft_deadline_s: float = 0.0
    total_deadline_s: float = 0.0

    def resumed(self, emitted: tuple[int, ...]) -> "Admit":
        """Return it for a new core, which is to go on from these tokens."""
        most = max(self.max_tokens, len(emitted))
        return msgspec.structs.replace(self, emitted=emitted, max_tokens=most)


class Cancel(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """End a request early. Unknown or ended requests are ignored.

    Args:
        request: Which.
        reason: ``cancelled``, or ``stop`` when a stop string was found in its text.
    """

    request: int
    reason: str = "cancelled"


class Credit(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Pause a request whose reader lags, or let it run again.

    Args:
        request: Which.
        granted: False pauses it, True resumes it.
    """

    request: int
    granted: bool


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
    """

    requests: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    ended: tuple[Ended, ...] = ()
    finished_s: float = 0.0
    logprobs: tuple[tuple[int, TokenLogprobs], ...] = ()

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
        )


class Delta(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a reader gets next: text that no earlier delta held.

    Args:
        text: New text; may be empty while a character or stop string is incomplete.
        token_ids: The ids behind it, gated together with the text.
        logprobs: One for each id, if asked for.
        finish_reason: Set in the last delta, and only there.
        usage: Set in the last delta, and only there.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None

    def merge(self, later: "Delta") -> "Delta":
        """Join a later delta onto this one, for a reader that lags."""
        return Delta(
            self.text + later.text,
            self.token_ids + later.token_ids,
            self.logprobs + later.logprobs,
            later.finish_reason,
            later.usage,
        )


class Completion(msgspec.Struct, frozen=True):
    """A whole answer.

    Args:
        text: All of it.
        token_ids: The ids behind it.
        finish_reason: Why it ended.
        usage: What it took.
        logprobs: One for each id, if asked for.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    logprobs: tuple[TokenLogprobs, ...] = ()
