"""Spoiled frames on every socket: an error event in shape, and the socket lives."""

from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from .conftest import KEY
from .mutations import spoiled
from .seeds import ALIASES, SOCKETS, UI

pytestmark = pytest.mark.slow
many = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("path", SOCKETS)
def test_every_event_of_a_client_is_here(path):
    seeds = SOCKETS[path]
    assert {seed["type"] for seed in seeds.frames} == set(seeds.kinds)


def test_every_socket_is_here(app):
    assert set(SOCKETS) == app.socket_paths


@contextmanager
def connected(server, path):
    url = server.url.replace("http", "ws", 1) + path
    headers = {"authorization": f"Bearer {KEY}"}
    with connect(url, additional_headers=headers, compression=None) as socket:
        yield socket


@many
@given(data=st.data(), binary=st.sampled_from([False] * 5 + [True]))
@pytest.mark.parametrize("path", sorted(set(SOCKETS) - ALIASES))
def test_spoiled_frames_leave_the_socket_alive(watched, path, data, binary):
    seeds = SOCKETS[path]
    frames = st.lists(spoiled(seeds.frames, seeds.fields), min_size=1, max_size=6)
    code = 0
    with connected(watched, path) as socket:
        try:
            for frame in data.draw(frames):
                socket.send(frame if binary else frame.decode("utf-8", "replace"))
            socket.send(msgspec.json.encode(seeds.last).decode())
            receive_up_to_last(socket, seeds)
        except ConnectionClosed as closed:
            code = closed.rcvd.code
    # Closed only where the protocol has no error for such a frame.
    assert code in ((0, 1008) if seeds is UI else (0,))


def receive_up_to_last(socket, seeds):
    while True:
        event = msgspec.json.decode(socket.recv(20))
        seeds.check(event)
        if seeds.answers_last(event):
            return


def receive_all(socket):
    while True:
        socket.recv(20)


@many
@given(data=st.binary(min_size=1, max_size=40))
@pytest.mark.parametrize("path", sorted(set(SOCKETS) - ALIASES))
def test_bytes_that_are_no_frames_close_the_socket_alone(watched, path, data):
    with connected(watched, path) as socket:
        # Reserved bits, which no frame may have.
        socket.socket.sendall(b"\xf3" + data + bytes(20))
        with pytest.raises(ConnectionClosed) as closed:
            receive_all(socket)
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1002
