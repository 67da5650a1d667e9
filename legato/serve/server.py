"""The server process: listens, serves the application, drains and goes.

SIGTERM or SIGINT closes the door: newcomers get 503, answers under way finish, then
every socket closes with 1012 (the service restarts). Answers that do not finish in time
end with an error, since every answer has an end. A second signal does not wait.
"""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import Any, Protocol

import anyio
import uvicorn

from ..protocol.errors import InvalidSetting, LegatoError
from .app import Application, create_app
from .backend import Backend
from .settings import ServeSettings
from .socket_transport import SocketTransport
from .transport import http_transport

FORCED_EXIT_S = 5
# For answers that were ended to tell it their clients.
LAST_WORDS_S = 2.0
TICK_S = 1.0
log = logging.getLogger("legato.serve")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class OpenableBackend(
    Backend, AbstractAsyncContextManager[object, bool | None], Protocol
):
    """An engine that the server opens and closes itself."""

    async def drain(self, deadline_s: float) -> None:
        """Admit nothing more, and end what is still open at the deadline."""
        ...


class Server(uvicorn.Server):
    """Uvicorn, with a drain before its shutdown.

    Args:
        app: What it serves.
        settings: Addresses and deadlines.
        end_answers: Ends the answers that are under way when the drain's time is up.
    """

    def __init__(
        self,
        app: Application,
        settings: ServeSettings,
        end_answers: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(uvicorn_config(app, settings))
        self._end_answers = end_answers
        self._app = app
        self._gate = app.gate
        self._drain_s = settings.drain_s
        self._asked = asyncio.Event()

    def stop(self, *, at_once: bool = False) -> None:
        """Begin to shut down; a second call does not wait for anybody.

        Args:
            at_once: Do not wait in the first place.
        """
        if self.should_exit or at_once:
            self.force_exit = True
        elif self._gate.inside:
            log.info(
                "finishing %d answers; another signal does not wait for them",
                self._gate.inside,
            )
        self.should_exit = True
        self._gate.close()
        self._asked.set()

    async def main_loop(self) -> None:
        """Wait to be asked to stop, and keep the date header right meanwhile.

        Uvicorn's own looks ten times a second whether it should.
        """
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._asked.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take signals without raising them again at the end.

        Uvicorn does, and the process would die before its engine is closed.
        """
        loop = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            # A handler runs between two instructions of whatever is running; the loop
            # may be asleep and has to be woken.
            loop.call_soon_threadsafe(self.stop)

        before: dict[int, Any] = {}
        with contextlib.suppress(ValueError):  # not the main thread: nobody signals it
            for number in SIGNALS:
                before[number] = signal.signal(number, handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let answers under way finish, then close everything.

        It listens meanwhile, so that newcomers and probes are told 503 and why.
        """
        self._gate.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                await self._emptied()
        if self._gate.inside and self._end_answers is not None:
            await self._end_answers()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._gate.emptied()
        try:
            await super().shutdown(sockets)
        finally:
            await self._app.close()

    async def _emptied(self) -> None:
        emptied = asyncio.ensure_future(self._gate.emptied())
        try:
            while not (emptied.done() or self.force_exit):
                await asyncio.wait([emptied], timeout=0.1)
        finally:
            emptied.cancel()


def uvicorn_config(app: Application, settings: ServeSettings) -> uvicorn.Config:
    """Uvicorn's settings: our transports, no deflate, quiet."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=http_transport(settings),
        ws=SocketTransport,
        ws_max_size=settings.max_frame_bytes,
        ws_per_message_deflate=False,
        ws_ping_interval=settings.ping_interval_s,
        ws_ping_timeout=settings.ping_timeout_s,
        backlog=settings.backlog,
        lifespan="off",
        log_level="info" if settings.access_log else "warning",
        access_log=settings.access_log,
        server_header=False,
        timeout_graceful_shutdown=FORCED_EXIT_S,
    )


def listen(settings: ServeSettings) -> socket.socket:
    """Take the address, before anything slow is done.

    Raises:
        InvalidSetting: It cannot be had; says why.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise InvalidSetting(
            f"cannot listen on {settings.host}:{settings.port}: "
            f"{error.strerror or error}; choose another --port or --host"
        ) from error
    # Whoever connects from now on waits for the server instead of being refused.
    listener.listen(settings.backlog)
    return listener


async def serve(
    engine: OpenableBackend,
    settings: ServeSettings | None = None,
    *,
    listener: socket.socket | None = None,
    on_listening: Callable[[str], object] = lambda url: None,
    on_ready: Callable[[Server], object] = lambda server: None,
) -> None:
    """Open an engine and serve it until a signal.

    It listens at once; until the engine is open, ``/health`` says ``starting``.

    Args:
        engine: Not yet open.
        settings: Of the front end.
        listener: From ``listen``, to have the address before the engine is made; None
            takes it here.
        on_listening: Told the base URL.
        on_ready: Told when the engine is open.

    Raises:
        InvalidSetting: The address cannot be had.
        LegatoError: The engine could not be opened.
    """
    settings = settings or ServeSettings()
    listener = listener or listen(settings)

    async def end_answers() -> None:
        if engine.state == "ready":
            await engine.drain(0.0)

    server = Server(create_app(engine, settings), settings, end_answers)
    host, port = listener.getsockname()[:2]
    on_listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    failures: list[LegatoError] = []
    served = asyncio.Event()

    async def hold() -> None:
        try:
            async with engine:
                on_ready(server)
                await served.wait()
        except LegatoError as error:
            failures.append(error)
            server.stop(at_once=True)

    async with anyio.create_task_group() as group:
        group.start_soon(hold)
        await server.serve(sockets=[listener])
        served.set()
        if engine.state == "starting":
            group.cancel_scope.cancel()
    if failures:
        raise failures[0]


def run_server(
    engine: OpenableBackend,
    settings: ServeSettings | None = None,
    *,
    listener: socket.socket | None = None,
    on_listening: Callable[[str], object] = lambda url: None,
    on_ready: Callable[[Server], object] = lambda server: None,
) -> None:
    """``serve`` in an event loop of its own: uvloop, where there is one.

    Raises:
        LegatoError: As ``serve`` does.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(
            serve(
                engine,
                settings,
                listener=listener,
                on_listening=on_listening,
                on_ready=on_ready,
            )
        )


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, or None for asyncio's own on systems without it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
