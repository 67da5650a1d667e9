"""``GET /health``, ``/metrics`` and their like: how the server is.

All answer from the loop, out of what is known already; none waits for the device.
"""

import contextlib

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from ..protocol.errors import EngineClosed
from ..version import __version__
from .backend import Backend
from .exchange import Exchange
from .gate import Gate
from .router import Handler

METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Health:
    """Answers probes and scrapes.

    Args:
        engine: Whose health and metrics.
        gate: Knows of a drain, and who is inside.
    """

    def __init__(self, engine: Backend, gate: Gate) -> None:
        self._engine = engine
        self._gate = gate
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "legato_http_requests",
            "HTTP requests answered, by route and status.",
            ("route", "status"),
            registry=self._registry,
        )
        self._sockets = Gauge(
            "legato_websockets_open", "WebSockets open.", registry=self._registry
        )
        inside = Gauge(
            "legato_answers_open", "Answers under way.", registry=self._registry
        )
        inside.set_function(lambda: gate.inside)

    def routes(self) -> dict[tuple[str, str], Handler]:
        """By path and method; ``/ping`` is how some platforms call ``/health``."""
        return {
            ("/health", "GET"): self.health,
            ("/ping", "GET"): self.health,
            ("/ping", "POST"): self.health,
            ("/version", "GET"): self.version,
            ("/metrics", "GET"): self.metrics,
        }

    def count_request(self, route: str, status: int) -> None:
        """Count one answered request."""
        self._requests.labels(route, str(status)).inc()

    def count_sockets(self, change: int) -> None:
        """Count a socket that opened (1) or closed (-1)."""
        self._sockets.inc(change)

    async def health(self, exchange: Exchange) -> None:
        """``GET /health``: 200 when ready, else 503 with the cause."""
        state = self._gate.state
        report = {"status": state, "model": self._engine.name}
        if state != "ready":
            report["cause"] = self._engine.failure or CAUSES.get(state, state)
        status = 200 if state == "ready" else 503
        await exchange.respond(status, msgspec.json.encode(report))

    async def version(self, exchange: Exchange) -> None:
        """``GET /version``."""
        await exchange.respond(200, msgspec.json.encode({"version": __version__}))

    async def metrics(self, exchange: Exchange) -> None:
        """``GET /metrics``, the engine's and the front end's own."""
        text = generate_latest(self._registry)
        # Until it is open, and after it is closed, an engine has nothing to tell.
        with contextlib.suppress(EngineClosed):
            text = self._engine.metrics_text() + text
        await exchange.respond(200, text, content_type=METRICS_TYPE)


CAUSES = {
    "starting": "the model is still loading",
    "draining": "the server is shutting down",
    "closed": "the engine was closed",
}
