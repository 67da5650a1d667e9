"""Streams and the detokenizer, fed by hand."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from legato.actors.detokenizer import Detokenizer
from legato.actors.open_stream import OpenStream
from legato.actors.orders import OrderLine
from legato.actors.stages import Stages
from legato.actors.streams import Streams
from legato.actors.text import Vocabulary
from legato.actors.tokenizer import admission
from legato.actors.tracing import Tracer
from legato.gpu.fake import fake_text
from legato.mailbox import LoopInbox, Mailbox
from legato.protocol.core import CoreReport
from legato.protocol.errors import EngineFailed, Failure, MailboxMisused
from legato.protocol.requests import (
    Admit,
    Cancel,
    Credit,
    Delta,
    Emitted,
    Ended,
    FinishReason,
    Generate,
    StepOutput,
    Usage,
)
from legato.protocol.sampling import SamplingParams
from legato.protocol.tracing import TraceSpan

VOCABULARY = Vocabulary.load(fake_text().vocabulary)


class Cursed:
    """A vocabulary with one token that breaks it."""

    token = 66

    def token_bytes(self, token: int) -> bytes:
        if token == self.token:
            raise ZeroDivisionError
        return bytes([token])


class Ears:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.ends: list[tuple[FinishReason, Usage]] = []
        self.stages: Stages | None = None
        self.firsts = 0
        self.gaps = 0

    def first_token(self, ttft_s: float) -> None:
        self.firsts += 1

    def token_gap(self, itl_s: float, tokens: int) -> None:
        self.gaps += tokens

    def ended(self, reason: FinishReason, usage: Usage, stages: Stages) -> None:
        self.stages = stages
        self.ends.append((reason, usage))


class Desk:
    """A front end without tokenizer or core."""

    def __init__(self, vocabulary: Vocabulary = VOCABULARY) -> None:
        self.orders = Mailbox[object]("orders", 64)
        self.line = OrderLine()
        self.line.connect(self.orders.address())
        self.ears = Ears()
        self.streams = Streams(vocabulary, self.line, self.ears)
        self.news: list[CoreReport] = []
        self.tracer = Tracer()
        self.detokenizer = Detokenizer(
            LoopInbox[CoreReport]("reports", 8),
            self.streams,
            self.tracer,
            self.news.append,
        )

    def open(self, request: int = 1, **options: object) -> OpenStream:
        params = SamplingParams.of({"seed": 1, **options})
        generate = Generate(request, "hello", params)
        stream = self.streams.open(generate)
        stream.note_admitted(admission(generate, (104, 105), 2048, (256,)))
        return stream

    def step(self, text: bytes, request: int = 1, ended: Ended | None = None) -> None:
        """One step a byte, all merged in one report."""
        emitted = tuple(Emitted(request, byte) for byte in text)
        if ended is not None and ended.end_token:
            emitted += (Emitted(request, 256),)
        ends = () if ended is None else (ended,)
        self.detokenizer.handle([CoreReport(output=StepOutput.of(emitted, ends))])

    def sent(self) -> list[object]:
        return self.orders.drain_nowait()


def perform(
    body: Callable[[Desk], Awaitable[None]], vocabulary: Vocabulary = VOCABULARY
) -> None:
    async def main() -> None:
        await body(Desk(vocabulary))

    asyncio.run(main())


async def read(stream: OpenStream) -> Delta:
    """Read as an engine's stream does."""
    while (delta := stream.take()) is None:
        assert not stream.ended
        await stream.bell.heard()
    return delta


async def read_all(stream: OpenStream) -> list[Delta]:
    deltas: list[Delta] = []
    while (delta := stream.take()) is not None or not stream.ended:
        if delta is None:
            await stream.bell.heard()
        else:
            deltas.append(delta)
    return deltas


def end(reason: FinishReason = FinishReason.LENGTH, **more: object) -> Ended:
    return Ended(1, reason, Usage(2, 9), **more)  # pyright: ignore[reportArgumentType]


def test_a_lagging_reader_gets_deltas_merged():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        desk.step(b"one ")
        desk.step(b"two ")
        assert (await read(stream)).text == "one two "
        desk.step(b"three", ended=end())
        (last,) = await read_all(stream)
        assert last.text == "three"
        assert last.finish_reason is FinishReason.LENGTH
        assert last.usage == Usage(2, 9)
        assert desk.ears.ends == [(FinishReason.LENGTH, Usage(2, 9))]
        assert desk.ears.firsts == 1
        assert desk.ears.gaps == len("one two three") - 1

    perform(body)


def test_half_a_character_waits_for_its_other_half():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        first, second = "é".encode()
        desk.step(b"caf" + bytes([first]))
        assert (await read(stream)).text == "caf"
        desk.step(bytes([second]))
        assert (await read(stream)).text == "é"

    perform(body)


def test_a_character_that_never_completes_is_flushed_before_the_end():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        desk.step("é".encode()[:1], ended=end())
        assert "".join(d.text for d in await read_all(stream)) == "\ufffd"

    perform(body)


def test_an_end_token_is_counted_and_is_no_text():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        desk.step(b"bye", ended=end(FinishReason.STOP, end_token=True))
        (delta,) = await read_all(stream)
        assert delta.text == "bye"
        assert delta.token_ids == (*b"bye", 256)

    perform(body)


def test_a_stop_string_cuts_at_once_and_tells_the_core():
    async def body(desk: Desk) -> None:
        stream = desk.open(stop=["END"])
        desk.step(b"text EN")
        assert (await read(stream)).text == "text "
        desk.step(b"D more")
        assert desk.sent() == [Cancel(1, "stop")]
        desk.step(b"still more", ended=end(FinishReason.STOP))
        (last,) = await read_all(stream)
        assert last.text == ""
        assert last.finish_reason is FinishReason.STOP
        assert last.usage == Usage(2, len("text END"))

    perform(body)


def test_text_held_for_a_stop_that_never_comes_is_released_at_the_end():
    async def body(desk: Desk) -> None:
        stream = desk.open(stop=["END"])
        desk.step(b"EN", ended=end())
        assert "".join(d.text for d in await read_all(stream)) == "EN"

    perform(body)


def test_a_reader_that_stops_is_paused_and_resumed_by_its_reading():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        desk.step(b"x" * 257)
        desk.step(b"y")
        assert desk.sent() == [Credit(1, False)]
        assert len((await read(stream)).text) == 258
        assert desk.sent() == [Credit(1, True)]

    perform(body)


def test_a_streams_stages_are_marked_with_the_cores_own():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        desk.step(b"a")
        desk.step(b"b", ended=end(admitted_s=3.0, started_s=4.0))
        stages = desk.ears.stages
        assert stages is stream.stages
        assert (stages.admitted_s, stages.started_s) == (3.0, 4.0)
        assert 0 < stages.first_token_s <= stages.ended_s

    perform(body)


def test_steps_that_waited_together_are_delivered_together():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        steps = [StepOutput.of((Emitted(1, byte),)) for byte in b"abc"]
        steps[-1] = StepOutput.of(steps[-1].emitted, (end(),))
        desk.detokenizer.handle([CoreReport(output=step) for step in steps])
        (delta,) = await read_all(stream)
        assert (delta.text, delta.token_ids) == ("abc", tuple(b"abc"))
        assert delta.finish_reason is FinishReason.LENGTH
        assert len(desk.news) == 3

    perform(body)


def test_a_core_that_never_pauses_does_not_keep_readers_from_their_turn():
    turns: list[str] = []

    async def main() -> None:
        desk = Desk()
        stream = desk.open()
        inbox = LoopInbox[CoreReport]("reports", 8)
        reports = inbox.address()
        step = CoreReport(output=StepOutput.of((Emitted(1, 97),)))

        def report_again(_report: CoreReport) -> None:
            turns.append("step")
            if len(turns) < 20:
                reports.put_nowait(step)

        async def read_on() -> None:
            while True:
                await read(stream)
                turns.append("read")

        detokenizer = Detokenizer(inbox, desk.streams, desk.tracer, report_again)
        tasks = [asyncio.create_task(read_on()), asyncio.create_task(detokenizer.run())]
        reports.put_nowait(step)
        for _ in range(1000):
            if len(turns) >= 20:
                break
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    asyncio.run(main())
    assert len(turns) >= 20
    assert "step,step,step" not in ",".join(turns)


def test_a_delivery_is_recorded_with_the_requests_it_ends():
    async def body(desk: Desk) -> None:
        desk.open()
        desk.step(b"x")
        desk.tracer.start()
        desk.step(b"ab", ended=end())
        events = desk.tracer.stop().events
        spans = [event for event in events if isinstance(event, TraceSpan)]
        assert [(span.track, span.count, span.requests) for span in spans] == [
            ("detokenizer", 2, (1, 1)),
            ("streams", 0, (1,)),
        ]

    perform(body)


def test_only_the_first_end_counts():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        desk.step(b"a", ended=end())
        desk.step(b"b", ended=end(FinishReason.STOP))
        assert [d.text for d in await read_all(stream)] == ["a"]
        assert len(desk.ears.ends) == 1

    perform(body)


def test_a_failure_comes_after_the_text_before_it():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        failure = Failure("engine_failed", "melted")
        desk.step(b"so far", ended=end(FinishReason.ERROR, failure=failure))
        assert [d.text for d in await read_all(stream)] == ["so far"]
        assert isinstance(stream.failure, EngineFailed)

    perform(body)


def test_text_that_breaks_fails_its_own_stream_alone():
    async def body(desk: Desk) -> None:
        broken, whole = desk.open(1), desk.open(2)
        odd, fine = Emitted(1, Cursed.token), Emitted(2, 67)
        desk.detokenizer.handle([CoreReport(output=StepOutput.of((odd, fine)))])
        assert (await read(whole)).text == "C"
        await read_all(broken)
        assert isinstance(broken.failure, EngineFailed)
        assert Cancel(1) in desk.sent()

    perform(body, Cursed())  # pyright: ignore[reportArgumentType]


def test_output_for_a_reader_that_left_is_nobodys():
    async def body(desk: Desk) -> None:
        desk.open()
        desk.streams.forget(1)
        assert desk.sent() == [Cancel(1)]
        desk.step(b"late", ended=end())
        assert len(desk.streams) == 0

    perform(body)


def test_a_reader_that_leaves_early_is_counted_as_cancelled_once():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        desk.step(b"abc")
        desk.streams.forget(1)
        desk.step(b"late", ended=end())
        assert desk.ears.ends == [(FinishReason.CANCELLED, Usage(2, 3))]
        assert stream.ended
        desk.open(2)
        desk.step(b"", 2, Ended(2, FinishReason.STOP, Usage(2, 0)))
        desk.streams.forget(2)
        assert [reason for reason, _ in desk.ears.ends][1:] == [FinishReason.STOP]

    perform(body)


@pytest.mark.parametrize("waits", [True, False])
def test_a_stream_that_cannot_even_be_ended_gives_its_reader_the_error(
    waits: bool, monkeypatch: pytest.MonkeyPatch
):
    async def body(desk: Desk) -> None:
        broken, whole = desk.open(1), desk.open(2)
        reading = asyncio.create_task(read_all(broken))
        if waits:
            await asyncio.sleep(0)
        for name in ("arrive", "spoil"):
            monkeypatch.setattr(broken, name, lambda *_: 1 // 0)
        both = (Emitted(1, 66), Emitted(2, 67))
        desk.detokenizer.handle([CoreReport(output=StepOutput.of(both))])
        assert (await read(whole)).text == "C"
        assert await reading == []
        assert isinstance(broken.failure, EngineFailed)
        assert Cancel(1) in desk.sent()
        assert len(desk.streams) == 1

    perform(body)


def test_one_stream_that_cannot_be_failed_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch,
):
    async def body(desk: Desk) -> None:
        broken, whole = desk.open(1), desk.open(2)
        monkeypatch.setattr(broken, "fail", lambda *_: 1 // 0)
        desk.streams.fail_all(Failure.of(EngineFailed("gone")))
        for stream in (broken, whole):
            assert await read_all(stream) == []
            assert isinstance(stream.failure, EngineFailed)

    perform(body)


def test_a_cancel_before_admission_ends_at_once_and_asks_nobody():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        stream.admit = None
        desk.streams.cancel(1)
        (last,) = await read_all(stream)
        assert last.finish_reason is FinishReason.CANCELLED
        assert desk.sent() == []

    perform(body)


def test_a_new_core_is_told_what_is_still_wanted():
    async def body(desk: Desk) -> None:
        going, cancelled, waiting, done, stopped = (
            desk.open(n, **({"stop": ["!"]} if n == 5 else {})) for n in range(1, 6)
        )
        waiting.admit = None
        desk.step(b"ab", 1)
        desk.step(b"x", 4, Ended(4, FinishReason.LENGTH, Usage(2, 1)))
        desk.step(b"x!", 5)
        desk.streams.cancel(2)
        desk.sent()
        desk.streams.resume_all()
        (order,) = desk.sent()
        assert isinstance(order, Admit)
        assert order.request == 1
        assert order.emitted == tuple(b"ab")
        assert [d.finish_reason for d in await read_all(cancelled)] == [
            FinishReason.CANCELLED
        ]
        assert (await read_all(stopped))[-1].finish_reason is FinishReason.STOP
        assert going.ended is False
        assert done.ended

    perform(body)


@pytest.mark.parametrize("num_tokens", [0, 3])
def test_a_paused_stream_stays_paused_in_a_new_core(num_tokens: int):
    async def body(desk: Desk) -> None:
        desk.open()
        desk.step(b"x" * (257 + num_tokens))
        desk.sent()
        desk.streams.resume_all()
        order, credit = sorted(desk.sent(), key=lambda o: isinstance(o, Credit))
        assert isinstance(order, Admit)
        assert credit == Credit(1, False)

    perform(body)


def test_a_listener_takes_what_came_in_each_turn():
    async def body(desk: Desk) -> None:
        stream, taken = desk.open(), list[Delta | None]()
        stream.bell.listen(lambda: taken.append(stream.take()))
        desk.step(b"one ")
        desk.step(b"two", ended=end())
        assert [delta and delta.text for delta in taken] == ["one ", "two"]
        assert stream.take() is None
        assert stream.ended

    perform(body)


def test_a_second_reader_of_a_stream_is_refused():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        first = asyncio.create_task(read(stream))
        await asyncio.sleep(0)
        with pytest.raises(MailboxMisused):
            await read(stream)
        desk.step(b"x")
        assert (await first).text == "x"

    perform(body)


def test_a_reader_cancelled_while_it_waits_loses_nothing():
    async def body(desk: Desk) -> None:
        stream = desk.open()
        reader = asyncio.create_task(read(stream))
        await asyncio.sleep(0)
        desk.step(b"a")
        reader.cancel()
        await asyncio.wait([reader])
        assert reader.cancelled()
        assert (await read(stream)).text == "a"

    perform(body)
