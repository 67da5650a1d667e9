"""Several answers to one prompt, over the real engine on a paced device."""

import asyncio

import msgspec
import pytest

from legato.engine import Engine, FakeModel
from legato.gpu.fake import FAKE_LIMITS
from legato.serve import create_app

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
PAGE = FAKE_LIMITS.page_size
PROMPT = [number % 250 for number in range(63 * PAGE + 5)]


def engine_of(step_s=0.0005, **options):
    return Engine(FakeModel(step_s=step_s), **options)


def paged(**limits):
    """An engine whose device holds only so much."""
    limits = msgspec.structs.replace(FAKE_LIMITS, **limits)
    return Engine(FakeModel(step_s=0.0005, limits=limits))


def completion(n, **fields):
    body = {"prompt": PROMPT, "n": n, "max_tokens": 8, "ignore_eos": True, **fields}
    return ("POST", TEXT, body)


async def until(condition):
    # Nothing announces an open stream to those who do not read it.
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


@pytest.mark.parametrize("stream", [False, True])
async def test_four_answers_compute_a_long_prompt_once(call, stream):
    async with engine_of() as engine:
        body = completion(4, stream=stream, stream_options={"include_usage": True})
        if not stream:
            del body[2]["stream_options"]
        answer = await call(*body, app=create_app(engine))
        assert answer.status == 200
        usage = (answer.events[-2] if stream else answer.json)["usage"]
        assert usage["prompt_tokens"] == len(PROMPT)
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        assert usage["completion_tokens"] == 4 * 8
        await engine.wait_idle()
        core = engine.stats().core
        assert core.prompt_tokens == 4 * len(PROMPT)
        assert core.cached_tokens >= 3 * 63 * PAGE
        assert core.pages_used == 0
        # All that was ever held, and is remembered: one prompt and four answers.
        assert core.pages_total - core.pages_free < 63 + 2 * 4


async def test_a_pool_too_small_for_four_prompts_holds_four_answers(call):
    limits = {"num_pages": 63 + 3 * 4}
    async with paged(**limits) as engine:
        answer = await call(*completion(4), app=create_app(engine))
        await engine.wait_idle()
        assert [c["index"] for c in answer.json["choices"]] == [0, 1, 2, 3]
        assert engine.stats().core.preemptions == 0


async def test_greedy_choices_equal_each_other_and_one_alone(call):
    async with engine_of() as engine:
        app = create_app(engine)
        one = (await call(*completion(1, temperature=0), app=app)).json
        five = (await call(*completion(5, temperature=0), app=app)).json
        (alone,) = {choice["text"] for choice in one["choices"]}
        assert [choice["text"] for choice in five["choices"]] == [alone] * 5


async def test_a_streamed_request_says_what_an_unstreamed_one_says(call):
    async with engine_of() as engine:
        app = create_app(engine)
        body = {
            "messages": [{"role": "user", "content": "hi"}],
            "n": 3,
            "max_tokens": 40,
            "ignore_eos": True,
        }
        whole = (await call("POST", CHAT, body, app=app)).json
        *chunks, _ = (
            await call("POST", CHAT, {**body, "stream": True}, app=app)
        ).events
        texts = ["", "", ""]
        for chunk in chunks:
            (choice,) = chunk["choices"]
            texts[choice["index"]] += choice["delta"].get("content") or ""
        assert texts == [c["message"]["content"] for c in whole["choices"]]


async def test_a_full_house_refuses_all_choices_and_keeps_none(call):
    async with engine_of(max_requests=3) as engine:
        answer = await call(*completion(4), app=create_app(engine))
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert engine.stats().open_streams == 0
        assert (await call(*completion(3), app=create_app(engine))).status == 200
        await engine.wait_idle()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_every_choice(begin, stream):
    async with engine_of() as engine:
        request = begin(
            *completion(4, max_tokens=500, stream=stream), app=create_app(engine)
        )
        await until(lambda: engine.stats().open_streams == 4)
        request.disconnect()
        await request.done()
        assert engine.stats().open_streams == 0
        await engine.wait_idle()
        core = engine.stats().core
        assert (core.live, core.pages_used) == (0, 0)
        assert core.output_tokens < 4 * 500


async def test_a_first_token_that_is_late_is_504(begin, call):
    async with paged(num_slots=1) as engine:
        app = create_app(engine)
        long = begin(*completion(1, max_tokens=900, stream=True), app=app)
        await long.wait_for(b"data:")
        late = await call(*completion(2, ttft_deadline_s=0.01), app=app)
        assert (late.status, late.error["code"]) == (504, "deadline_exceeded")
        long.disconnect()
        await long.done()
        await engine.wait_idle()


async def test_an_answer_that_is_not_done_in_time_is_504(call):
    async with engine_of(step_s=0.001) as engine:
        body = {"prompt": "a", "max_tokens": 2000, "ignore_eos": True, "n": 2}
        answer = await call(
            "POST", TEXT, {**body, "total_deadline_s": 0.02}, app=create_app(engine)
        )
        assert (answer.status, answer.error["code"]) == (504, "deadline_exceeded")
        await engine.wait_idle()
        assert engine.stats().core.live == 0


async def test_a_lower_priority_number_goes_first(begin):
    async with paged(num_slots=1) as engine:
        app = create_app(engine)
        body = {"prompt": "a", "ignore_eos": True, "stream": True}
        first = begin("POST", TEXT, {**body, "max_tokens": 2000}, app=app)
        await first.wait_for(b"data:")
        ends = []

        async def note_end(name, request):
            await request.wait_for(b"[DONE]")
            ends.append(name)

        async with asyncio.TaskGroup() as group:
            for name, priority in (("usual", 0), ("late", 50), ("early", -1)):
                request = begin("POST", TEXT, {**body, "priority": priority}, app=app)
                group.create_task(note_end(name, request))
            # The urgent one takes the only slot from the one that runs.
            await until(lambda: ends and engine.stats().core.waiting == 2)
            first.disconnect()
        assert ends == ["early", "usual", "late"]
        await first.done()
        await engine.wait_idle()
