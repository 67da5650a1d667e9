"""The tokenizer: the actor that turns prompts into ids, off the loop.

It renders and encodes in threads of its own, so that a huge prompt stalls neither the
loop nor every other prompt, and fails only the request at fault.
"""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from ..mailbox import Mailbox, MailboxFull
from ..protocol.errors import ContextOverflow, Overloaded
from ..protocol.grammar import Grammar
from ..protocol.prompts import prompt_chars
from ..protocol.requests import Admit, Generate, Prompt
from ..protocol.sampling import SamplingParams
from ..protocol.steps import RowSampling
from .blocking import in_thread
from .orders import OrderLine
from .stages import Stages
from .streams import Streams
from .tracing import Tracer

NUM_THREADS = 2

# Handed to the threads ahead of time. A loop that is busy delivering turns rarely: with
# only as many as there are threads, each turn would admit two requests and no more.
MAX_AHEAD = 64


class Encoder(Protocol):
    """What the tokenizer needs of the text room."""

    @property
    def max_token_bytes(self) -> int:
        """Most bytes that one token can stand for."""
        ...

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Render if it is a conversation, and encode."""
        ...


class Forms(Protocol):
    """What form an answer must have."""

    def choose(self, prompt: Prompt, params: SamplingParams) -> Grammar | None:
        """Find and check the grammar of an answer."""
        ...


class Tokenizer:
    """The tokenizing actor; it lives in the front end's loop.

    Args:
        inbox: Requests to encode.
        encoder: Does it; called from threads.
        forms: Finds the grammars of answers; likewise.
        streams: To find out who still waits, and to fail one.
        core: Takes the admissions.
        tracer: Records each encoding.
        max_context: Positions a sequence may have.
        ends: The model's own end tokens.
    """

    def __init__(
        self,
        inbox: Mailbox[Generate],
        encoder: Encoder,
        forms: Forms,
        streams: Streams,
        core: OrderLine,
        tracer: Tracer,
        *,
        max_context: int,
        ends: Sequence[int],
    ) -> None:
        self._inbox = inbox
        self._encoder = encoder
        self._forms = forms
        self._streams = streams
        self._core = core
        self._tracer = tracer
        self._max_context = max_context
        self._ends = tuple(ends)
        self._under_way: dict[int, Generate] = {}

    async def run(self) -> None:
        """Work until cancelled. A prompt being encoded then finishes in its thread."""
        threads = ThreadPoolExecutor(NUM_THREADS, "legato-tokenizer")
        free = asyncio.Semaphore(MAX_AHEAD)
        try:
            async with asyncio.TaskGroup() as jobs:
                # What this actor left undone if it failed before.
                again = list(self._under_way.values())
                while True:
                    await free.acquire()
                    job = again.pop() if again else await self._inbox.get()
                    self._under_way[job.request] = job
                    jobs.create_task(self._encode(job, threads, free))
        finally:
            # Off the loop: an encoding cannot be interrupted, and may take seconds.
            await in_thread(lambda: threads.shutdown(wait=True, cancel_futures=True))

    async def _encode(
        self, job: Generate, threads: ThreadPoolExecutor, free: asyncio.Semaphore
    ) -> None:
        try:
            stream = self._streams.by_request.get(job.request)
            if stream is not None and not stream.ended:
                stages = stream.stages
                self._check_size(job.prompt)
                stages.encoding_s = time.perf_counter()
                loop = asyncio.get_running_loop()
                work = loop.run_in_executor(threads, self._prepare, job)
                ids, grammar = await work
                stages.encoded_s = time.perf_counter()
                self._trace(job, stages, len(ids))
                self._admit(job, ids, grammar)
        except Exception as error:
            # A tokenizer or template that breaks in a new way breaks one request.
            self._streams.fail(job.request, error)
        finally:
            free.release()
        del self._under_way[job.request]  # only here: not if this actor is failing

    def _prepare(self, job: Generate) -> tuple[tuple[int, ...], Grammar | None]:
        """Do all that takes long; called in a thread."""
        grammar = self._forms.choose(job.prompt, job.params)
        return self._encoder.encode(job.prompt), grammar

    def _check_size(self, prompt: Prompt) -> None:
        """Refuse, before any work on it, a prompt that can never fit.

        Raises:
            ContextOverflow: Its characters alone take more tokens than the context.
        """
        chars = prompt_chars(prompt)
        at_least = chars // max(1, self._encoder.max_token_bytes)
        if at_least >= self._max_context:
            why = f"the model's context of {self._max_context} tokens"
            raise ContextOverflow(at_least, self._max_context - 1, why, at_least=True)

    def _trace(self, job: Generate, stages: Stages, num_tokens: int) -> None:
        if self._tracer.on:
            began_s, ended_s = stages.encoding_s, stages.encoded_s
            self._tracer.span(
                "tokenizer", "encode", began_s, ended_s, num_tokens, (job.request,)
            )

    def _admit(
        self, job: Generate, ids: tuple[int, ...], grammar: Grammar | None
    ) -> None:
        stream = self._streams.by_request.get(job.request)
        if stream is None or stream.ended:
            return
        order = admission(job, ids, self._max_context, self._ends, grammar)
        try:
            self._core.put_nowait(order)
        except MailboxFull:
            raise Overloaded(
                "the scheduler's queue is full", retry_after_s=1.0
            ) from None
        stream.terms.room = self._max_context - len(ids)
        stream.note_admitted(order)


def admission(
    job: Generate,
    ids: tuple[int, ...],
    max_context: int,
    ends: tuple[int, ...],
    grammar: Grammar | None = None,
) -> Admit:
    """Turn an encoded request into the scheduler's words.

    Raises:
        ContextOverflow: The prompt leaves no room for a token.
    """
    params = job.params
    room = max_context - len(ids)
    if room < 1:
        why = f"the model's context of {max_context} tokens"
        raise ContextOverflow(len(ids), max_context - 1, why)
    return Admit(
        request=job.request,
        prompt=ids,
        max_tokens=min(params.max_tokens or room, room),
        sampling=row_sampling(params, ends, grammar),
        stop_token_ids=params.stop_token_ids,
        ignore_eos=params.ignore_eos,
        priority=job.priority,
        tenant=job.tenant,
        created_s=job.created_s,
        ttft_deadline_s=job.ttft_deadline_s,
        total_deadline_s=job.total_deadline_s,
    )


def row_sampling(
    params: SamplingParams, ends: tuple[int, ...], grammar: Grammar | None
) -> RowSampling:
    """Say in the device's words how tokens are chosen."""
    assert params.seed is not None, "the engine draws a seed where none is given"
    return RowSampling(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        seed=params.seed,
        min_tokens=params.min_tokens,
        ends=ends + params.stop_token_ids,
        logprobs=-1 if params.logprobs is None else params.logprobs,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        repetition_penalty=params.repetition_penalty,
        logit_bias=params.logit_bias,
        grammar=grammar,
        prompt_logprobs=-1
        if params.prompt_logprobs is None
        else params.prompt_logprobs,
    )
