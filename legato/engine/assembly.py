"""An engine's actors, put together: who is built from what, started and ended how.

Lives as long as one run of the engine. Starting goes from the device outwards, ending
the other way round.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..actors.core import ThreadCore
from ..actors.detokenizer import Detokenizer
from ..actors.streams import StreamObserver, Streams
from ..actors.supervisor import Supervisor
from ..actors.text import PromptEncoder, Vocabulary
from ..actors.tokenizer import Tokenizer
from ..mailbox import LoopInbox, Mailbox, MailboxStats, Overflow
from ..protocol.core import CoreReport
from ..protocol.errors import Failure
from ..protocol.models import TextSource
from ..protocol.requests import Generate
from ..protocol.steps import RunnerLimits
from .model import Model
from .settings import EngineSettings

# Merged beyond this: a front end that lags gets fewer, longer reports and the core
# never waits for it.
MAX_REPORTS = 64

# Room for prompts whose readers left before they were encoded.
ABANDONED_PROMPTS = 64

T = TypeVar("T")


class Assembly:
    """The actors of one engine.

    Args:
        model: What to run.
        settings: Unpacked here, and nowhere below.
        observer: Hears of streams.
        on_report: Told of the core's stats, readiness and failure.
    """

    def __init__(
        self,
        model: Model,
        settings: EngineSettings,
        observer: StreamObserver,
        on_report: Callable[[CoreReport], None],
    ) -> None:
        self._model = model
        self._settings = settings
        self._observer = observer
        self._on_report = on_report
        self._reports = LoopInbox[CoreReport](
            "detokenizer",
            MAX_REPORTS,
            overflow=Overflow.COALESCE,
            merge=CoreReport.merge,
        )
        self._prompts = Mailbox[Generate](
            "tokenizer", settings.max_requests + ABANDONED_PROMPTS
        )
        self._core = ThreadCore(
            model.build,
            self._reports.address(),
            settings.planner(),
            settings.restarts(),
        )
        self.orders = self._core.orders()
        self.prompts = self._prompts.address()
        self.supervisor = Supervisor(settings.restarts())
        self.text: TextSource
        self.vocabulary: Vocabulary
        self.encoder: PromptEncoder
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
        self._core.start()
        await in_thread(self._read_text)
        self.streams = Streams(self.vocabulary, self.orders, self._observer)
        self.limits = await self._ready()
        detokenizer = Detokenizer(self._reports, self.streams, self._on_report)
        tokenizer = Tokenizer(
            self._prompts,
            self.encoder,
            self.streams,
            self.orders,
            max_context=self.limits.max_context,
            ends=self.text.stop_ids,
        )
        self.supervisor.start("detokenizer", detokenizer.run)
        self.supervisor.start("tokenizer", tokenizer.run)

    async def stop(self, failure: Failure) -> None:
        """End every stream with the failure, then every actor; leave nothing."""
        if hasattr(self, "streams"):
            self.streams.fail_all(failure)
        await self.supervisor.stop()
        self._core.stop()
        await in_thread(self._core.join)
        self._reports.close()
        self._prompts.close()

    def mailboxes(self) -> tuple[MailboxStats, ...]:
        """The mailboxes' counters now."""
        return self._prompts.stats(), self.orders.stats(), self._reports.stats()

    def _read_text(self) -> None:
        self.text = self._model.text()
        self.vocabulary = Vocabulary.load(self.text.vocabulary)
        self.encoder = PromptEncoder.of(self.vocabulary, self.text)

    async def _ready(self) -> RunnerLimits:
        while True:
            report = await self._reports.get()
            if report.failure is not None:
                raise report.failure.error()
            if report.limits is not None:
                self.memory = report.memory
                return report.limits


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread of its own, which is gone afterwards.

    Cancelling waits for the work to end: it cannot be interrupted, and whoever cleans
    up behind it must not run beside it.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, "legato-work") as thread:
        future = loop.run_in_executor(thread, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise
