from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.actors.text.sentencepiece import (
    merges_of,
    named_byte,
    piece_bytes,
    sentencepiece_material,
)
from legato.actors.text.vocabulary import Vocabulary
from legato.protocol.errors import InvalidModel
from legato.protocol.models import VocabularySource

STEADY = settings(max_examples=30, deadline=None, derandomize=True)


def joined_by_score(source: VocabularySource, text: str) -> tuple[int, ...]:
    """Encode as SentencePiece says it: join the best neighbours, leftmost first."""
    ids = {piece: token for token, piece in enumerate(source.tokens)}
    pieces = list(text.replace(" ", "▁"))
    while True:
        joints = [
            (-source.scores[ids[a + b]], place)
            for place, (a, b) in enumerate(pairwise(pieces))
            if a + b in ids
        ]
        if not joints:
            break
        _, place = min(joints)
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
    found: list[int] = []
    for piece in pieces:
        if piece in ids:
            found.append(ids[piece])
        else:
            found += [ids[f"<0x{byte:02X}>"] for byte in piece.encode()]
    return tuple(found)


@STEADY
@given(text=st.text("heloword ▁t.é🙂", max_size=30))
def test_encoding_joins_neighbours_by_score(spaced_source: VocabularySource, text: str):
    vocabulary = Vocabulary.load(spaced_source)
    expected = joined_by_score(spaced_source, f" {text}" if text else "")
    assert vocabulary.encode(text, add_bos=False) == expected


def test_no_space_is_put_before_where_the_model_wants_none(
    spaced_source: VocabularySource,
):
    source = msgspec.structs.replace(spaced_source, add_space_prefix=False)
    vocabulary = Vocabulary.load(source)
    assert vocabulary.encode("hell", add_bos=False) == joined_by_score(source, "hell")


def test_pieces_and_byte_names_become_bytes():
    assert piece_bytes("▁hello▁") == b" hello "
    assert named_byte("<0x0A>") == b"\n"
    assert named_byte("<0xfF>") == b"\xff"
    assert named_byte("<0x100>") is None
    assert named_byte("0x0A") is None


def test_merges_come_best_piece_first_and_only_from_pieces():
    source = VocabularySource(
        kind="spm",
        tokens=("<s>", "a", "b", "ab", "aba", "<0x41>"),
        types=(3, 1, 1, 1, 1, 6),
        scores=(0.0, -9.0, -9.0, -2.0, -1.0, 0.0),
    )
    assert merges_of(source) == [("ab", "a"), ("a", "b")]


def test_scores_must_be_as_many_as_tokens(spaced_source: VocabularySource):
    source = msgspec.structs.replace(spaced_source, scores=(0.0,))
    with pytest.raises(InvalidModel, match="but 1 scores"):
        sentencepiece_material(source)
