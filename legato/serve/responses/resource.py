"""``/v1/responses`` over HTTP: made, fetched, cancelled, deleted.

A response that is neither stored nor in the background lives as long as its request.
"""

from collections.abc import Mapping
from urllib.parse import parse_qsl

import msgspec

from ...protocol.errors import InvalidRequest, UnknownOption
from ...protocol.openai.input_listing import InputItems, page_of
from ...protocol.openai.refusal import Refusal
from ...protocol.openai.response_events import error_event
from ...protocol.openai.responses import read_body
from ...protocol.sampling import within
from ..backend import Backend
from ..exchange import Exchange
from ..gate import Gate
from ..router import Handler, NamedHandler
from .event_sink import EventSink, Silence
from .job import Job
from .making import make_job
from .recall import Recall
from .registry import Registry
from .replay import EventLog

encode = msgspec.json.encode

PATH = "/v1/responses"
SHOW_OPTIONS = (
    "stream",
    "starting_after",
    "include",
    "include[]",
    "include_obfuscation",
)
LIST_OPTIONS = ("after", "limit", "order", "include", "include[]")
MAX_PAGE = 100


class ResponsesResource:
    """Serves responses over HTTP.

    Args:
        engine: Answers.
        gate: Lets responses in.
        registry: Keeps what outlives a request.
    """

    def __init__(self, engine: Backend, gate: Gate, registry: Registry) -> None:
        self._engine = engine
        self._gate = gate
        self._registry = registry

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Where it is served: the collection."""
        return {(PATH, "POST"): self.create}

    def named_routes(self) -> dict[tuple[str, str], NamedHandler]:
        """And each response."""
        return {
            (f"{PATH}/{{id}}", "GET"): self.show,
            (f"{PATH}/{{id}}", "DELETE"): self.delete,
            (f"{PATH}/{{id}}/cancel", "POST"): self.cancel,
            (f"{PATH}/{{id}}/input_items", "GET"): self.list_input,
        }

    async def create(self, exchange: Exchange) -> None:
        """Make a response.

        Raises:
            LegatoError: It cannot be made; nothing was sent yet.
            ClientGone: The client left; unless in the background, so does the response.
        """
        body = await exchange.read_json()
        with self._gate.admit():
            create = read_body(body, self._engine.default_params())
        recall = Recall(self._registry.store, exchange.tenant)
        job = make_job(create, self._engine, recall, exchange.tenant)
        if create.background:
            await self._in_background(exchange, job)
        elif create.generation.stream:
            await exchange.while_connected(lambda: self._stream(exchange, job))
        else:
            await exchange.while_connected(lambda: self._collect(exchange, job))

    async def _stream(self, exchange: Exchange, job: Job) -> None:
        await job.run(self._engine, self._gate, EventSink(exchange, job))
        await exchange.finish()

    async def _collect(self, exchange: Exchange, job: Job) -> None:
        await job.run(self._engine, self._gate, Silence())
        if job.refusal is not None:
            raise job.refusal
        await exchange.respond(200, encode(job.events.object))

    async def _in_background(self, exchange: Exchange, job: Job) -> None:
        run = self._registry.begin(job, background=True)
        await job.settled.wait()
        if job.refusal is not None and not job.begun:
            raise job.refusal
        if not job.create.generation.stream:
            await exchange.respond(200, encode(job.events.object))
            return
        await exchange.while_connected(lambda: self._replay(exchange, run.log, -1))

    async def show(self, exchange: Exchange, name: str) -> None:
        """Show a response as it is, or its events from one on.

        Raises:
            Refusal: It is not here; or its events are not.
            InvalidRequest: A bad option.
        """
        options = read_options(exchange, SHOW_OPTIONS)
        if not read_flag(options, "stream"):
            if "starting_after" in options:
                raise InvalidRequest("needs stream=true", field="starting_after")
            await exchange.respond(200, await self._object(name, exchange.tenant))
            return
        after = read_whole(options, "starting_after", -1, -1, 2**53)
        log = await self._registry.replay(name, exchange.tenant)
        if log is None:
            await self._object(name, exchange.tenant)
            raise Refusal(
                400,
                "invalid_value",
                "stream: only a response that was made in the background, or "
                "resumable, can be streamed again",
                param="stream",
            )
        await exchange.while_connected(lambda: self._replay(exchange, log, after))

    async def _replay(self, exchange: Exchange, log: EventLog, after: int) -> None:
        reader = log.read(after)
        sink = EventSink(exchange)
        try:
            await sink.start()
            while frames := await reader.next():
                await sink.put(frames)
        except Refusal as refusal:
            # It was forgotten, or this reader was too slow for what may be kept.
            await sink.put([str(error_event(refusal))])
        finally:
            reader.close()
        await exchange.finish()

    async def cancel(self, exchange: Exchange, name: str) -> None:
        """Cancel a response that runs; one that has ended is shown as it is.

        Raises:
            Refusal: It is not here.
        """
        run = self._registry.find(name, exchange.tenant)
        if run is not None:
            run.job.cancel()
            await run.job.finished.wait()
        await exchange.respond(200, await self._object(name, exchange.tenant))

    async def delete(self, exchange: Exchange, name: str) -> None:
        """Forget a response; one that runs is cancelled first.

        Raises:
            Refusal: It is not here.
        """
        run = self._registry.find(name, exchange.tenant)
        if run is not None:
            run.job.cancel()
            await run.job.finished.wait()
            self._registry.forget(run)
        stored = await self._registry.store.delete(name, exchange.tenant)
        if run is None and not stored:
            raise not_found(name)
        gone = {"id": name, "object": "response", "deleted": True}
        await exchange.respond(200, encode(gone))

    async def list_input(self, exchange: Exchange, name: str) -> None:
        """List what a response was asked with.

        Raises:
            Refusal: It is not here.
            InvalidRequest: A bad option.
        """
        options = read_options(exchange, LIST_OPTIONS)
        limit = read_whole(options, "limit", 20, 1, MAX_PAGE)
        order = options.get("order", "desc")
        if order not in ("asc", "desc"):
            raise InvalidRequest("must be asc or desc", field="order")
        page = page_of(
            await self._items(name, exchange.tenant),
            after=options.get("after"),
            limit=limit,
            newest_first=order == "desc",
        )
        await exchange.respond(200, encode(page))

    async def _object(self, name: str, tenant: str) -> bytes:
        run = self._registry.find(name, tenant)
        if run is not None:
            return encode(run.job.events.object)
        stored = await self._registry.store.get(name, tenant)
        if stored is None:
            raise not_found(name)
        return stored.response

    async def _items(self, name: str, tenant: str) -> InputItems:
        run = self._registry.find(name, tenant)
        if run is not None:
            return run.job.create.items
        stored = await self._registry.store.get(name, tenant)
        if stored is None:
            raise not_found(name)
        return msgspec.json.decode(stored.items, type=InputItems)


def read_options(exchange: Exchange, known: tuple[str, ...]) -> Mapping[str, str]:
    """Read a query string; of several with one name, the last.

    Raises:
        UnknownOption: Names one that nobody knows.
    """
    query: bytes = exchange.scope.get("query_string", b"")
    options = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    for name in options:
        if name not in known:
            raise UnknownOption(name, known)
    if read_flag(options, "include_obfuscation"):
        raise InvalidRequest("only false is supported", field="include_obfuscation")
    return options


def read_flag(options: Mapping[str, str], name: str) -> bool:
    """Read ``true`` or ``false``, which is also what absence means.

    Raises:
        InvalidRequest: It is neither.
    """
    value = options.get(name, "false")
    if value not in ("true", "false"):
        raise InvalidRequest("must be true or false", field=name)
    return value == "true"


def read_whole(
    options: Mapping[str, str], name: str, default: int, low: int, high: int
) -> int:
    """Read a whole number.

    Raises:
        InvalidRequest: It is none, or out of range.
    """
    value = options.get(name)
    if value is None:
        return default
    try:
        number = int(value) if len(value) < 20 else high + 1
    except ValueError:
        raise InvalidRequest("must be a whole number", field=name) from None
    within(number, name, low, high)
    return number


def not_found(name: str) -> Refusal:
    """The refusal of a response that is not here."""
    why = f"response with id {name!r} not found"
    return Refusal(404, "response_not_found", why, param="id")
