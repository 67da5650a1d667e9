"""What the front end and the engine core say to each other about requests.

A request's number (``request``) is the engine's own, dense and never reused; the names
clients see belong to the front end.
"""

import msgspec

from .outputs import Emitted as Emitted
from .outputs import Ended as Ended
from .outputs import FinishReason as FinishReason
from .outputs import Scored as Scored
from .outputs import StepOutput as StepOutput
from .outputs import Usage as Usage
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
        scored: Of the prompt's tokens after the first, those whose log-probabilities
            were told before a crash.
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
    scored: int = 0

    def resumed(self, emitted: tuple[int, ...], scored: int = 0) -> "Admit":
        """Return it for a new core, which is to go on from these tokens."""
        most = max(self.max_tokens, len(emitted))
        return msgspec.structs.replace(
            self, emitted=emitted, max_tokens=most, scored=scored
        )


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


class PromptLogprobs(msgspec.Struct, frozen=True, gc=False):
    """A prompt as the model has it, and how likely it found each token.

    Args:
        token_ids: The prompt.
        logprobs: One for each; None for the first, which nothing comes before.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs | None, ...]


class Delta(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a reader gets next: text that no earlier delta held.

    Args:
        text: New text; may be empty while a character or stop string is incomplete.
        token_ids: The ids behind it, gated together with the text.
        logprobs: One for each id, if asked for.
        finish_reason: Set in the last delta, and only there.
        usage: Set in the last delta, and only there.
        prompt: Set in the first delta, if asked for.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    prompt: PromptLogprobs | None = None

    def merge(self, later: "Delta") -> "Delta":
        """Join a later delta onto this one, for a reader that lags."""
        return Delta(
            self.text + later.text,
            self.token_ids + later.token_ids,
            self.logprobs + later.logprobs,
            later.finish_reason,
            later.usage,
            self.prompt or later.prompt,
        )


class Completion(msgspec.Struct, frozen=True):
    """A whole answer.

    Args:
        text: All of it.
        token_ids: The ids behind it.
        finish_reason: Why it ended.
        usage: What it took.
        logprobs: One for each id, if asked for.
        prompt: The prompt's own, if asked for.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt: PromptLogprobs | None = None
