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

    def run(
        body: Callable[[Engine], Awaitable[None]],
        model: FakeModel | None = None,
        **options: Any,
    ) -> None:
        async def main() -> None:
            async with Engine(model or FakeModel(), **options) as engine:
                await body(engine)

        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())

    return run
