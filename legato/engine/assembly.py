"""An engine's actors, put together: who is built from what, started and ended how.

Lives as long as one run of the engine. Starting goes from the device outwards, ending
the other way round.
"""

from collections.abc import Callable

from ..actors.blocking import in_thread
from ..actors.core import Core, CoreSpec, ThreadCore
from ..actors.core_keeper import CoreKeeper
from ..actors.core_process import ProcessCore
from ..actors.detokenizer import Detokenizer
from ..actors.orders import OrderLine, SetBatching
from ..actors.scheduling.batching import Batching
from ..actors.streams import Streams
from ..actors.supervisor import Supervisor
from ..actors.text import AnswerForms, PromptEncoder, Speller, Vocabulary
from ..actors.tokenizer import Tokenizer
from ..actors.tracing import Tracer
from ..actors.watchdog import Watchdog
from ..gpu.source import Model
from ..mailbox import LoopInbox, Mailbox, MailboxStats, Overflow
from ..protocol.core import CoreReport
from ..protocol.errors import EngineFailed, Failure
from ..protocol.models import TextSource
from ..protocol.requests import Generate
from ..protocol.steps import RunnerLimits
from .core_view import CoreView
from .door import Door
from .metrics import EngineMetrics
from .settings import EngineSettings
from .tracing import Tracing

# Merged beyond this: a front end that lags gets fewer, longer reports and the core
# never waits for it.
MAX_REPORTS = 64

# Room for prompts whose readers left before they were encoded.
ABANDONED_PROMPTS = 64


class Assembly:
    """The actors of one engine.

    Args:
        model: What to run.
        settings: Unpacked here, and nowhere below.
        metrics: Hears of streams, and of the core's output.
        core: Told of each of the core's reports.
        door: Closed while the core hangs.
        on_failure: Told once, when nothing can run any more.
    """

    def __init__(
        self,
        model: Model,
        settings: EngineSettings,
        metrics: EngineMetrics,
        core: CoreView,
        door: Door,
        on_failure: Callable[[Failure], None],
    ) -> None:
        self._model = model
        self._settings = settings
        self._metrics = metrics
        self._view = core
        self._door = door
        self._batching: Batching | None = None
        self._reports = LoopInbox[CoreReport](
            "detokenizer",
            MAX_REPORTS,
            overflow=Overflow.COALESCE,
            merge=CoreReport.merge,
        )
        self._prompts = Mailbox[Generate](
            "tokenizer", settings.max_requests + ABANDONED_PROMPTS
        )
        self.orders = OrderLine()
        self.prompts = self._prompts.address()
        self.keeper = self._make_keeper(on_failure)
        self.watchdog = self._make_watchdog()
        self.tracing = Tracing(Tracer(), self.orders, self.mailboxes)
        self.supervisor = Supervisor(settings.restarts())
        self.text: TextSource
        self.vocabulary: Vocabulary
        self.encoder: PromptEncoder
        self.forms: AnswerForms
        self.streams: Streams
        self.limits: RunnerLimits
        self.memory = ""

    async def start(self) -> None:
        """Build the device and read the text, side by side; then start the actors.

        Raises:
            InvalidModel: With a line that says what to do.
            InvalidSetting: With the numbers.
            EngineFailed: The device could not be built.
        """
        await self.keeper.start()
        await in_thread(self._read_text)
        self.streams = Streams(self.vocabulary, self.orders, self._metrics)
        self.limits = await self._ready()
        detokenizer = Detokenizer(
            self._reports, self.streams, self.tracing.tracer, self._hear
        )
        tokenizer = Tokenizer(
            self._prompts,
            self.encoder,
            self.forms,
            self.streams,
            self.orders,
            self.tracing.tracer,
            max_context=self.limits.max_context,
            ends=self.text.stop_ids,
        )
        self.supervisor.start("keeper", self.keeper.run)
        if self._settings.step_timeout_s:
            self.supervisor.start("watchdog", self.watchdog.run)
        self.supervisor.start("detokenizer", detokenizer.run)
        self.supervisor.start("tokenizer", tokenizer.run)

    def fail(self, failure: Failure) -> None:
        """End every stream; the core computes for nobody now, and is told to end."""
        self.streams.fail_all(failure)
        self.keeper.retire()

    def stall(self, failure: Failure) -> None:
        """The core hangs: end every stream, and keep others out meanwhile."""
        self._door.stall(failure.message)
        self.streams.give_up(failure)

    def recover(self) -> None:
        """The core goes on after all: let them in again."""
        self._door.recover()

    async def stop(self, failure: Failure) -> None:
        """End every stream with the failure, then every actor; leave nothing."""
        if hasattr(self, "streams"):
            self.streams.fail_all(failure)
        await self.supervisor.stop()
        await self.keeper.stop()
        self._reports.close()
        self._prompts.close()

    def mailboxes(self) -> tuple[MailboxStats, ...]:
        """The mailboxes' counters now."""
        return self._prompts.stats(), *self.orders.stats(), self._reports.stats()

    def set_batching(self, batching: Batching) -> None:
        """Change the strategy of this core and of every later one."""
        self._batching = batching
        self.orders.put_urgent(SetBatching(batching))

    def _make_keeper(self, on_failure: Callable[[Failure], None]) -> CoreKeeper:
        limit = self._settings.restarts()
        return CoreKeeper(
            self._make_core, self.orders, limit, self._brief_core, on_failure
        )

    def _make_watchdog(self) -> Watchdog:
        timeout_s = self._settings.step_timeout_s
        return Watchdog(
            timeout_s, self.keeper, self.orders, lambda: len(self.streams) > 0, self
        )

    def _make_core(self) -> Core:
        kind = ProcessCore if self._settings.placement == "process" else ThreadCore
        spec = CoreSpec(
            build=self._model.build,
            planner=self._settings.planner(),
            spell=Speller(self._model.text),
            max_orders=2 * self._settings.max_requests,
            restart_intensity=self._settings.restart_intensity,
            restart_period_s=self._settings.restart_period_s,
        )
        return kind(spec, self._reports.address())

    def _brief_core(self) -> None:
        """Tell a new core what the last one knew."""
        if self._batching is not None:
            self.orders.put_urgent(SetBatching(self._batching))
        self.streams.resume_all()
        self._view.ask_again(self.orders)
        self.tracing.renew()

    def _hear(self, report: CoreReport) -> None:
        if report.output is not None:
            self._metrics.delivered(report.output.finished_s)
        if report.trace is not None:
            self.tracing.hear(report.trace)
        if report.stats is not None:
            self.watchdog.hear(report.stats)
        self._view.hear(report)
        self.keeper.hear(report)

    def _read_text(self) -> None:
        self.text = self._model.text()
        self.vocabulary = Vocabulary.load(self.text.vocabulary)
        self.encoder = PromptEncoder.of(self.vocabulary, self.text)
        self.forms = AnswerForms(self.vocabulary, self.text)

    async def _ready(self) -> RunnerLimits:
        while True:
            report = await self._reports.get()
            if report.failure is not None:
                raise report.failure.error()
            if report.lost is not None:
                raise EngineFailed(report.lost.message)
            if report.limits is not None:
                self.keeper.hear(report)
                self.memory = report.memory
                return report.limits
