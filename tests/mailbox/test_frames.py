"""Frames survive any cut of the stream that carries them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.mailbox.frames import FrameReader, Kind, MalformedFrame, frame

FRAMES = st.lists(
    st.tuples(st.sampled_from(Kind), st.binary(max_size=20)), min_size=1, max_size=6
)


@given(frames=FRAMES, cuts=st.lists(st.integers(1, 9), min_size=1))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(frames, cuts):
    stream = b"".join(frame(kind, body) for kind, body in frames)
    reader, found = FrameReader(20), []
    place = 0
    while stream:
        size = cuts[place % len(cuts)]
        found += [(kind, bytes(body)) for kind, body in reader.feed(stream[:size])]
        stream = stream[size:]
        place += 1
    assert found == frames


def test_a_body_over_the_limit_is_refused_before_it_is_read():
    reader = FrameReader(10)
    with pytest.raises(MalformedFrame, match="11 bytes"):
        list(reader.feed(frame(Kind.DATA, b"x" * 11)[:5]))


def test_an_unknown_kind_is_refused():
    with pytest.raises(MalformedFrame, match="kind 9"):
        list(FrameReader(10).feed(b"\0\0\0\0\x09"))
