"""The whole engine over the paced device."""

import asyncio
import gc
import os
import random
import threading
from collections.abc import Callable

import pytest

from legato import (
    ChatMessage,
    ContextOverflow,
    Delta,
    Engine,
    EngineClosed,
    FakeModel,
    FinishReason,
    InvalidRequest,
    InvalidSetting,
    Overloaded,
    SamplingParams,
    Stream,
    UnknownOption,
)
from legato.actors.scheduling.batching import Continuous, Dynamic, Static
from legato.gpu.fake import fake_answer as expected
from legato.protocol.errors import MailboxMisused

Play = Callable[..., None]

GREEDY = SamplingParams(temperature=0, max_tokens=20)


def reason(ids: tuple[int, ...]) -> FinishReason:
    return FinishReason.STOP if ids[-1] == 256 else FinishReason.LENGTH


def at_rest(engine: Engine) -> bool:
    core = engine.stats().core
    return (
        core.live == 0
        and core.pages_used == 0
        and core.pages_free + core.pages_cached == core.pages_total
    )


def test_an_answer_is_what_the_device_sampled_and_nothing_else(play: Play):
    async def body(engine: Engine) -> None:
        prompt = tuple(b"once upon a time")
        answer = await engine.generate(prompt, GREEDY)
        assert answer.token_ids == expected(prompt, 20)
        assert answer.text == engine.decode(answer.token_ids)
        assert answer.finish_reason == reason(answer.token_ids)
        assert answer.usage.prompt_tokens == len(prompt)
        assert answer.usage.output_tokens == len(answer.token_ids)
        await engine.wait_idle()
        assert at_rest(engine)

    play(body)


def test_text_and_conversations_are_encoded(play: Play):
    async def body(engine: Engine) -> None:
        answer = await engine.generate("hello", GREEDY)
        assert answer.token_ids == expected(tuple(b"hello"), 20)
        rendered = b"system: be brief\nuser: hi\nassistant: "
        messages = [ChatMessage("system", "be brief"), ChatMessage("user", "hi")]
        answer = await engine.generate(messages, GREEDY)
        assert answer.token_ids == expected(tuple(rendered), 20)

    play(body)


def test_deltas_join_to_the_answer_with_one_terminal_event(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("hello", GREEDY) as stream:
            deltas = [delta async for delta in stream]
        assert [d.finish_reason for d in deltas[:-1]] == [None] * (len(deltas) - 1)
        assert deltas[-1].finish_reason is not None
        ids = tuple(i for d in deltas for i in d.token_ids)
        assert ids == expected(tuple(b"hello"), 20)
        assert "".join(d.text for d in deltas) == engine.decode(ids)

    play(body)


def test_64_streams_a_third_cancelled_leave_every_page_in_the_pool(play: Play):
    async def body(engine: Engine) -> None:
        dice = random.Random(7)

        async def one(index: int) -> None:
            prompt = tuple(dice.randbytes(dice.randrange(1, 300)))
            params = SamplingParams(temperature=0, max_tokens=40)
            stop_at = dice.randrange(0, 40) if index % 3 == 0 else None
            async with engine.stream(prompt, params) as stream:
                seen: list[Delta] = []
                if stop_at == 0:
                    stream.cancel()
                async for delta in stream:
                    seen.append(delta)
                    if stop_at is not None and len(seen) >= stop_at:
                        stream.cancel()
            ids = tuple(i for delta in seen for i in delta.token_ids)
            whole = expected(prompt, 40)
            assert ids == whole[: len(ids)]
            assert sum(delta.finish_reason is not None for delta in seen) == 1
            if seen[-1].finish_reason is not FinishReason.CANCELLED:
                assert ids == whole

        async with asyncio.TaskGroup() as group:
            for index in range(64):
                group.create_task(one(index))
        await engine.wait_idle()
        assert at_rest(engine)
        assert engine.stats().open_streams == 0

    play(body)


def test_stop_strings_cut_text_and_ids_together(play: Play):
    async def body(engine: Engine) -> None:
        params = SamplingParams(temperature=0, stop=("three", "two, t"))
        answer = await engine.generate("count", params)
        assert answer.text == "one, "
        assert answer.token_ids == tuple(b"one, ")
        assert answer.finish_reason is FinishReason.STOP
        kept = SamplingParams(temperature=0, stop=("two",), include_stop=True)
        answer = await engine.generate("count", kept)
        assert answer.text == "one, two"
        await engine.wait_idle()
        assert at_rest(engine)

    play(body, FakeModel(script=b"one, two, three, four"))


def test_characters_split_over_tokens_arrive_whole(play: Play):
    text = "naïve 🎻 한글 done"

    async def body(engine: Engine) -> None:
        async with engine.stream("x", SamplingParams(temperature=0)) as stream:
            deltas = [delta async for delta in stream]
        assert "".join(delta.text for delta in deltas) == text
        assert not any("\ufffd" in delta.text for delta in deltas)
        assert deltas[-1].finish_reason is FinishReason.STOP

    play(body, FakeModel(script=text.encode()))


def test_the_end_token_can_be_ignored(play: Play):
    async def body(engine: Engine) -> None:
        params = SamplingParams(temperature=0, max_tokens=9, ignore_eos=True)
        answer = await engine.generate("x", params)
        assert answer.text == "hi"
        assert len(answer.token_ids) == 9
        assert answer.finish_reason is FinishReason.LENGTH

    play(body, FakeModel(script=b"hi"))


def test_logprobs_come_one_for_each_id(play: Play):
    async def body(engine: Engine) -> None:
        params = SamplingParams(temperature=0, max_tokens=5, logprobs=2)
        answer = await engine.generate("x", params)
        assert len(answer.logprobs) == len(answer.token_ids)
        assert all(len(entry.ids) == 2 for entry in answer.logprobs)

    play(body)


@pytest.mark.parametrize("max_tokens", [1, 2, 3])
def test_max_tokens_is_exact(play: Play, max_tokens: int):
    async def body(engine: Engine) -> None:
        params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
        answer = await engine.generate("abc", params)
        assert len(answer.token_ids) == max_tokens
        assert answer.finish_reason is FinishReason.LENGTH
        assert answer.usage.output_tokens == max_tokens

    play(body)


def test_a_prompt_of_the_whole_context_is_refused_with_the_numbers(play: Play):
    async def body(engine: Engine) -> None:
        fits = await engine.generate("x" * 2047, GREEDY)
        assert len(fits.token_ids) == 1
        with pytest.raises(ContextOverflow, match="2048 tokens") as refused:
            await engine.generate("x" * 2048, GREEDY)
        assert refused.value.field == "prompt"

    play(body)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "empty"),
        ([], "must not be empty"),
        ([{"role": "wizard", "content": "hi"}], "wizard"),
        ([257], "outside the vocabulary"),
        ([-1], "outside the vocabulary"),
        ("x" * 4_000_001, "max_prompt_chars"),
    ],
)
def test_a_bad_prompt_fails_alone(play: Play, prompt: object, message: str):
    async def body(engine: Engine) -> None:
        async with engine.stream("good", GREEDY) as other:
            with pytest.raises(InvalidRequest, match=message):
                await engine.generate(prompt, GREEDY)  # pyright: ignore[reportArgumentType]
            answer = await other.collect()
        assert answer.token_ids == expected(tuple(b"good"), 20)
        assert engine.stats().open_streams == 0

    play(body)


def test_token_ids_outside_the_vocabulary_are_refused_by_field(play: Play):
    async def body(engine: Engine) -> None:
        with pytest.raises(InvalidRequest, match="logit_bias: token id 257"):
            await engine.generate("x", SamplingParams(logit_bias={257: 1.0}))
        with pytest.raises(InvalidRequest, match="stop_token_ids: token id 999"):
            await engine.generate("x", SamplingParams(stop_token_ids=(999,)))

    play(body)


def test_a_full_engine_refuses_before_any_work(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("a", GREEDY), engine.stream("b", GREEDY):
            with pytest.raises(Overloaded) as refused:
                await engine.generate("c", GREEDY)
            assert refused.value.retry_after_s > 0
        assert (await engine.generate("c", GREEDY)).token_ids

    play(body, max_requests=2)


def test_leaving_early_or_never_reading_frees_everything(play: Play):
    async def body(engine: Engine) -> None:
        endless = SamplingParams(temperature=0, max_tokens=1000, ignore_eos=True)
        async with engine.stream("never read", endless):
            pass
        async with engine.stream("read once", endless) as stream:
            await anext(stream)
        context = engine.stream("never entered", endless)
        del context
        gc.collect()
        await engine.wait_idle()
        assert at_rest(engine)
        assert engine.stats().core.output_tokens < 1000

    play(body)


@pytest.mark.parametrize("anywhere", [False, True])
def test_a_stream_that_is_dropped_unclosed_is_let_go(play: Play, anywhere: bool):
    async def body(engine: Engine) -> None:
        endless = SamplingParams(temperature=0, max_tokens=1000, ignore_eos=True)
        stream = await engine.stream("never left", endless).__aenter__()
        await anext(stream)
        holder = [stream]
        del stream
        if anywhere:
            await asyncio.to_thread(holder.clear)
        else:
            holder.clear()
        gc.collect()
        while engine.stats().open_streams:  # noqa: ASYNC110 # nobody tells of it
            await asyncio.sleep(0)
        await engine.wait_idle()
        assert engine.stats().core.output_tokens < 1000

    play(body, FakeModel(step_s=0.001))


def test_a_stream_that_is_dropped_after_its_loop_harms_nobody():
    async def main() -> Stream:
        async with Engine(FakeModel()) as engine:
            return await engine.stream("x", GREEDY).__aenter__()

    stream = asyncio.run(main())
    del stream
    gc.collect()


def test_a_cancelled_reader_loses_nothing(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("hello", GREEDY) as stream:
            seen: list[Delta] = []
            while True:
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0)
                waiting.cancel()
                try:
                    seen.append(await waiting)
                except asyncio.CancelledError:
                    pass
                except StopAsyncIteration:
                    break
                try:
                    seen.append(await anext(stream))
                except StopAsyncIteration:
                    break
        ids = tuple(i for delta in seen for i in delta.token_ids)
        assert ids == expected(tuple(b"hello"), 20)

    play(body)


def test_cancel_is_idempotent_and_works_before_the_first_token(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("hello", GREEDY) as stream:
            stream.cancel()
            stream.cancel()
            deltas = [delta async for delta in stream]
            stream.cancel()
        assert [d.finish_reason for d in deltas] == [FinishReason.CANCELLED]

    play(body)


def test_a_reader_that_stops_is_paused_and_then_gets_every_token(play: Play):
    async def body(engine: Engine) -> None:
        params = SamplingParams(temperature=0, max_tokens=1500, ignore_eos=True)
        async with engine.stream("slow", params) as slow:
            while engine.stats().core.paused == 0:
                other = SamplingParams(temperature=0, max_tokens=30)
                await engine.generate("other", other)
            answer = await slow.collect()
        history = expected(tuple(b"slow"), 1500, end=None)
        assert answer.token_ids == history
        await engine.wait_idle()
        assert at_rest(engine)

    play(body)


def test_a_seed_is_drawn_and_shown(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("x", SamplingParams()) as stream:
            assert 0 <= stream.seed < 2**63
        async with engine.stream("x", SamplingParams(seed=5)) as stream:
            assert stream.seed == 5

    play(body)


def test_nothing_is_left_running(play: Play):
    threads = threading.active_count()
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc") else 0

    async def body(engine: Engine) -> None:
        await engine.generate("x", GREEDY)
        async with engine.stream("cut off", SamplingParams(max_tokens=1000)) as s:
            await anext(s)
            holder.append(s)
        tasks.extend(asyncio.all_tasks())

    holder: list[object] = []
    tasks: list[asyncio.Task[object]] = []
    play(body)
    assert threading.active_count() == threads
    assert all(task.done() for task in tasks)
    if descriptors:
        assert len(os.listdir("/proc/self/fd")) == descriptors


def test_closing_ends_open_streams_with_a_clear_error():
    async def main() -> None:
        async with Engine(FakeModel(step_s=0.001)) as engine:
            context = engine.stream("x", SamplingParams(max_tokens=1000))
            stream = await context.__aenter__()
            await anext(stream)
        with pytest.raises(EngineClosed, match="shut down"):
            await stream.collect()
        with pytest.raises(EngineClosed, match="closed"):
            await engine.generate("x")
        assert engine.state == "closed"

    asyncio.run(main())


def test_draining_lets_the_running_finish_and_admits_no_more(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("last one", GREEDY) as stream:
            await anext(stream)
            draining = asyncio.ensure_future(engine.drain(60))
            await asyncio.sleep(0)
            with pytest.raises(EngineClosed, match="draining"):
                await engine.generate("too late")
            answer = await stream.collect()
            assert answer.finish_reason is reason(expected(tuple(b"last one"), 20))
            await draining

    play(body)


def test_an_engine_that_was_not_started_says_so():
    engine = Engine(FakeModel())
    with pytest.raises(EngineClosed, match="async with Engine"):
        engine.stats()
    with pytest.raises(EngineClosed, match="async with Engine"):
        asyncio.run(engine.generate("x", GREEDY))


def test_an_engine_runs_once():
    async def main() -> None:
        engine = Engine(FakeModel())
        async with engine:
            pass
        with pytest.raises(EngineClosed, match="runs once"):
            async with engine:
                pass

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dtyp": "float32"}, UnknownOption, "did you mean 'dtype'"),
        ({"num_slots": "many"}, InvalidSetting, "num_slots"),
        ({"placement": "thred"}, InvalidSetting, "'thread' or 'process'"),
        ({"batching": "auto"}, InvalidSetting, "{'type': 'auto', …}"),
    ],
)
def test_a_bad_setting_is_refused_by_name(
    options: dict[str, object], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        Engine(FakeModel(), **options)  # pyright: ignore[reportArgumentType]


def test_a_fake_model_by_name_heeds_its_settings():
    async def main() -> None:
        async with Engine("fake", max_context=64, num_slots=2) as engine:
            assert engine.max_context == 64
            with pytest.raises(ContextOverflow):
                await engine.generate("x" * 64, engine.params(max_tokens=1))
        with pytest.raises(InvalidSetting, match="the fake model has 2048"):
            async with Engine("fake", max_context=4096):
                pass
        with pytest.raises(InvalidSetting, match="dtype 'bf16' is unknown"):
            async with Engine("fake", dtype="bf16"):
                pass

    asyncio.run(main())


def test_metrics_are_prometheus_text(play: Play):
    async def body(engine: Engine) -> None:
        answer = await engine.generate("x", GREEDY)
        await engine.wait_idle()
        text = engine.metrics_text().decode()
        tokens = float(len(answer.token_ids))
        assert f'legato_generation_tokens_total{{model_name="fake"}} {tokens}' in text
        assert 'legato_time_to_first_token_seconds_count{model_name="fake"} 1.0' in text
        assert 'legato_num_requests_running{model_name="fake"} 0.0' in text
        assert 'strategy="continuous"' in text

    play(body)


def test_a_flood_of_long_prompts_is_refused_before_they_are_encoded(play: Play):
    async def body(engine: Engine) -> None:
        flood = [engine.stream("x" * 1000, GREEDY) for _ in range(4)]
        opened = [await context.__aenter__() for context in flood]
        with pytest.raises(Overloaded, match="tokens wait for their first token"):
            await engine.generate("one more", GREEDY)
        for context in flood[:2]:
            await context.__aexit__(None, None, None)
        for stream in opened[2:]:
            await stream.collect()
        assert (await engine.generate("one more", GREEDY)).token_ids

    play(body, max_waiting_tokens=1000)


def test_the_strategy_can_change_under_running_streams(play: Play):
    async def body(engine: Engine) -> None:
        prompts = [tuple(f"prompt {n}".encode()) for n in range(12)]
        params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)

        async def one(index: int) -> tuple[int, ...]:
            async with engine.stream(prompts[index], params) as stream:
                ids = (await anext(stream)).token_ids
                changes = (Dynamic(max_batch=4), Static(size=2, max_wait_s=0.01))
                engine.set_batching((*changes, Continuous())[index % 3])
                return ids + (await stream.collect()).token_ids

        answers = await asyncio.gather(*(one(n) for n in range(12)))
        for prompt, answer in zip(prompts, answers, strict=True):
            assert answer == expected(prompt, 40, end=None)
        engine.set_batching(Dynamic(max_batch=4))
        await engine.wait_idle()
        assert engine.stats().core.strategy == "dynamic"
        assert at_rest(engine)

    play(body)


@pytest.mark.parametrize(
    "terms",
    [
        {"priority": 1.5},
        {"priority": "x"},
        {"priority": None},
        {"tenant": []},
        {"tenant": None},
        {"ttft_deadline_s": "x"},
        {"total_deadline_s": -1},
        {"total_deadline_s": float("nan")},
    ],
    ids=str,
)
def test_bad_terms_are_refused_at_the_door_by_name(
    play: Play, terms: dict[str, object]
):
    async def body(engine: Engine) -> None:
        with pytest.raises(InvalidRequest) as refused:
            await engine.generate("x", GREEDY, **terms)
        assert refused.value.field == next(iter(terms))
        assert engine.stats().open_streams == 0
        assert (await engine.generate("x", GREEDY)).token_ids

    play(body)


def test_a_flood_of_cancels_and_changes_is_no_error(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("x", GREEDY) as stream:
            for _ in range(5000):
                stream.cancel()
                engine.set_batching(Continuous())
            await stream.collect()
        assert (await engine.generate("x", GREEDY)).token_ids

    play(body, max_requests=4)


def test_draining_waits_for_prompts_that_are_still_encoded(play: Play):
    async def body(engine: Engine) -> None:
        contexts = [engine.stream(f"prompt {n}", GREEDY) for n in range(20)]
        streams = [await context.__aenter__() for context in contexts]
        await engine.drain(60)
        for stream in streams:
            assert (await stream.collect()).token_ids

    play(body)


def test_another_loop_is_told_so_and_harms_nobody(play: Play):
    async def body(engine: Engine) -> None:
        async def foreign() -> None:
            with pytest.raises(MailboxMisused, match="another event loop"):
                await engine.generate("x", GREEDY)
            for ask in (lambda: engine.drain(0), engine.wait_idle):
                with pytest.raises(MailboxMisused, match="another event loop"):
                    await ask()
            with pytest.raises(MailboxMisused, match="another event loop"):
                await engine.trace(0.1)

        async def steal(stream: Stream) -> None:
            with pytest.raises(MailboxMisused):
                await anext(stream)
            for tell in (
                stream.cancel,
                stream.close,
                lambda: stream.limit(1),
                lambda: stream.grant(1),
                lambda: stream.amend(priority=1),
            ):
                with pytest.raises(MailboxMisused):
                    tell()

        await asyncio.to_thread(asyncio.run, foreign())
        async with engine.stream("x", GREEDY) as stream:
            await asyncio.to_thread(asyncio.run, steal(stream))
            assert (await stream.collect()).token_ids == expected(tuple(b"x"), 20)
        assert engine.stats().open_streams == 0
        assert engine.state == "ready"

    play(body)


def test_entering_twice_at_once_starts_one_engine():
    async def main() -> None:
        engine = Engine(FakeModel())
        first, second = await asyncio.gather(
            engine.__aenter__(), engine.__aenter__(), return_exceptions=True
        )
        assert first is engine
        assert isinstance(second, EngineClosed)
        await engine.__aexit__(None, None, None)

    threads = threading.active_count()
    asyncio.run(main())
    assert threading.active_count() == threads
