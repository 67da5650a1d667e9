"""``/admin``: what the owner of a server may see and change while it runs.

It always asks for an API key: on a server without keys it is shut, for anybody who
reaches the port could change it for all.
"""

import logging
from typing import Any

import anyio
import msgspec

from ..actors.scheduling.batching import STRATEGIES, Batching
from ..protocol.errors import InvalidRequest, InvalidSetting, UnknownOption
from ..protocol.openai.document import Wire, broken, explain
from ..protocol.openai.refusal import Refusal
from .backend import Backend
from .exchange import Exchange

logger = logging.getLogger("legato.serve")

# A core at rest reports only when asked, and answers at once; one at work reports ten
# times a second by itself.
SETTLE_S = 1.0


class CoreInForce(msgspec.Struct, frozen=True):
    """The part of the core's stats that is shown here."""

    strategy: str
    strategy_why: str


class InForce(msgspec.Struct, frozen=True):
    """The part of the engine's stats that is shown here."""

    open_streams: int
    core: CoreInForce


class Admin:
    """Shows and changes the batching strategy.

    Args:
        engine: Whose.
        enabled: The server has keys, and the application has checked the request's.
    """

    def __init__(self, engine: Backend, *, enabled: bool) -> None:
        self._engine = engine
        self._enabled = enabled

    async def show_batching(self, exchange: Exchange) -> None:
        """``GET /admin/batching``: the strategy in force, and why.

        Raises:
            Refusal: 403, the server has no keys.
            EngineClosed: The engine is not open yet, or no longer.
        """
        self._check_enabled()
        core = self._in_force().core
        await answer(exchange, {"strategy": core.strategy, "why": core.strategy_why})

    async def change_batching(self, exchange: Exchange) -> None:
        """``POST /admin/batching``: put another strategy in force, and repeat it whole.

        Answers already running go on untouched.

        Raises:
            Refusal: 403, the server has no keys.
            InvalidRequest: Names the field at fault, and its range.
            EngineClosed: The engine is not open yet, or no longer.
        """
        self._check_enabled()
        batching = read_batching(await exchange.read_json())
        self._engine.set_batching(batching)
        logger.info("%s changed batching to %r", exchange.tenant, batching)
        if not self._in_force().open_streams:
            with anyio.move_on_after(SETTLE_S):
                await self._engine.wait_idle()
        await answer(exchange, {"batching": batching})

    def _in_force(self) -> InForce:
        stats = self._engine.stats()
        return msgspec.convert(stats, InForce, from_attributes=True)

    def _check_enabled(self) -> None:
        if not self._enabled:
            raise Refusal(
                403,
                "admin_disabled",
                "administration needs an API key, and this server has none: start it "
                "with --api-key KEY",
            )


async def answer(exchange: Exchange, figures: dict[str, Any]) -> None:
    """Send figures of this moment."""
    headers = [(b"cache-control", b"no-store")]
    await exchange.respond(200, msgspec.json.encode(figures), headers=headers)


def read_batching(body: bytes) -> Batching:
    """Read a strategy: ``{"type": "dynamic", "max_batch": 16, "max_delay_s": 0.02}``.

    Raises:
        InvalidRequest: Names the field at fault, and its range.
    """
    try:
        options = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.ValidationError:
        raise InvalidRequest("the body must be one JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(body, error) from None
    kind = options.get("type")
    strategy = STRATEGIES.get(kind) if isinstance(kind, str) else None
    if strategy is None:
        known = ", ".join(STRATEGIES)
        raise InvalidRequest(f"must be one of {known}, got {kind!r}", field="type")
    known = strategy.__struct_fields__
    for name in options:
        if name != "type" and name not in known:
            raise UnknownOption(name, known)
    try:
        return msgspec.convert(options, strategy)
    except msgspec.ValidationError as error:
        raise explain(error, Wire) from None
    except InvalidSetting as error:
        # Its text begins with the name of the setting.
        field, _, text = str(error).partition(" ")
        raise InvalidRequest(text, field=field) from None
