"""A model without weights: the paced device, with a text of its own.

Apart from the checkpoints, so that a core over a paced device starts without torch.
"""

from collections.abc import Callable

from msgspec.structs import replace

from ..protocol.errors import InvalidSetting
from ..protocol.models import TextSource
from ..protocol.steps import RunnerLimits
from .fake import FAKE_LIMITS, FakeRunner, fake_text
from .runner import ModelRunner
from .settings import RunnerSettings


class FakeModel:
    """A paced device that babbles: for tests, and for trying clients without a model.

    Args:
        limits: What the device pretends to hold.
        step_s: Seconds a step takes.
        script: Bytes to answer with, whatever the prompt; None babbles. An answer
            that has a script ends with it.
        runner: Makes the runner instead, for tests of failures.
    """

    name = "fake"

    def __init__(
        self,
        *,
        limits: RunnerLimits = FAKE_LIMITS,
        step_s: float = 0.0,
        script: bytes | None = None,
        runner: Callable[[], ModelRunner] | None = None,
    ) -> None:
        self._limits = limits
        self._step_s = step_s
        self._script = script
        self._runner = runner

    def text(self) -> TextSource:
        """One token a byte, and an end token."""
        return fake_text()

    def build(self) -> ModelRunner:
        """Make the paced device."""
        if self._runner is not None:
            return self._runner()
        return FakeRunner(self._limits, self._step_s, script=self._say())

    def _say(self) -> Callable[[int, int], int] | None:
        answer = self._script
        if answer is None:
            return None
        end = fake_text().stop_ids[0]
        return lambda _prompt, n: answer[n] if n < len(answer) else end


def fake_limits(settings: RunnerSettings) -> RunnerLimits:
    """What the paced device holds if a user says how much.

    Raises:
        InvalidSetting: A longer context than it has.
    """
    longest = FAKE_LIMITS.max_context
    if settings.max_context > longest:
        raise InvalidSetting(
            f"max_context is {settings.max_context}, but the fake model has {longest}; "
            "choose at most that, or 0"
        )
    return replace(
        FAKE_LIMITS,
        num_slots=settings.num_slots,
        max_context=settings.max_context or longest,
    )
