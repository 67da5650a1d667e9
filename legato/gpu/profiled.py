"""A runner whose steps torch's profiler watches for a while.

The file it writes is a Chrome trace of operators and kernels, for Perfetto: what a
device did within steps, where ``legato trace`` shows what happened between them.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from ..protocol.errors import InvalidSetting
from ..protocol.steps import RunnerLimits, StepPlan
from .grammar import Grammars
from .runner import ModelRunner, StepHandle
from .settings import RunnerSettings

log = logging.getLogger(__name__)


class Profiler:
    """Torch's, over this thread and all of the device's work.

    Args:
        has_cuda: Whether there are kernels to watch.
    """

    def __init__(self, has_cuda: bool) -> None:
        from torch.profiler import ProfilerActivity, profile

        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] * has_cuda)]
        self._profile: Any = profile(activities=kinds)
        self._profile.start()

    def span(self, name: str) -> AbstractContextManager[Any]:
        """Name what this thread does."""
        named: Any = torch.profiler.record_function
        return named(name)

    def finish(self, path: Path) -> None:
        """Stop, and write the trace.

        Raises:
            Exception: It cannot be written.
        """
        self._profile.stop()
        self._profile.export_chrome_trace(str(path))


class ProfiledRunner:
    """Runs steps as another does; some of them under a profiler.

    Args:
        runner: The other.
        path: Of the trace.
        first: Steps before the first that is watched.
        count: Steps to watch.
        start: Starts a profiler, in the thread that launches.
    """

    def __init__(
        self,
        runner: ModelRunner,
        path: Path,
        first: int,
        count: int,
        start: Callable[[], Profiler],
    ) -> None:
        self._runner = runner
        self._path = path
        self._first, self._end = first, first + count
        self._start = start
        self._launched = 0
        self._last: StepHandle | None = None
        self._profiler: Profiler | None = None

    @property
    def limits(self) -> RunnerLimits:
        """The other's."""
        return self._runner.limits

    @property
    def launch_depth(self) -> int:
        """The other's."""
        return self._runner.launch_depth

    @property
    def memory_report(self) -> str:
        """The other's."""
        return self._runner.memory_report

    def equip(self, grammars: Grammars) -> None:
        """Hand it on."""
        self._runner.equip(grammars)

    def launch(self, plan: StepPlan) -> StepHandle:
        """Start a step; the profiler starts and ends while none is under way.

        Raises:
            Exception: The device failed; the runner is then unusable.
        """
        if self._launched == self._first:
            self._settle()
            self._profiler = self._start()
        elif self._launched == self._end:
            self._finish()
        self._launched += 1
        if self._profiler is None:
            self._last = self._runner.launch(plan)
        else:
            with self._profiler.span(f"legato.step {plan.step}: {_words(plan)}"):
                self._last = self._runner.launch(plan)
        return self._last

    def close(self) -> None:
        """Write what was seen so far, and free the device's memory."""
        try:
            self._finish()
        finally:
            self._runner.close()

    def _settle(self) -> None:
        if self._last is not None:
            self._last.wait()

    def _finish(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        self._settle()
        try:
            profiler.finish(self._path)
        except Exception:
            # A trace is not worth an answer.
            log.exception("the profile was not written to %s", self._path)
        else:
            log.info(
                "profile of %d steps: %s", self._launched - self._first, self._path
            )


def profiled(
    runner: ModelRunner, settings: RunnerSettings, device: torch.device, rank: int = 0
) -> ModelRunner:
    """Put a runner under a profiler, if the settings say so.

    Args:
        runner: To watch.
        settings: Whether, when, and where to.
        device: Its own.
        rank: Of several; each but the first adds its number to the file's name.

    Raises:
        InvalidSetting: There is no such folder; the runner is closed.
    """
    if not settings.profile:
        return runner
    path = Path(settings.profile).expanduser().absolute()
    if not path.parent.is_dir():
        runner.close()
        raise InvalidSetting(f"profile is {path}, but there is no {path.parent}")
    if rank:
        path = path.with_name(f"{path.stem}.rank{rank}{path.suffix}")
    steps = settings.profile_from, settings.profile_steps
    return ProfiledRunner(runner, path, *steps, lambda: Profiler(device.type == "cuda"))


def _words(plan: StepPlan) -> str:
    return f"{len(plan.decodes)} decodes, {plan.num_tokens} tokens"
