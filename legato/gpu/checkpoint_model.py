"""A model from disk, on whichever device there is."""

from typing import Any

from ..protocol.models import TextSource
from .assembly import build_runner
from .checkpoint import open_checkpoint
from .runner import ModelRunner
from .settings import RunnerSettings
from .source import Progress


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
        self._model = model
        self._settings = settings
        self._progress = progress

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to another process by opening the files there; progress stays here."""
        return CheckpointModel, (self._model, self._settings)

    @property
    def name(self) -> str:
        """The checkpoint's name."""
        return self._checkpoint.name

    def text(self) -> TextSource:
        """Read vocabulary and template."""
        return self._checkpoint.text

    def build(self) -> ModelRunner:
        """Load the weights and make the runner, and other ranks beside it if set."""
        if self._settings.tensor_parallel > 1:
            # Only here: one device does not wait for what several need.
            from .parallel.assembly import build_parallel

            return build_parallel(
                self._model, self._checkpoint, self._settings, self._progress
            )
        return build_runner(self._checkpoint, self._settings, progress=self._progress)
