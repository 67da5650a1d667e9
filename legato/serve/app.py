"""The front end: one ASGI 3 application for every protocol, on one port.

It does not own the engine: whoever opens that serves this while it is open.
"""

from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from ..protocol.openai.refusal import Refusal
from .admin import Admin
from .backend import Backend
from .catalog import Catalog
from .chat import CHAT_PATHS, ChatEndpoint, Chats, ChatSocketEndpoint
from .credentials import authorization_of
from .debug import OPEN_PATHS as DEBUG_PATHS
from .debug import DebugEndpoint
from .exchange import ClientGone, Exchange, read_headers
from .gate import Gate
from .generation import chat_endpoint, completion_endpoint
from .health import Health
from .judgement import refusal_of
from .keys import KeyRing
from .openapi import OPEN_PATHS as DESCRIPTION_PATHS
from .openapi import DescriptionEndpoint
from .origin import OriginList, cors_headers, preflight_headers
from .playground import OPEN_PATHS as PLAYGROUND_PATHS
from .playground import playground
from .realtime import RealtimeEndpoint
from .responses import (
    Registry,
    ResponsesEndpoint,
    ResponsesResource,
    make_store,
)
from .router import Handler, Router, path_of
from .settings import ServeSettings
from .socket import Socket
from .text import TextEndpoint

# Probes and a page's own files carry no key, and tell nothing that a key protects.
PROBES = frozenset({"/health", "/ping", "/version"})
OPEN_PATHS = PROBES | DEBUG_PATHS | DESCRIPTION_PATHS | PLAYGROUND_PATHS
RESPONSES_PATH = "/v1/responses"
SocketHandler = Callable[[Socket, str], Awaitable[None]]


class Application:
    """Every protocol over one engine.

    Args:
        engine: Open, or about to be.
        settings: Limits, keys and origins.
    """

    def __init__(self, engine: Backend, settings: ServeSettings) -> None:
        self.gate = Gate(engine, settings.max_requests_per_key)
        self._settings = settings
        self._origins = OriginList(
            settings.allowed_origins, allow_localhost=settings.allow_localhost
        )
        self._keys = KeyRing(settings.api_keys)
        self._health = Health(engine, self.gate)
        chats = Chats(engine, self.gate, settings)
        chat_sockets = ChatSocketEndpoint(engine, self.gate, settings, chats)
        self._registry = Registry(engine, self.gate, make_store(settings), settings)
        # It also takes a key as the first frame.
        self._responses = ResponsesEndpoint(
            engine, self.gate, self._registry, self._keys, settings
        )
        self._sockets: dict[str, SocketHandler] = {
            RESPONSES_PATH: self._responses,
            "/v1/realtime": RealtimeEndpoint(engine, self.gate, settings),
            **dict.fromkeys(CHAT_PATHS, chat_sockets),
        }
        self._router = self._make_router(engine, chats)

    def _make_router(self, engine: Backend, chats: Chats) -> Router:
        settings, gate = self._settings, self.gate
        admin, catalog = Admin(engine, enabled=bool(self._keys)), Catalog(engine)
        chat = ChatEndpoint(engine, gate, chats)
        responses = ResponsesResource(engine, gate, self._registry)
        described = DescriptionEndpoint(
            has_keys=bool(self._keys), has_playground=settings.playground
        )
        return Router(
            {
                ("/v1/chat/completions", "POST"): chat_endpoint(engine, gate),
                ("/v1/completions", "POST"): completion_endpoint(engine, gate),
                **responses.routes(),
                **chat.routes(),
                **TextEndpoint(engine, gate).routes(),
                ("/v1/models", "GET"): catalog.list,
                ("/admin/batching", "GET"): admin.show_batching,
                ("/admin/batching", "POST"): admin.change_batching,
                **self._health.routes(),
                ("/openapi.json", "GET"): described,
                **DebugEndpoint(engine, gate).routes(),
                **(playground() if settings.playground else {}),
            },
            {
                ("/v1/models/{name}", "GET"): catalog.show,
                **responses.named_routes(),
                **chat.named_routes(),
            },
        )

    async def close(self) -> None:
        """End what no connection owns, and close the store."""
        self.gate.close()
        await self._registry.close()

    def routes(self) -> frozenset[tuple[str, str]]:
        """Every HTTP path and method that is served."""
        return self._router.routes()

    @property
    def socket_paths(self) -> frozenset[str]:
        """Every path at which a WebSocket is served."""
        return frozenset(self._sockets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, one socket, or the server's lifespan."""
        kind = scope["type"]
        if kind == "http":
            await self._serve_http(Exchange(scope, receive, send, self._settings))
        elif kind == "websocket":
            await self._serve_socket(Socket(scope, receive, send))
        elif kind == "lifespan":
            await self._live(receive, send)
        else:
            raise ValueError(f"unknown ASGI scope {kind!r}")

    async def _serve_http(self, exchange: Exchange) -> None:
        route = "none"
        try:
            try:
                if exchange.method == "OPTIONS":
                    await self._preflight(exchange)
                else:
                    route, handler = self._enter(exchange)
                    await handler(exchange)
            except ClientGone:
                raise
            except Exception as error:
                refusal = refusal_of(error)
                if exchange.started:
                    raise
                if refusal.status == 405:
                    allow = self._router.methods(path_of(exchange.scope)).encode()
                    exchange.extra_headers.append((b"allow", allow))
                await exchange.refuse(refusal)
        except ClientGone:
            # Nobody is left to hear of it; the request was cancelled on the way here.
            self._health.count_request(route, 499)
        else:
            self._health.count_request(route, exchange.status)

    def _enter(self, exchange: Exchange) -> tuple[str, Handler]:
        path = path_of(exchange.scope)
        self._admit_origin(exchange)
        if path not in OPEN_PATHS:
            authorization = exchange.headers.get("authorization")
            exchange.tenant = self._keys.check(authorization)
        return self._router.find(path, exchange.method)

    def _tenant_of(self, authorization: str | None, path: str) -> str | None:
        """Whose key a socket carries; None: its first frame must bring one."""
        if authorization is None and self._keys and path == RESPONSES_PATH:
            return None
        return self._keys.check(authorization)

    def _admit_origin(self, exchange: Exchange) -> None:
        origin = exchange.headers.get("origin")
        if not self._origins.admits(origin):
            raise forbidden(origin)
        exchange.extra_headers += cors_headers(origin)

    async def _preflight(self, exchange: Exchange) -> None:
        self._admit_origin(exchange)
        asked = exchange.headers.get("access-control-request-headers", "")
        headers = preflight_headers(asked.encode("latin-1"))
        await exchange.start(204, headers)
        await exchange.finish()

    async def _serve_socket(self, socket: Socket) -> None:
        headers = read_headers(socket.scope)
        try:
            origin = headers.get("origin")
            if not self._origins.admits(origin):
                raise forbidden(origin)
            path = path_of(socket.scope)
            handler = self._sockets.get(path)
            if handler is None:
                served = ", ".join(self._sockets)
                raise Refusal(404, "not_found", f"sockets are served at {served}")
            tenant = self._tenant_of(authorization_of(socket.scope, headers), path)
        except Refusal as refusal:
            await socket.refuse(refusal)
            return
        self._health.count_sockets(1)
        try:
            if tenant is None:
                await self._responses(socket, None)
            else:
                await handler(socket, tenant)
        finally:
            self._health.count_sockets(-1)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                await self.close()
                return


def forbidden(origin: str | None) -> Refusal:
    """The refusal of a page that may not speak to this server."""
    return Refusal(
        403,
        "origin_not_allowed",
        f"pages of {origin} may not use this server; its owner can allow them",
        param="origin",
    )


def create_app(engine: Backend, settings: ServeSettings | None = None) -> Application:
    """Make the ASGI application; it mounts inside FastAPI and Starlette too.

    Args:
        engine: Open while the application serves; until then it answers 503.
        settings: Limits, keys and origins.
    """
    return Application(engine, settings or ServeSettings())
