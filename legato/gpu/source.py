"""Where a model comes from: its text for the front end, its runner for the core."""

from collections.abc import Callable
from typing import Protocol

from ..protocol.models import TextSource
from .runner import ModelRunner

Progress = Callable[[float, str], None]


class Model(Protocol):
    """A model that an engine can run."""

    @property
    def name(self) -> str:
        """The name clients ask for."""
        ...

    def text(self) -> TextSource:
        """Read vocabulary and template; blocks.

        Raises:
            InvalidModel: With a line that says what to do.
        """
        ...

    def build(self) -> ModelRunner:
        """Load the weights and make the runner; blocks, in the device thread.

        Raises:
            InvalidModel: With a line that says what to do.
            InvalidSetting: With the numbers.
        """
        ...
