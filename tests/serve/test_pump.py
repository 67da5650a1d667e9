"""Answers put as they come, by a task or within the engine's turn."""

import asyncio

import pytest

from legato.protocol.errors import EngineFailed
from legato.protocol.requests import Delta
from legato.serve.pump import pump

pytestmark = pytest.mark.anyio


class Answer:
    """An answer that is told what to say, and when."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.ended = False
        self.failure: Exception | None = None
        self.on_news = None

    def cancel(self) -> None:
        self.say(ended=True)

    def take(self):
        if self.waiting:
            text = "".join(self.waiting)
            self.waiting.clear()
            return Delta(text)
        if self.failure is not None:
            raise self.failure
        return None

    def listen(self, on_news) -> None:
        self.on_news = on_news

    def __aiter__(self):
        return self

    async def __anext__(self):
        raise AssertionError("it can listen")

    def say(self, *texts: str, ended: bool = False) -> None:
        self.waiting += texts
        self.ended = ended
        if self.on_news is not None:
            self.on_news()


class Spout:
    """An outbox that keeps what it is given, and may be stopped up."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.got: list[str] = []
        self.turns = 0

    async def put(self, frames) -> None:
        await self.open.wait()
        self.turns += bool(frames)
        self.got += frames

    def send_now(self, frames):
        if not self.open.is_set():
            return tuple(frames)
        self.got += frames
        return ()


def render(delta: Delta) -> list[str]:
    if delta.text == "bad":
        raise ZeroDivisionError
    return [delta.text] if delta.text else []


async def begin(answer: Answer, spout: Spout) -> asyncio.Task[None]:
    task = asyncio.create_task(pump(answer, render, spout))  # pyright: ignore
    await settle()
    return task


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_comes_is_sent_within_the_turn_it_comes_in():
    answer, spout = Answer(), Spout()
    task = await begin(answer, spout)
    answer.say("a")
    answer.say("b")
    assert spout.got == ["a", "b"]
    answer.say("c", ended=True)
    await task
    assert (spout.got, spout.turns) == (["a", "b", "c"], 0)
    assert answer.on_news is None


async def test_what_came_before_it_listened_is_put_first():
    answer, spout = Answer(), Spout()
    answer.say("a")
    task = await begin(answer, spout)
    answer.say("b", ended=True)
    await task
    assert spout.got == ["a", "b"]


async def test_deltas_merge_while_nothing_can_be_sent():
    answer, spout = Answer(), Spout()
    task = await begin(answer, spout)
    spout.open.clear()
    for text in ("a", "b", "c"):
        answer.say(text)
    await settle()
    answer.say("d")
    spout.open.set()
    await settle()
    answer.say("e", ended=True)
    await task
    assert spout.got == ["a", "bcd", "e"]


async def test_a_failure_comes_after_what_came_before_it():
    answer, spout = Answer(), Spout()
    task = await begin(answer, spout)
    answer.failure = EngineFailed("melted")
    answer.say("so far", ended=True)
    with pytest.raises(EngineFailed):
        await task
    assert spout.got == ["so far"]


async def test_what_cannot_be_rendered_fails_its_own_answer():
    answer, spout = Answer(), Spout()
    task = await begin(answer, spout)
    answer.say("bad")
    with pytest.raises(ZeroDivisionError):
        await task
    assert answer.on_news is None


async def test_cancelled_it_listens_no_more():
    answer, spout = Answer(), Spout()
    task = await begin(answer, spout)
    task.cancel()
    answer.say("late")
    await asyncio.wait([task])
    assert answer.on_news is None
    assert spout.got == []
