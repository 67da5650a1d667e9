import msgspec
import pytest

from legato.actors.text.material import first_ids, hidden_names, token_types
from legato.protocol.errors import InvalidModel
from legato.protocol.models import VocabularySource


def test_tokens_without_types_are_normal():
    assert tuple(token_types(VocabularySource(kind="bpe", tokens=("a", "b")))) == (1, 1)


def test_an_empty_vocabulary_is_refused():
    with pytest.raises(InvalidModel, match="empty"):
        token_types(VocabularySource(kind="bpe"))


def test_types_must_be_as_many_as_tokens(byte_level_source: VocabularySource):
    source = msgspec.structs.replace(byte_level_source, types=(1, 1))
    with pytest.raises(InvalidModel, match="269 tokens but 2 types"):
        token_types(source)


def test_of_tokens_that_look_alike_the_first_is_encoded():
    assert first_ids(["a", "b", "a"]) == {"a": 0, "b": 1}


def test_control_and_unknown_tokens_are_hidden(spaced_source: VocabularySource):
    assert hidden_names(spaced_source) == {0: "<unk>", 1: "<s>", 2: "</s>"}
