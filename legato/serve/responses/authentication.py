"""The key of a socket that brought none in its handshake: its first frame must."""

import asyncio

from ...protocol.openai.extensions import (
    AUTHENTICATE,
    check_kind,
    note,
    open_envelope,
    read_authenticate,
)
from ...protocol.openai.refusal import Refusal
from ...protocol.openai.response_events import error_event
from ..judgement import refusal_of
from ..keys import KeyRing
from ..socket import Socket, SocketGone
from .codec import Codec

# Nobody may send more before it is known who that is.
MAX_FRAME_BYTES = 16 * 2**10
POLICY = 1008


async def authenticate(
    socket: Socket, codec: Codec, keys: KeyRing, deadline_s: float
) -> str | None:
    """Wait for the key, and answer.

    Returns:
        The tenant; None: it was refused and the socket closed.

    Raises:
        SocketGone: The client left.
    """
    try:
        async with asyncio.timeout(deadline_s):
            message = await socket.receive()
        tenant = _tenant(message, codec, keys)
    except TimeoutError:
        why = f"no API key came within {deadline_s:g} s"
        refusal = Refusal(401, "authentication_timeout", why)
    except SocketGone:
        raise
    except Exception as error:
        refusal = refusal_of(error)
    else:
        await socket.send(codec.write(note("session.authenticated")))
        return tenant
    await socket.send(codec.write(error_event(refusal)))
    await socket.close(POLICY, refusal.code)
    return None


def _tenant(message: str | bytes, codec: Codec, keys: KeyRing) -> str:
    if len(message) > MAX_FRAME_BYTES:
        raise Refusal(401, "missing_api_key", "the first frame must bring an API key")
    frame = codec.read(message)
    if check_kind(open_envelope(frame).type) != AUTHENTICATE:
        raise Refusal(
            401,
            "missing_api_key",
            f"an API key is needed: send 'Authorization: Bearer KEY', or first a "
            f"{AUTHENTICATE} frame",
        )
    return keys.check_key(read_authenticate(frame))
