"""Ways to run an engine over the paced device in a test."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

Play = Callable[..., None]


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest, aftermath: Any) -> Play:
    """Run a test's body with an engine, on each event loop; nothing may be left."""
    return partial(aftermath.play, loop=request.param)


@pytest.fixture(params=["thread", "process"])
def play_placed(request: pytest.FixtureRequest, aftermath: Any) -> Play:
    """Run a test's body with an engine, in each placement; nothing may be left."""
    return partial(aftermath.play, placement=request.param)
