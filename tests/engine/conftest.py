"""Ways to run an engine over the paced device in a test."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from legato import Engine, FakeModel

Play = Callable[..., None]


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Play:
    """Run a test's body with an engine, on each event loop."""
    return player(request.param, "thread")


@pytest.fixture(params=["thread", "process"])
def play_placed(request: pytest.FixtureRequest) -> Play:
    """Run a test's body with an engine, in each placement."""
    return player("uvloop", request.param)


def player(loop: str, placement: str) -> Play:
    """Run a test's body with an engine, in one loop and placement."""

    def run(
        body: Callable[[Engine], Awaitable[None]],
        model: FakeModel | None = None,
        **options: Any,
    ) -> None:
        async def main() -> None:
            placed = {"placement": placement} | options
            async with Engine(model or FakeModel(), **placed) as engine:
                await body(engine)

        factory = uvloop.new_event_loop if loop == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())

    return run
