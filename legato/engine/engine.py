"""The engine: what people embed.

    async with Engine("smollm2") as engine:
        async with engine.stream("Once upon a time") as stream:
            async for delta in stream:
                print(delta.text, end="")

It runs in the caller's asyncio loop, with one thread for the core and one for the
device, and leaves nothing running behind.
"""

import secrets
import time
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import Any

import msgspec

from ..actors.core import Core
from ..actors.scheduling.batching import Batching
from ..actors.text import ToolParser
from ..gpu.source import Model, Progress
from ..mailbox import MailboxFull
from ..protocol.errors import Overloaded
from ..protocol.requests import Completion, Generate
from ..protocol.sampling import SamplingParams
from .lifetime import Lifetime
from .prompt import AnyPrompt, as_prompt
from .settings import EngineSettings
from .stats import EngineStats
from .stream import Stream, StreamContext
from .terms import check_ids, check_terms


class Engine:
    """A model, streaming.

    Args:
        model: ``smollm2``, a ``.gguf`` file, a directory with safetensors, ``fake``
            (a paced device without a model), or a ``Model``.
        settings: All settings at once; or give single ones by name as ``options``.
        progress: Told the share of the weights loaded, 0 to 1, and what is loading;
            called from another thread.
        options: Fields of ``EngineSettings``.

    Raises:
        UnknownOption: No such setting; names the nearest.
        InvalidSetting: A value of the wrong type.
    """

    def __init__(
        self,
        model: str | Model = "smollm2",
        settings: EngineSettings | None = None,
        *,
        progress: Progress | None = None,
        **options: Any,
    ) -> None:
        if settings is not None:
            known = {
                name: getattr(settings, name) for name in settings.__struct_fields__
            }
            options = known | options
        self.settings = EngineSettings.of(options)
        self._life = Lifetime(model, self.settings, progress)
        self._numbers = count(1)

    @property
    def name(self) -> str:
        """The name clients ask for."""
        return self._life.name

    async def __aenter__(self) -> "Engine":
        """Load the model and start every actor.

        Raises:
            InvalidModel: The model is missing, broken or of an unknown kind.
            InvalidSetting: A setting cannot work here, with the numbers.
            EngineFailed: The device could not be built.
        """
        await self._life.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._life.stop()

    async def drain(self, deadline_s: float) -> None:
        """Admit nothing more, and wait until the open streams have ended.

        Those that are still open at the deadline end with ``EngineClosed``.
        """
        await self._life.drain(deadline_s)

    # -- answers ---------------------------------------------------------------

    def stream(
        self,
        prompt: AnyPrompt,
        params: SamplingParams | None = None,
        *,
        priority: int = 0,
        tenant: str = "",
        ttft_deadline_s: float = 0.0,
        total_deadline_s: float = 0.0,
    ) -> StreamContext:
        """Open an answer: ``async with engine.stream(…) as stream``.

        Args:
            prompt: Text, token ids, or messages (``ChatMessage`` or mappings).
            params: None takes the model's recommended sampling.
            priority: Lower runs earlier.
            tenant: Who shares fairly with whom.
            ttft_deadline_s: Give up unless the first token came by then; 0 never.
            total_deadline_s: Give up unless it ended by then; 0 never.

        Entering raises:
            InvalidRequest: The prompt is of no known form, or an id is out of range.
            Overloaded: Too many streams are open.
            EngineClosed: The engine does not run (any more).
            EngineFailed: It died. Or, ``EngineStalled``: it hangs.
        """
        chosen = params if params is not None else self.params()

        def request(number: int, params: SamplingParams) -> Generate:
            check_terms(priority, tenant, ttft_deadline_s, total_deadline_s)
            return Generate(
                request=number,
                prompt=as_prompt(prompt, self.settings.max_prompt_chars),
                params=params,
                priority=priority,
                tenant=tenant,
                created_s=time.perf_counter(),
                ttft_deadline_s=ttft_deadline_s,
                total_deadline_s=total_deadline_s,
            )

        return StreamContext(lambda: self._open_stream(request, chosen))

    async def generate(
        self, prompt: AnyPrompt, params: SamplingParams | None = None, **options: Any
    ) -> Completion:
        """Answer at once; the arguments are those of ``stream``.

        Raises:
            LegatoError: As entering and reading the stream do.
        """
        async with self.stream(prompt, params, **options) as stream:
            return await stream.collect()

    def params(self, **options: Any) -> SamplingParams:
        """Sampling with the model's recommendations where the options are silent.

        Raises:
            UnknownOption: No such option.
            InvalidRequest: A value outside its range.
        """
        return SamplingParams.of(self.default_params() | options)

    def default_params(self) -> dict[str, Any]:
        """What the model's makers recommend."""
        defaults = self._life.assembly.text.defaults
        return {k: int(v) if k == "top_k" else v for k, v in defaults.items()}

    def encode(self, prompt: AnyPrompt) -> tuple[int, ...]:
        """Render and encode a prompt; blocks for the time of it.

        Raises:
            InvalidRequest: It cannot be encoded.
        """
        limit = self.settings.max_prompt_chars
        return self._life.assembly.encoder.encode(as_prompt(prompt, limit))

    def decode(self, ids: tuple[int, ...]) -> str:
        """The text of token ids, special tokens hidden."""
        return self._life.assembly.vocabulary.decode(ids)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token; b"" for one that is no text."""
        return self._life.assembly.vocabulary.token_bytes(token)

    def tool_parser(self) -> ToolParser:
        """Make a reader of calls for one answer to a ``Conversation``."""
        return self._life.assembly.forms.parser()

    # -- looking in ------------------------------------------------------------

    @property
    def state(self) -> str:
        """Where it is in its life.

        ``starting``, ``ready``, ``stalled``, ``draining``, ``failed`` or ``closed``.
        """
        return self._life.door.state

    @property
    def failure(self) -> str:
        """Why it failed or is stalled, or ""."""
        return self._life.door.failure

    @property
    def core(self) -> Core | None:
        """The core of the moment; a new one after a crash."""
        return self._life.assembly.keeper.core

    @property
    def max_context(self) -> int:
        """Most positions of a sequence, prompt and answer."""
        return self._life.assembly.limits.max_context

    @property
    def page_bytes(self) -> int:
        """Memory of one page of the key-value cache; 0 without a real device."""
        return self._life.assembly.limits.page_bytes

    @property
    def vocab_size(self) -> int:
        """Token ids are below this."""
        return self._life.assembly.limits.vocab_size

    @property
    def can_chat(self) -> bool:
        """The model has a chat template."""
        return self._life.assembly.text.chat_template is not None

    @property
    def memory_report(self) -> str:
        """How the page pool was sized."""
        return self._life.assembly.memory

    def stats(self) -> EngineStats:
        """A snapshot of everything."""
        return self._life.stats()

    def metrics_text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return self._life.metrics.text()

    async def trace(self, duration_s: float) -> bytes:
        """Record what every actor and the device do, for Perfetto or Chrome.

        Cancelling ends the recording.

        Args:
            duration_s: How long; at most ten minutes.

        Raises:
            InvalidRequest: A length out of range.
            Overloaded: Another trace is being recorded.
            EngineFailed: It died, and does nothing that could be recorded.
            EngineClosed: It is over.
        """
        tracing = self._life.assembly.tracing
        self._life.check_loop()
        self._life.door.check_alive()
        return await tracing.record(duration_s, self.name)

    def set_batching(self, batching: Batching) -> None:
        """Change the batching strategy; running sequences are not touched."""
        self._life.assembly.set_batching(batching)

    async def wait_idle(self) -> None:
        """Wait until the core has nothing left to run; ``stats`` is then exact."""
        await self._life.wait_idle()

    # -- inside ----------------------------------------------------------------

    def _open_stream(
        self, request: Callable[[int, SamplingParams], Generate], params: SamplingParams
    ) -> Stream:
        now_s = time.perf_counter()
        assembly = self._life.assembly
        self._life.check_loop()
        streams = assembly.streams
        self._life.door.check(len(streams), streams.backlog.tokens, now_s)
        check_ids(params, self.vocab_size)
        if params.seed is None:
            params = msgspec.structs.replace(params, seed=secrets.randbits(63))
        generate = request(next(self._numbers), params)
        opened = streams.open(generate)
        try:
            assembly.prompts.put_nowait(generate)
        except MailboxFull:
            streams.forget(generate.request)
            raise Overloaded(
                "too many prompts wait to be tokenized", retry_after_s=1.0
            ) from None
        tracer = assembly.tracing.tracer
        if tracer.on:
            ended_s = time.perf_counter()
            requests = (generate.request,)
            tracer.span("engine", "generate", now_s, ended_s, requests=requests)
        return Stream(opened, streams)
