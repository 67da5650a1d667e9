"""How frames travel on a socket: JSON in text messages, or MessagePack in binary ones.

Inside, a frame is always JSON: an event is rendered once for all who read it.
"""

from typing import Protocol

import msgspec

from ...protocol.openai.refusal import Refusal


class Codec(Protocol):
    """Both ways."""

    def read(self, message: str | bytes) -> bytes:
        """The JSON of a message.

        Raises:
            Refusal: It is of the other kind, or broken.
        """
        ...

    def write(self, frame: str) -> str | bytes:
        """The message of a frame."""
        ...


class JsonCodec:
    """Text messages."""

    def read(self, message: str | bytes) -> bytes:
        """The JSON of a message.

        Raises:
            Refusal: It is binary.
        """
        if isinstance(message, bytes):
            raise Refusal(
                400, "binary_frame", "this socket speaks JSON in text messages"
            )
        return message.encode()

    def write(self, frame: str) -> str:
        """The message of a frame."""
        return str(frame)  # a note is more than a text


class PackedCodec:
    """Binary messages."""

    def read(self, message: str | bytes) -> bytes:
        """The JSON of a message.

        Raises:
            Refusal: It is text, or not MessagePack.
        """
        if isinstance(message, str):
            raise Refusal(
                400, "text_frame", "this socket speaks MessagePack in binary messages"
            )
        try:
            return msgspec.json.encode(msgspec.msgpack.decode(message))
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            why = str(error) or type(error).__name__
            raise Refusal(400, "invalid_msgpack", f"not MessagePack: {why}") from None

    def write(self, frame: str) -> bytes:
        """The message of a frame."""
        return msgspec.msgpack.encode(msgspec.json.decode(frame.encode()))


CODECS: dict[str, type[JsonCodec] | type[PackedCodec]] = {
    "legato.json": JsonCodec,
    "legato.msgpack": PackedCodec,
}
"""By subprotocol."""
