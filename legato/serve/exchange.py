"""One HTTP request and its answer: bytes under limits, and who is still there.

Knows ASGI and nothing of models. Owned by the request's task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import anyio
from starlette.types import Message, Receive, Scope, Send

from ..protocol.openai.refusal import Refusal
from .settings import ServeSettings

Header = tuple[bytes, bytes]

JSON = b"application/json"


class ClientGone(Exception):
    """The client left; there is nobody to answer."""


class Exchange:
    """A request.

    ``tenant`` is whose API key it carries; "" where none is needed.

    Args:
        scope: ASGI's.
        receive: ASGI's.
        send: ASGI's.
        settings: Limits and deadlines.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, settings: ServeSettings
    ) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.headers = read_headers(scope)
        self.extra_headers: list[Header] = []
        self.tenant = ""
        self.started = False
        self.status = 0
        self._receive = receive
        self._send = send
        self._settings = settings

    async def read_json(self) -> bytes:
        """Read the whole body of a JSON request.

        Raises:
            Refusal: Another content type, too large, or too slow.
            ClientGone: It left before the end.
        """
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(
                415,
                "unsupported_media_type",
                f"the body must be application/json, not {kind or 'untyped'!r}",
            )
        with anyio.move_on_after(self._settings.body_deadline_s):
            return await self._read_body()
        raise Refusal(408, "request_timeout", "the body did not come in time")

    async def _read_body(self) -> bytes:
        limit = self._settings.max_body_bytes
        length = self.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise self._too_large(limit)
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece: bytes = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise self._too_large(limit)
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)

    def _too_large(self, limit: int) -> Refusal:
        # What is left of the body is not read, so the connection cannot be used again.
        self.extra_headers.append((b"connection", b"close"))
        return Refusal(413, "request_too_large", f"a body has at most {limit} bytes")

    async def while_connected(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something, and cancel it if the client leaves.

        Args:
            work: What to do; the whole body must have been read.

        Raises:
            ClientGone: The client left first.
            Exception: Whatever the work raises, as it is.
        """
        failed: list[Exception] = []
        done = False
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, group.cancel_scope)
            try:
                await work()
                done = True
            except Exception as error:
                # Raised outside the group, which would wrap it.
                failed.append(error)
            group.cancel_scope.cancel()
        if failed:
            raise failed[0]
        if not done:
            raise ClientGone

    async def _watch(self, scope: anyio.CancelScope) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def respond(
        self,
        status: int,
        body: bytes,
        *,
        content_type: bytes = JSON,
        headers: Sequence[Header] = (),
    ) -> None:
        """Send a whole answer."""
        length = (b"content-length", str(len(body)).encode())
        await self.start(status, [(b"content-type", content_type), length, *headers])
        await self.finish(b"" if self.method == "HEAD" else body)

    async def refuse(self, refusal: Refusal) -> None:
        """Send an error as a whole answer."""
        headers = refusal.headers()
        if refusal.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await self.respond(refusal.status, refusal.body(), headers=headers)

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        """Send the status and headers."""
        self.started = True
        self.status = status
        await self._push(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, *self.extra_headers],
            }
        )

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body.

        Raises:
            ClientGone: It left, or read nothing for the send deadline.
        """
        await self._push(
            {"type": "http.response.body", "body": piece, "more_body": True}
        )

    async def finish(self, piece: bytes = b"") -> None:
        """Send the last piece of the body."""
        await self._push({"type": "http.response.body", "body": piece})

    async def _push(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self._settings.send_deadline_s):
                await self._send(message)
        except OSError as error:
            # TimeoutError is one: the client is there but reads nothing. A transport
            # of ours can be cut; any other is left to its own timeouts.
            if isinstance(error, TimeoutError):
                abort = self.scope.get("extensions", {}).get("legato.abort")
                if abort is not None:
                    abort()
            raise ClientGone from None


def read_headers(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name; of several with one name, the first."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return headers
