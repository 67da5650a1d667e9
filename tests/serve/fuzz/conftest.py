"""One real server for all examples, in a thread of its own, whose log is watched."""

import asyncio
import logging
import threading

import msgspec
import pytest

from legato.engine import Engine, FakeModel
from legato.gpu.fake import FAKE_LIMITS
from legato.serve import ServeSettings, serve

# Short, so that an answer that asks for all there is ends soon.
LIMITS = msgspec.structs.replace(FAKE_LIMITS, max_context=128, num_slots=16)
KEY = "sk-right"


class Tracebacks(logging.Handler):
    """Keeps what was logged as an error."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        if record.exc_info or record.levelno >= logging.ERROR:
            self.said.append(self.format(record))


class LiveServer:
    """A server in a thread."""

    def __init__(self):
        self.engine = Engine(FakeModel(script=b"Hello, w\xc3\xb6rld", limits=LIMITS))
        self.url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),))

    async def _serve(self):
        self._loop = asyncio.get_running_loop()

        def ready(server):
            self._server = server
            self._ready.set()

        await serve(
            self.engine,
            ServeSettings(port=0, api_keys=(KEY,), resume_grace_s=0.2),
            on_listening=lambda url: setattr(self, "url", url),
            on_ready=ready,
        )

    def start(self):
        self._thread.start()
        assert self._ready.wait(30)

    def stop(self):
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def check_pages(self):
        """Every page is back."""
        asyncio.run_coroutine_threadsafe(self.engine.wait_idle(), self._loop).result(30)
        stats = self.engine.stats()
        assert stats.open_streams == 0
        core = stats.core
        assert (core.live, core.pages_used) == (0, 0)
        assert core.pages_free + core.pages_cached == core.pages_total


@pytest.fixture(scope="package")
def live():
    server = LiveServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def watched(live):
    """The server; afterwards nothing went wrong inside, and nothing is kept."""
    tracebacks = Tracebacks()
    root = logging.getLogger()
    names = [None, "legato", "uvicorn", "uvicorn.error", "asyncio", "websockets"]
    loggers = [root if name is None else logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addHandler(tracebacks)
    yield live
    live.check_pages()
    for logger in loggers:
        logger.removeHandler(tracebacks)
    assert not tracebacks.said
