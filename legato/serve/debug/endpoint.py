"""``/debug``: a static page, the figures it draws, and traces of a few seconds.

The page itself tells nothing that a key protects; the figures and traces do, and the
page asks for the key when it is needed. Nothing here waits for the device.
"""

import math
from importlib.resources import files
from urllib.parse import parse_qs

import msgspec

from ...protocol.openai.refusal import GONE, Refusal
from ..backend import Backend
from ..exchange import Exchange
from ..gate import Gate
from ..page import Page
from ..router import Handler

PATHS = {
    "/debug": "page.html",
    "/debug/page.js": "page.js",
    "/debug/page.css": "page.css",
}
OPEN_PATHS = frozenset(PATHS)

USUAL_TRACE_S = 5.0
MAX_TRACE_S = 60.0


class DebugEndpoint:
    """The page and what it asks for.

    Args:
        engine: Whose pipeline.
        gate: Knows how many answers are under way.
    """

    def __init__(self, engine: Backend, gate: Gate) -> None:
        self._engine = engine
        self._gate = gate
        self._page = Page(files(__package__ or __name__), PATHS)

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Path and method to handler."""
        return {
            **self._page.routes(),
            ("/debug/stats", "GET"): self.stats,
            ("/debug/trace", "POST"): self.trace,
        }

    async def stats(self, exchange: Exchange) -> None:
        """``GET /debug/stats``: the engine's stats as JSON.

        Raises:
            EngineClosed: It is not open yet, or no longer.
        """
        figures = {"answers_open": self._gate.inside, "engine": self._engine.stats()}
        headers = [(b"cache-control", b"no-store")]
        await exchange.respond(200, msgspec.json.encode(figures), headers=headers)

    async def trace(self, exchange: Exchange) -> None:
        """``POST /debug/trace?seconds=5``: record so long, and answer with the trace.

        Raises:
            Refusal: 400, for a length that is none; 503, where the engine has failed.
            Overloaded: Another trace is being recorded.
        """
        duration_s = trace_length(exchange.scope.get("query_string", b""))

        if self._gate.state == "failed":
            raise Refusal(
                503,
                "engine_failed",
                f"the engine has failed, and does nothing: {self._engine.failure}",
                kind=GONE,
            )

        async def record() -> None:
            trace = await self._engine.trace(duration_s)
            name = b'attachment; filename="legato-trace.json"'
            headers = [(b"content-disposition", name), (b"cache-control", b"no-store")]
            await exchange.respond(200, trace, headers=headers)

        await exchange.while_connected(record)


def trace_length(query: bytes) -> float:
    """Read the length of a trace from the query, in seconds.

    Raises:
        Refusal: 400, if it is no number or out of range.
    """
    given = parse_qs(query.decode("latin-1")).get("seconds", [f"{USUAL_TRACE_S}"])[-1]
    try:
        duration_s = float(given)
    except ValueError:
        duration_s = math.nan
    if not 0 < duration_s <= MAX_TRACE_S:
        raise Refusal(
            400,
            "invalid_request",
            f"a trace takes more than 0 and at most {MAX_TRACE_S:g} seconds, "
            f"not {given!r}",
            param="seconds",
        )
    return duration_s
