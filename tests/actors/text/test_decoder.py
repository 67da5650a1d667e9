import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.actors.text.decoder import ByteDecoder

STEADY = settings(max_examples=30, deadline=None, derandomize=True)

BYTES = st.one_of(
    st.binary(max_size=8),
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b"\xf0", b"\x9f", b"\xed", b"\xa0", b"\x80", b"\xe0", b"\xf4"]),
)
PIECES = st.lists(BYTES, max_size=12)


@STEADY
@given(PIECES)
def test_pieces_decode_as_the_codec_decodes_the_whole(pieces: list[bytes]):
    decoder = ByteDecoder()
    text = "".join([decoder.feed(piece) for piece in pieces]) + decoder.flush()
    assert text == b"".join(pieces).decode("utf-8", "replace")


@STEADY
@given(PIECES)
def test_only_bytes_that_may_still_become_a_character_wait(pieces: list[bytes]):
    decoder = ByteDecoder()
    text = "".join([decoder.feed(piece) for piece in pieces])
    assert decoder.num_pending <= 3
    data = b"".join(pieces)
    pending = data[len(data) - decoder.num_pending :]
    assert text == data[: len(data) - len(pending)].decode("utf-8", "replace")
    tails = [b"", b"\x80", b"\xbf", b"\x80\x80", b"\xbf\xbf", b"\x80" * 3, b"\xbf" * 3]
    assert not pending or any(valid(pending + tail) for tail in tails)


@pytest.mark.parametrize(
    ("pending", "later", "shared"),
    [
        (b"", b"\x80", False),
        (b"\xe2", b"", False),
        (b"\xe2", b"\x82", True),
        (b"\xe2\x82", b"\xac", True),
        (b"\xe2\x82", b"\xacmore", True),
        (b"\xef\xbf", b"\xbd", True),
        (b"\xe2\x82", b"a", False),
        (b"\xe2\x82", b"\xe2", False),
        (b"\xe0", b"\x80", False),
        (b"\xed", b"\xa0", False),
        (b"\xf0\x9f", b"\xff", False),
    ],
)
def test_joining_means_sharing_a_character(pending: bytes, later: bytes, shared: bool):
    decoder = ByteDecoder()
    assert decoder.feed(pending) == ""
    assert decoder.joins(later) is shared


@pytest.mark.parametrize("text", ["🙂", "안녕하세요", "👩‍👩‍👧‍👦", "e\u0301", "你好"])
def test_a_character_split_into_bytes_is_never_shown_broken(text: str):
    decoder = ByteDecoder()
    parts = [decoder.feed(bytes([byte])) for byte in text.encode()]
    assert [part for part in parts if part] == list(text)
    assert decoder.flush() == ""


def test_invalid_bytes_leave_as_soon_as_they_cannot_become_valid():
    decoder = ByteDecoder()
    assert decoder.feed(b"\xed") == ""
    assert decoder.feed(b"\xa0") == "\ufffd\ufffd"
    assert decoder.feed(b"\xf0\x9f") == ""
    assert decoder.feed(b"a") == "\ufffda"
    assert decoder.feed(b"\xff") == "\ufffd"
    assert decoder.num_pending == 0


def test_flush_shows_an_incomplete_character_once():
    decoder = ByteDecoder()
    assert decoder.feed(b"ok\xf0\x9f\x99") == "ok"
    assert decoder.flush() == "\ufffd"
    assert decoder.flush() == ""
    assert decoder.feed(b"\x82") == "\ufffd"


def valid(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
