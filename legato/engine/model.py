"""What an engine runs: a checkpoint on a device, or a paced pretence of one."""

from collections.abc import Callable
from typing import Protocol

from ..gpu.assembly import build_runner
from ..gpu.checkpoint import open_checkpoint
from ..gpu.fake import FAKE_LIMITS, FakeRunner, fake_text
from ..gpu.runner import ModelRunner
from ..gpu.settings import RunnerSettings
from ..protocol.models import TextSource
from ..protocol.steps import RunnerLimits

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


class CheckpointModel:
    """A model from disk.

    Args:
        model: ``smollm2``, a ``.gguf`` file, or a directory with safetensors.
        settings: For the runner.
        progress: Told the share loaded, 0 to 1, and what is being loaded; called from
            the device thread.
    """

    def __init__(
        self, model: str, settings: RunnerSettings, progress: Progress | None = None
    ) -> None:
        self._checkpoint = open_checkpoint(model)
        self._settings = settings
        self._progress = progress

    @property
    def name(self) -> str:
        """The checkpoint's name."""
        return self._checkpoint.name

    def text(self) -> TextSource:
        """Read vocabulary and template."""
        return self._checkpoint.text

    def build(self) -> ModelRunner:
        """Load the weights and make the runner."""
        return build_runner(self._checkpoint, self._settings, progress=self._progress)


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
