"""Every response that no connection owns: resumable ones, and those in the background.

Their tasks live here, because they outlive who asked for them; closing ends them all.
Owned by the application.
"""

import asyncio
import logging

import msgspec

from ...protocol.openai.refusal import LOAD, Refusal
from ..backend import Backend
from ..gate import Gate
from ..settings import ServeSettings
from .job import Job
from .replay import Allowance, EventLog
from .run import Run
from .store import ResponseStore

log = logging.getLogger("legato.serve")


class Registry:
    """Runs by the response's id.

    Args:
        engine: Answers.
        gate: Lets responses in.
        store: Keeps what has ended.
        settings: Limits.
    """

    def __init__(
        self,
        engine: Backend,
        gate: Gate,
        store: ResponseStore,
        settings: ServeSettings,
    ) -> None:
        self.store = store
        self._engine = engine
        self._gate = gate
        self._settings = settings
        self._allowance = Allowance(settings.replay_total_bytes)
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._runs)

    def begin(self, job: Job, *, background: bool = False) -> Run:
        """Begin to make a response, in a task of its own.

        Raises:
            Refusal: Too many are kept already, of which none has ended.
        """
        self._make_room()
        run = Run(
            job,
            EventLog(job.events.shape, self._settings.replay_bytes, self._allowance),
            background=background,
            grace_s=self._settings.resume_grace_s,
            on_grace_over=self._give_up,
        )
        self._runs[job.name] = run
        task = asyncio.create_task(self._run(run), name=f"response {job.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    def find(self, name: str, tenant: str) -> Run | None:
        """Return a tenant's run, or None."""
        run = self._runs.get(name)
        return run if run is not None and run.job.tenant == tenant else None

    async def replay(self, name: str, tenant: str) -> EventLog | None:
        """Return the events of a response, here or in the store; None: not kept."""
        run = self.find(name, tenant)
        if run is not None:
            return run.log
        stored = await self.store.get(name, tenant)
        if stored is None or stored.events is None:
            return None
        return EventLog.restored(stored.events)

    def forget(self, run: Run) -> None:
        """Let go of a run and its events."""
        run.stop_waiting()
        run.job.cancel()
        run.log.forget()
        self._runs.pop(run.job.name, None)

    async def close(self) -> None:
        """End every response and wait for that, then close the store."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for run in list(self._runs.values()):
            self.forget(run)
        await self.store.close()

    async def _run(self, run: Run) -> None:
        job = run.job
        try:
            await job.run(self._engine, self._gate, run.log)
        except Exception:
            log.exception("response %s cannot be made", job.name)
        finally:
            run.log.close()
            self._settle(run)

    def _settle(self, run: Run) -> None:
        """Keep the events of what has ended, for a while and in the store."""
        job = run.job
        if job.stored is not None and job.create.store:
            events = run.log.snapshot()
            self.store.put(msgspec.structs.replace(job.stored, events=events))
        if run.is_given_up or not job.begun:
            self._runs.pop(job.name, None)
            run.stop_waiting()
            # Without a response there is only an error, for who follows already.
            if job.begun:
                run.log.forget()
        else:
            run.wait()

    def _give_up(self, run: Run) -> None:
        """Nobody has followed a run for the grace period."""
        if run.job.finished.is_set():
            self.forget(run)
        elif not run.background:
            run.is_given_up = True
            run.job.cancel()

    def _make_room(self) -> None:
        """Where too much is kept, let go of those that ended first."""
        over = len(self._runs) >= self._settings.max_runs
        if not over and not self._allowance.is_over:
            return
        for run in list(self._runs.values()):
            if run.job.finished.is_set():
                self.forget(run)
                if len(self._runs) < self._settings.max_runs:
                    return
        if len(self._runs) >= self._settings.max_runs:
            raise Refusal(
                429,
                "too_many_responses",
                f"{len(self._runs)} resumable and background responses run, the most "
                "there may be",
                kind=LOAD,
                retry_after_s=1.0,
            )
