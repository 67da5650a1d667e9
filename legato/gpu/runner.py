"""The contract every runner keeps: it takes plans and hands back results.

Knows nothing of models or devices; the implementations live beside it. A runner is
owned by one executor thread, which alone calls it.
"""

from typing import Protocol

from ..protocol.steps import RunnerLimits, StepPlan, StepResult
from .grammar import Grammars


class StepHandle(Protocol):
    """A launched step."""

    def wait(self) -> StepResult:
        """Block, without polling, until the device is done.

        Raises:
            Exception: Whatever the device raised; the runner is then unusable.
        """
        ...


class ModelRunner(Protocol):
    """A device with a model on it."""

    @property
    def limits(self) -> RunnerLimits:
        """What it can hold."""
        ...

    @property
    def launch_depth(self) -> int:
        """Steps to launch before waiting for the first: 1 if launch runs the step."""
        ...

    @property
    def memory_report(self) -> str:
        """How the page pool was sized, as a line to print."""
        ...

    def equip(self, grammars: Grammars) -> None:
        """Take what slots with a grammar need; before the first of them is opened."""
        ...

    def launch(self, plan: StepPlan) -> StepHandle:
        """Start a step; steps run in the order of their launches.

        On CUDA this returns as soon as the work is queued; on a CPU it may run the
        step itself. At most ``launch_depth`` steps are in flight at once.

        Raises:
            Exception: The device failed; the runner is then unusable.
        """
        ...

    def close(self) -> None:
        """Free the device's memory. May be called again."""
        ...
