"""Bytes to characters, one stream at a time.

Knows UTF-8 and nothing of tokens. A decoder is owned by its stream alone.
"""

import codecs


class ByteDecoder:
    """Decode a stream of byte strings, each byte once.

    At most three bytes wait: the start of a character that may still become valid.
    Everything else leaves at once, invalid bytes as the U+FFFD that
    ``bytes.decode("utf-8", "replace")`` gives for them.
    """

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = b""

    @property
    def num_pending(self) -> int:
        """Bytes of an incomplete character, 0 to 3; all become one character."""
        return len(self._pending)

    def feed(self, token_bytes: bytes) -> str:
        """Take more bytes and return the characters they complete."""
        if not self._pending and token_bytes.isascii():
            return token_bytes.decode()  # most tokens, at a quarter of the price
        # The codec function is called rather than codecs.getincrementaldecoder: that
        # class is Python on top of it and costs twice as much for a token.
        data = self._pending + token_bytes if self._pending else token_bytes
        text, consumed = codecs.utf_8_decode(data, "replace", False)
        pending = data[consumed:]
        if len(pending) == 2 and pending[0] == 0xED and pending[1] >= 0xA0:
            # The codec waits for the third byte of a surrogate, for the sake of its
            # "surrogatepass" errors; here it can only become U+FFFD.
            text += "\ufffd\ufffd"
            pending = b""
        self._pending = pending
        return text

    def joins(self, token_bytes: bytes) -> bool:
        """Say whether these bytes would go on with the character that waits."""
        if not (self._pending and token_bytes):
            return False
        trial = ByteDecoder()
        trial.feed(self._pending)
        text = trial.feed(token_bytes[:1])
        return len(text) + (trial.num_pending > 0) == 1

    def flush(self) -> str:
        """Return what waits, at the end: "" or one U+FFFD."""
        text = self._pending.decode("utf-8", "replace")
        self._pending = b""
        return text
