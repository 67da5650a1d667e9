"""The runner of the leading rank: what it is told, it tells the others."""

from dataclasses import dataclass

from ...protocol.steps import StepPlan, StepResult
from ..grammar import Grammars
from ..runner import ModelRunner, StepHandle
from .crew import Crew
from .group import Group


@dataclass(frozen=True)
class ParallelStep:
    """A step that all ranks run.

    Args:
        handle: The leading rank's.
        crew: The others.
    """

    handle: StepHandle
    crew: Crew

    def wait(self) -> StepResult:
        """Wait until the leading rank is done: by then the others are, or soon will be.

        Raises:
            Exception: Whatever a rank raised.
        """
        try:
            return self.handle.wait()
        except RuntimeError as error:
            raise self.crew.blame(error) from error


class ParallelRunner:
    """A model over several ranks, of which this process is the first.

    Args:
        runner: Of this rank.
        group: In which the ranks exchange numbers.
        crew: The other ranks.
    """

    def __init__(self, runner: ModelRunner, group: Group, crew: Crew) -> None:
        self._runner = runner
        self._group = group
        self._crew = crew
        self.limits = runner.limits
        self.launch_depth = runner.launch_depth
        self.memory_report = f"{runner.memory_report}; on each of {group.size} ranks"

    @property
    def pids(self) -> tuple[int, ...]:
        """The other ranks' processes."""
        return tuple(member.pid for member in self._crew.members)

    def equip(self, grammars: Grammars) -> None:
        """Take what slots with a grammar need; the other ranks do not sample."""
        self._runner.equip(grammars)

    def launch(self, plan: StepPlan) -> ParallelStep:
        """Start a step on every rank.

        Raises:
            ValueError: The plan breaks the limits, or the runner was closed.
            LegatoError: A rank has ended.
        """
        self._crew.send(plan)
        try:
            return ParallelStep(self._runner.launch(plan), self._crew)
        except RuntimeError as error:
            raise self._crew.blame(error) from error

    def close(self) -> None:
        """End the other ranks and free this one. May be called again."""
        self._crew.close()
        self._group.close()
        self._runner.close()
