from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from legato.actors.text.byte_level import byte_level_material
from legato.actors.text.sentencepiece import sentencepiece_material
from legato.actors.text.vocabulary import Vocabulary
from legato.protocol.errors import InvalidModel
from legato.protocol.models import VocabularySource

STEADY = settings(max_examples=30, deadline=None, derandomize=True)
Pair = tuple[Vocabulary, Vocabulary]


def saved(tokenizer: Tokenizer, folder: Path, like: VocabularySource) -> Vocabulary:
    path = str(folder / "tokenizer.json")
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=8)
    tokenizer.save(path)
    source = msgspec.structs.replace(like, kind="json", json_path=path)
    return Vocabulary.load(source)


@pytest.fixture(scope="module")
def bytewise(
    byte_level_source: VocabularySource, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    tokenizer = byte_level_material(byte_level_source).marked
    file = saved(tokenizer, tmp_path_factory.mktemp("bytes"), byte_level_source)
    return file, Vocabulary.load(byte_level_source)


@pytest.fixture(scope="module")
def spaced(
    spaced_source: VocabularySource, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    tokenizer = sentencepiece_material(spaced_source).marked
    file = saved(tokenizer, tmp_path_factory.mktemp("spaces"), spaced_source)
    return file, Vocabulary.load(spaced_source)


@STEADY
@given(text=st.text("helo world.é🙂<end>s\n", max_size=30), special=st.booleans())
def test_a_file_encodes_as_the_same_vocabulary_from_metadata(
    bytewise: Pair, spaced: Pair, text: str, special: bool
):
    for file, metadata in (bytewise, spaced):
        ids = metadata.encode(text, special=special)
        assert file.encode(text, special=special) == ids
        assert file.decode(ids) == metadata.decode(ids)


def test_a_file_spells_tokens_as_the_same_vocabulary_from_metadata(
    bytewise: Pair, spaced: Pair
):
    for file, metadata in (bytewise, spaced):
        assert file.size == metadata.size
        assert file.special_ids == metadata.special_ids
        # A file does not say which tokens are only there to fill the table.
        used = [token for token in range(file.size) if token != 268]
        assert [*map(file.token_bytes, used)] == [*map(metadata.token_bytes, used)]


def test_limits_of_length_in_the_file_are_ignored(bytewise: Pair):
    file, _ = bytewise
    assert len(file.encode("abcdefghij")) == 10
    assert len(file.encode("ab")) == 2


def test_control_tokens_that_are_also_pieces_do_not_come_from_text(tmp_path: Path):
    pieces = [("<unk>", 0.0), ("</s>", 0.0), *((c, -5.0) for c in "▁</s>hi")]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken("</s>", normalized=False)])
    like = VocabularySource(kind="json", unk_id=0, eos_id=1)
    vocabulary = saved(tokenizer, tmp_path, like)
    assert vocabulary.encode("hi</s>", special=True)[-1] == 1
    ids = vocabulary.encode("hi</s>")
    assert 1 not in ids
    assert vocabulary.decode(ids) == "hi</s>"


def test_a_missing_file_is_refused_by_name(tmp_path: Path):
    source = VocabularySource(kind="json", json_path=str(tmp_path / "none.json"))
    with pytest.raises(InvalidModel, match=r"none\.json: not a usable tokenizer"):
        Vocabulary.load(source)


def test_a_broken_file_is_refused(tmp_path: Path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {}}', encoding="utf-8")
    with pytest.raises(InvalidModel, match="not a usable tokenizer"):
        Vocabulary.load(VocabularySource(kind="json", json_path=str(path)))


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece()])
def test_tokens_without_bytes_of_their_own_are_refused(
    tmp_path: Path, decoder: decoders.Decoder | None
):
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    if decoder is not None:
        tokenizer.decoder = decoder
    with pytest.raises(InvalidModel, match="is not supported"):
        saved(tokenizer, tmp_path, VocabularySource(kind="json"))
