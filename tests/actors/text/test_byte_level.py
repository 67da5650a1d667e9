import msgspec
import pytest

from legato.actors.text.byte_level import ByteAlphabet, byte_level_material, pair
from legato.protocol.errors import InvalidModel
from legato.protocol.models import VocabularySource


def test_the_alphabet_spells_every_byte_once(byte_level_source: VocabularySource):
    alphabet = ByteAlphabet()
    spelled = [alphabet.token_bytes(token) for token in byte_level_source.tokens[3:259]]
    assert sorted(spelled) == [bytes([byte]) for byte in range(256)]


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("Ġhello", b" hello"),
        ("Ċ", b"\n"),
        ("ðŁĻĤ", "🙂".encode()),
        ("ðŁ", b"\xf0\x9f"),
        ("two words", b"two words"),
        ("日本", "日本".encode()),
        ("\xad", "\xad".encode()),
    ],
)
def test_tokens_are_spelled_in_the_alphabet_or_are_text(token: str, expected: bytes):
    assert ByteAlphabet().token_bytes(token) == expected


def test_the_alphabet_is_the_librarys_own():
    from tokenizers.decoders import ByteLevel
    from tokenizers.pre_tokenizers import ByteLevel as Words

    decoder, alphabet = ByteLevel(), ByteAlphabet()
    for letter in Words.alphabet():
        decoded = decoder.decode([letter])
        assert alphabet.token_bytes(letter).decode("utf-8", "replace") == decoded


def test_hidden_tokens_have_names_and_no_bytes(byte_level_source: VocabularySource):
    material = byte_level_material(byte_level_source)
    assert material.hidden == {0: "<end>", 1: "<begin>", 2: "<unk>"}
    assert material.table[:3] == (b"", b"", b"")
    assert material.table[-1] == b""
    assert material.table[-2] == b"<think>"


def test_a_merge_may_begin_with_a_space():
    assert pair("Ġ t") == ("Ġ", "t")
    assert pair("  x") == (" ", "x")
    with pytest.raises(ValueError, match="substring"):
        pair("alone")


@pytest.mark.parametrize("merges", [("zz zz",), ("alone",), ("h e", "unknown pair")])
def test_merges_that_do_not_fit_are_refused(
    byte_level_source: VocabularySource, merges: tuple[str, ...]
):
    source = msgspec.structs.replace(byte_level_source, merges=merges)
    with pytest.raises(InvalidModel, match="merges are broken"):
        byte_level_material(source)
