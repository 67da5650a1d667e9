"""One run of an engine: from the model's name to nothing left behind.

Owns the state (``starting``, ``ready``, ``stalled``, ``draining``, ``failed``,
``closed``) and the actors. What users ask of a running engine is not its business.
"""

import asyncio
import contextlib

from ..actors.blocking import in_thread, to_the_end
from ..gpu.fake_model import FakeModel, fake_limits
from ..gpu.source import Model, Progress
from ..protocol.errors import EngineClosed, Failure, MailboxMisused
from .assembly import Assembly
from .core_view import CoreView
from .door import Door
from .metrics import EngineMetrics
from .settings import EngineSettings
from .stats import EngineStats

FAKE_STEP_S = 0.02


class Lifetime:
    """Starts and ends an engine's actors.

    Args:
        model: A name or path, or a ``Model``.
        settings: All of them.
        progress: Told how loading goes, from another thread.
    """

    def __init__(
        self, model: str | Model, settings: EngineSettings, progress: Progress | None
    ) -> None:
        self._model = model
        self._settings = settings
        self._progress = progress
        self._assembly: Assembly | None = None
        self._watch: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.name = model if isinstance(model, str) else model.name
        self.door = Door(settings.max_requests, settings.max_waiting_tokens)
        self.core = CoreView()
        self.metrics = EngineMetrics(self.name, self.stats, self.door.note_end)

    @property
    def assembly(self) -> Assembly:
        """The actors.

        Raises:
            EngineClosed: They were not started.
        """
        if self._assembly is None and self._loop is not None:
            raise EngineClosed(
                "the model is still loading"
                if self.door.state == "starting"
                else "the engine could not be started"
            )
        if self._assembly is None:
            raise EngineClosed("the engine was not started: use `async with Engine(…)`")
        return self._assembly

    async def start(self) -> None:
        """Load the model and start every actor; leaves nothing behind if it fails.

        Raises:
            InvalidModel: The model is missing, broken or of an unknown kind.
            InvalidSetting: A setting cannot work here, with the numbers.
            EngineFailed: The device could not be built.
        """
        if self._loop is not None:
            raise EngineClosed("an engine runs once; make another")
        self._loop = asyncio.get_running_loop()
        model = await in_thread(self._open_model)
        self.name = model.name
        self.metrics = EngineMetrics(self.name, self.stats, self.door.note_end)
        assembly = Assembly(
            model, self._settings, self.metrics, self.core, self.door, self._fail
        )
        try:
            await assembly.start()
        except BaseException:
            self.door.state = "closed"
            await to_the_end(assembly.stop(shut_down()))
            raise
        self._assembly = assembly
        self.metrics.lag.start()
        self._watch = asyncio.create_task(self._watch_actors(), name="legato-watch")
        self.door.state = "ready"

    async def stop(self) -> None:
        """End every stream with ``EngineClosed`` and leave nothing running.

        A cancellation waits until all is down: it takes one step of the device.
        """
        if self._watch is None or self._assembly is None:
            return
        watch, self._watch = self._watch, None
        if self.door.state != "failed":
            self.door.state = "closed"
        watch.cancel()
        self.metrics.lag.stop()
        try:
            await to_the_end(self._assembly.stop(shut_down()))
        finally:
            self.core.close()

    async def drain(self, deadline_s: float) -> None:
        """Admit nothing more; wait for the open streams, at most so long."""
        assembly = self.assembly
        self.check_loop()
        self.door.state = "draining"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                await self.wait_idle()
        assembly.streams.fail_all(shut_down())

    async def wait_idle(self) -> None:
        """Wait until no open stream waits to be admitted and the core is at rest."""
        assembly = self.assembly
        self.check_loop()
        for stream in assembly.streams:
            await stream.decided()
        await self.core.wait_idle(assembly.orders)

    def check_loop(self) -> None:
        """Refuse calls from another event loop than the engine's.

        Raises:
            MailboxMisused: Says what to do instead.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise MailboxMisused(
                "this engine runs in another event loop; hand the call over to it, "
                "for example with asyncio.run_coroutine_threadsafe"
            )

    def stats(self) -> EngineStats:
        """A snapshot of everything."""
        assembly, core = self.assembly, self.core.stats
        return EngineStats(
            state=self.door.state,
            model=self.name,
            open_streams=len(assembly.streams),
            core=core,
            core_restarts=assembly.keeper.num_restarts,
            mailboxes=assembly.mailboxes(),
            ttft_ms_p50=self.metrics.ttft_ms_p50(),
            itl_ms_p50=self.metrics.itl_ms(0.5),
            itl_ms_p99=self.metrics.itl_ms(0.99),
            output_tokens_per_s=self.metrics.tokens_per_s(),
            delivery_ms_p50=self.metrics.delivery_ms(0.5),
            delivery_ms_p99=self.metrics.delivery_ms(0.99),
            step_ms_p50=1e3 * core.step_times.quantile(0.5),
            plan_ms_p50=1e3 * core.plan_times.quantile(0.5),
            plan_ms_p99=1e3 * core.plan_times.quantile(0.99),
            loop_lag_ms_p99=self.metrics.lag_ms(0.99),
            core_lag_ms_p99=1e3 * core.loop_lags.quantile(0.99),
            stages=self.metrics.stage_times(),
        )

    def _open_model(self) -> Model:
        if not isinstance(self._model, str):
            return self._model
        runner = self._settings.runner()
        if self._model == FakeModel.name:
            return FakeModel(limits=fake_limits(runner), step_s=FAKE_STEP_S)
        # Only here, in a thread: torch takes seconds to import, and loops go on
        # meanwhile; whoever brings a model of another kind may never need it.
        from ..gpu.checkpoint_model import CheckpointModel

        return CheckpointModel(self._model, runner, self._progress)

    def _fail(self, failure: Failure) -> None:
        if self.door.state in ("ready", "stalled", "draining"):
            self.door.state = "failed"
            self.door.failure = failure.message
            self.assembly.fail(failure)
            self.core.close()

    async def _watch_actors(self) -> None:
        try:
            await self.assembly.supervisor.wait()
        except Exception as error:
            # Its own failing too: nobody would hear any more that an actor is gone.
            self._fail(Failure.of(error))


def shut_down() -> Failure:
    """What the streams of a closing engine end with."""
    return Failure.of(EngineClosed("the engine was shut down"))
