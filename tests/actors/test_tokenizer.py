import asyncio
import threading
from collections.abc import Awaitable, Callable

from legato.actors.open_stream import OpenStream
from legato.actors.orders import OrderLine
from legato.actors.stages import Stages
from legato.actors.streams import Streams
from legato.actors.text import AnswerForms, Vocabulary
from legato.actors.tokenizer import Tokenizer
from legato.actors.tracing import Tracer
from legato.gpu.fake import fake_text
from legato.mailbox import Mailbox
from legato.protocol.errors import ContextOverflow, EngineFailed, Overloaded
from legato.protocol.requests import Admit, FinishReason, Generate, Prompt, Usage
from legato.protocol.sampling import SamplingParams
from legato.protocol.tracing import TraceSpan

VOCABULARY = Vocabulary.load(fake_text().vocabulary)


class Deaf:
    """An observer that does not listen."""

    def first_token(self, ttft_s: float) -> None: ...
    def token_gap(self, itl_s: float, tokens: int) -> None: ...
    def ended(self, reason: FinishReason, usage: Usage, stages: Stages) -> None: ...


class SlowEncoder:
    """Encodes bytes; a prompt that begins with ``hold`` waits, ``boom`` breaks."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.threads: set[str] = set()

    max_token_bytes = 4

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        assert isinstance(prompt, str)
        self.threads.add(threading.current_thread().name)
        if prompt.startswith("hold"):
            assert self.go.wait(10)
        if prompt.startswith("boom"):
            raise ZeroDivisionError("a template broke in a new way")
        return tuple(prompt.encode())


class Desk:
    def __init__(self, core_room: int = 64) -> None:
        self.core = Mailbox[object]("core", core_room)
        self.line = OrderLine()
        self.line.connect(self.core.address())
        self.streams = Streams(VOCABULARY, self.line, Deaf())
        self.inbox = Mailbox[Generate]("tokenizer", 16)
        self.encoder = SlowEncoder()
        self.tracer = Tracer()
        self.tokenizer = Tokenizer(
            self.inbox,
            self.encoder,
            AnswerForms(VOCABULARY, fake_text()),
            self.streams,
            self.line,
            self.tracer,
            max_context=100,
            ends=(256,),
        )

    def ask(self, request: int, prompt: str, **options: object) -> OpenStream:
        params = SamplingParams.of({"seed": 1, **options})
        generate = Generate(request, prompt, params)
        stream = self.streams.open(generate)
        self.inbox.address().put_nowait(generate)
        return stream

    async def admitted(self) -> Admit:
        order = await self.core.get()
        assert isinstance(order, Admit)
        return order


def perform(body: Callable[[Desk], Awaitable[None]], **options: int) -> None:
    async def main() -> None:
        desk = Desk(**options)
        running = asyncio.create_task(desk.tokenizer.run())
        await body(desk)
        desk.encoder.go.set()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(main())


async def failure(stream: OpenStream) -> object:
    while not stream.ended:
        await stream.bell.heard()
    return stream.failure


def test_a_prompt_becomes_an_admission():
    async def body(desk: Desk) -> None:
        stream = desk.ask(1, "hello", temperature=0.5, max_tokens=7, stop_token_ids=[9])
        order = await desk.admitted()
        assert order.prompt == tuple(b"hello")
        assert order.max_tokens == 7
        assert order.sampling.temperature == 0.5
        assert order.sampling.ends == (256, 9)
        assert order.stop_token_ids == (9,)
        assert stream.admit == order
        assert all("legato-tokenizer" in name for name in desk.encoder.threads)

    perform(body)


def test_an_encoding_is_marked_and_recorded():
    async def body(desk: Desk) -> None:
        desk.tracer.start()
        stream = desk.ask(1, "hello")
        await desk.admitted()
        stages = stream.stages
        assert 0 < stages.encoding_s <= stages.encoded_s
        (span,) = desk.tracer.stop().events
        assert span == TraceSpan(
            "tokenizer", "encode", stages.encoding_s, stages.encoded_s, 5, (1,)
        )

    perform(body)


def test_a_turn_of_the_loop_takes_more_prompts_than_there_are_threads():
    async def body(desk: Desk) -> None:
        streams = [desk.ask(number, f"hold {number}") for number in range(12)]
        for _ in range(100):
            await asyncio.sleep(0)
        assert not desk.inbox.stats().depth
        assert all(stream.admit is None for stream in streams)
        desk.encoder.go.set()
        for _ in streams:
            await desk.admitted()

    perform(body)


def test_max_tokens_is_cut_to_the_context():
    async def body(desk: Desk) -> None:
        desk.ask(1, "x" * 90, max_tokens=50)
        assert (await desk.admitted()).max_tokens == 10
        desk.ask(2, "x" * 99)
        assert (await desk.admitted()).max_tokens == 1

    perform(body)


def test_a_prompt_without_room_fails_alone():
    async def body(desk: Desk) -> None:
        full, good = desk.ask(1, "x" * 100), desk.ask(2, "fine")
        error = await failure(full)
        assert isinstance(error, ContextOverflow)
        assert (error.prompt_tokens, error.limit_tokens) == (100, 99)
        assert (await desk.admitted()).request == good.request

    perform(body)


def test_a_prompt_that_breaks_the_encoder_fails_alone():
    async def body(desk: Desk) -> None:
        broken, good = desk.ask(1, "boom"), desk.ask(2, "fine")
        assert isinstance(await failure(broken), EngineFailed)
        assert (await desk.admitted()).request == good.request

    perform(body)


def test_a_slow_prompt_does_not_hold_up_a_quick_one():
    async def body(desk: Desk) -> None:
        desk.ask(1, "hold on")
        desk.ask(2, "quick")
        assert (await desk.admitted()).request == 2
        desk.encoder.go.set()
        assert (await desk.admitted()).request == 1

    perform(body)


def test_a_reader_that_leaves_while_its_prompt_is_encoded_is_never_admitted():
    async def body(desk: Desk) -> None:
        desk.ask(1, "hold on")
        desk.ask(2, "quick")
        await desk.admitted()
        desk.streams.forget(1)
        desk.encoder.go.set()
        desk.ask(3, "last")
        desk.ask(4, "very last")
        orders = {(await desk.admitted()).request for _ in range(2)}
        assert orders == {3, 4}
        assert desk.core.drain_nowait() == []

    perform(body)


def test_a_full_core_refuses_one_and_says_when_to_come_back():
    async def body(desk: Desk) -> None:
        desk.core.address().put_nowait("in the way")
        refused = desk.ask(2, "hold second")
        desk.encoder.go.set()
        error = await failure(refused)
        assert isinstance(error, Overloaded)
        assert error.retry_after_s > 0

    perform(body, core_room=1)


def test_a_prompt_that_can_never_fit_is_refused_without_being_encoded():
    async def body(desk: Desk) -> None:
        refused = desk.ask(1, "hold" * 200)
        error = await failure(refused)
        assert isinstance(error, ContextOverflow)
        assert "at least 200 tokens" in str(error)
        assert desk.encoder.threads == set()

    perform(body)


def test_ending_while_a_prompt_is_encoded_does_not_stop_the_loop():
    async def main() -> None:
        desk = Desk()
        running = asyncio.create_task(desk.tokenizer.run())
        desk.ask(1, "hold on")
        desk.ask(2, "quick")
        await desk.admitted()
        running.cancel()
        turns = 0
        while turns < 50:
            await asyncio.sleep(0)
            turns += 1
        assert not running.done()
        desk.encoder.go.set()
        await asyncio.wait([running])

    asyncio.run(main())
