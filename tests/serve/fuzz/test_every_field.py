"""Every odd value in every place: no luck needed, no server under it.

Through the application itself over a scripted engine, so that thousands take seconds.
"""

import msgspec
import pytest

from legato.serve.admin import CoreInForce, InForce

from .mutations import ODD, changed, places, write
from .seeds import ALIASES, ENDPOINTS, SOCKETS, UI
from .shapes import check_answer

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SOME = 20
KEY = {"authorization": "Bearer sk-right"}


def variants(fields, seeds):
    """Each odd value once in each field and in each place of each request."""
    for odd in ODD:
        for seed in seeds:
            for path in places(seed):
                yield changed(seed, path, lambda _, odd=odd: odd)
        for field in fields:
            yield {**seeds[0], field: odd}


@pytest.mark.parametrize("path", sorted(set(ENDPOINTS) - ALIASES))
async def test_an_odd_value_anywhere_is_answered_in_shape(
    call, make_app, engine, path, caplog
):
    engine.set_batching = lambda _: None
    engine.encode, engine.decode = (lambda _: (1,)), (lambda _: "a")
    engine.stats = lambda: InForce(open_streams=1, core=CoreInForce("", ""))
    app = make_app(api_keys=("sk-right",))
    for value in variants(*ENDPOINTS[path]):
        body = write(value).encode("utf-8", "surrogatepass")
        answer = await call("POST", path, body, KEY, app=app)
        content_type = answer.headers.get("content-type", "")
        check_answer(answer.status, content_type, answer.body)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("path", sorted(set(SOCKETS) - ALIASES))
async def test_an_odd_value_in_a_frame_leaves_the_socket_alive(connect, path, caplog):
    seeds = SOCKETS[path]
    socket = await connect(path)
    every = list(variants(seeds.fields, seeds.frames))
    # Some at once, yet fewer than the errors that may be unread.
    for at in range(0, len(every), SOME):
        for value in every[at : at + SOME]:
            frame = write(value).encode("utf-8", "surrogatepass")
            socket.send(frame.decode("utf-8", "replace"))
        socket.send(seeds.last)
        if not await receive_up_to_last(socket, seeds):
            socket = await connect(path)
    assert not [record for record in caplog.records if record.exc_info]


async def receive_up_to_last(socket, seeds):
    """Receive; False if the socket was closed for a frame that names no request."""
    while True:
        message = await socket.raw()
        if message["type"] == "websocket.close":
            assert message["code"] == 1008
            assert seeds is UI
            return False
        event = msgspec.json.decode(message["text"])
        seeds.check(event)
        if seeds.answers_last(event):
            return True
