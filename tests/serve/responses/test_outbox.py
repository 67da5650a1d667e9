"""The outbox: at once while the client keeps up, in order and bounded while not."""

import asyncio

import pytest

from legato.serve.responses.outbox import Outbox
from legato.serve.responses.stall import StallWatch
from legato.serve.socket import Socket

pytestmark = pytest.mark.anyio


class Wire:
    """A server's end of a socket whose client reads, or does not."""

    def __init__(self, lends: bool = True) -> None:
        self.sent: list[tuple[str, str]] = []
        self.reading = asyncio.Event()
        self.reading.set()
        extensions = {"legato.send": self.send_now} if lends else {}
        scope = {"type": "websocket", "extensions": extensions}
        self.socket = Socket(scope, self.receive, self.send)
        self.outbox = Outbox(self.socket, 2, StallWatch(30.0, self.reading.set))

    async def receive(self):
        return {"type": "websocket.connect"}

    async def send(self, message):
        if message["type"] == "websocket.send":
            await self.reading.wait()
            self.sent.append(("task", message["text"]))

    def send_now(self, message):
        if self.reading.is_set():
            self.sent.append(("now", message))
            return True
        return False


async def open_wire(lends: bool = True) -> tuple[Wire, asyncio.Task[None]]:
    wire = Wire(lends)
    await wire.socket.accept()
    return wire, asyncio.create_task(wire.outbox.run())


async def end(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.wait([running])


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_frames_of_a_client_that_keeps_up_go_out_as_they_are_put():
    wire, running = await open_wire()
    await wire.outbox.put(["a", "b"])
    assert wire.sent == [("now", "a"), ("now", "b")]
    assert wire.outbox.put_error("oops")
    assert wire.sent[-1] == ("now", "oops")
    await end(running)


async def test_what_waits_keeps_its_order_and_goes_out_first():
    wire, running = await open_wire()
    wire.reading.clear()
    await wire.outbox.put(["a", "b"])
    await settle()
    wire.reading.set()
    await wire.outbox.put(["c"])
    assert wire.sent == []
    await settle()
    assert wire.sent == [("task", "a"), ("task", "b"), ("task", "c")]
    await wire.outbox.put(["d"])
    assert wire.sent[-1] == ("now", "d")
    await end(running)


async def test_a_client_that_does_not_read_makes_its_senders_wait():
    wire, running = await open_wire()
    wire.reading.clear()
    puts = [asyncio.create_task(wire.outbox.put([text])) for text in "abcdef"]
    await settle()
    done = [put for put in puts if put.done()]
    assert len(done) == 4  # two are being sent, two wait
    puts[-1].cancel()
    await asyncio.wait(puts[-1:])
    wire.reading.set()
    await settle()
    assert wire.sent == [("task", text) for text in "abcde"]
    await wire.outbox.put(["g"])
    assert wire.sent[-1] == ("now", "g")
    await end(running)


async def test_a_server_that_lends_no_way_is_served_by_the_task():
    wire, running = await open_wire(lends=False)
    await wire.outbox.put(["a"])
    await settle()
    assert wire.sent == [("task", "a")]
    await end(running)


@pytest.mark.parametrize("leaves", [False, True])
async def test_it_is_empty_once_all_is_sent_or_nobody_is_left_to_send_it_to(leaves):
    wire, running = await open_wire()
    await wire.outbox.emptied()
    wire.reading.clear()
    await wire.outbox.put(["a"])
    emptied = asyncio.ensure_future(wire.outbox.emptied())
    await asyncio.sleep(0)
    assert not emptied.done()
    if leaves:
        await end(running)
    else:
        wire.reading.set()
    await emptied
    assert wire.sent == ([] if leaves else [("task", "a")])
    await end(running)
