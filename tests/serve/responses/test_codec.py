"""Frames on the way in and out, in both forms."""

import msgspec
import pytest

from legato.protocol.openai.extensions import note
from legato.protocol.openai.refusal import Refusal
from legato.serve.responses.codec import JsonCodec, PackedCodec


def test_json_is_text_as_it_is():
    codec = JsonCodec()
    assert codec.read('{"é":1}') == '{"é":1}'.encode()
    assert type(codec.write(note("x"))) is str
    with pytest.raises(Refusal) as caught:
        codec.read(b"{}")
    assert caught.value.code == "binary_frame"


def test_messagepack_says_the_same():
    codec = PackedCodec()
    frame = {"type": "x", "n": 2**40, "deep": [{"é": None}], "f": 0.5}
    packed = codec.write(msgspec.json.encode(frame).decode())
    assert msgspec.msgpack.decode(packed) == frame
    assert msgspec.json.decode(codec.read(packed)) == frame


@pytest.mark.parametrize(
    "message", [b"", b"\xc1", b"\x81", b"\x91" * 5000 + b"\x00", b"\xc7\x01\x05\x00"]
)
def test_broken_messagepack_is_refused(message):
    with pytest.raises(Refusal) as caught:
        PackedCodec().read(message)
    assert caught.value.status == 400


def test_text_is_refused_where_messagepack_is_spoken():
    with pytest.raises(Refusal) as caught:
        PackedCodec().read("{}")
    assert caught.value.code == "text_frame"
