"""Byte-level BPE vocabularies, as GGUF files carry them.

Their tokens spell bytes in an alphabet of 256 printable characters, GPT-2's: visible
Latin-1 characters stand for themselves, and the other bytes for characters from
U+0100 on.
"""

from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE

from ...protocol.errors import InvalidModel
from ...protocol.models import VocabularySource
from .material import (
    CONTROL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Material,
    add_atoms,
    first_ids,
    hidden_names,
    token_types,
)
from .pretokenizer import cut_named


class ByteAlphabet:
    """Spell tokens back into bytes."""

    def __init__(self) -> None:
        visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        others = [byte for byte in range(0x100) if byte not in visible]
        # Characters of Latin-1 that are not in the alphabet must not pass as bytes.
        self._spelling = dict.fromkeys(others, "\uffff")
        self._spelling |= {0x100 + n: chr(byte) for n, byte in enumerate(others)}

    def token_bytes(self, token: str) -> bytes:
        """Return a token's bytes; one not spelled in the alphabet is plain text."""
        try:
            return token.translate(self._spelling).encode("latin-1")
        except UnicodeEncodeError:
            return token.encode()


def byte_level_material(source: VocabularySource) -> Material:
    """Build the tokenizer.

    Raises:
        InvalidModel: The pre-tokenizer is unknown, or the merges don't fit the tokens.
    """
    cut = cut_named(source.pre)
    types = token_types(source)
    try:
        model = BPE(
            vocab=first_ids(source.tokens),
            merges=[pair(merge) for merge in source.merges],
            ignore_merges=cut.whole_words,
        )
    except Exception as error:
        # The library raises bare exceptions; any of them means unusable merges.
        raise InvalidModel(f"the vocabulary's merges are broken: {error}") from error
    plain, marked = Tokenizer(model), Tokenizer(model)
    for tokenizer in (plain, marked):
        normalizer = cut.normalizer()
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = cut.pre_tokenizer()
        tokenizer.decoder = decoders.ByteLevel()
        add_atoms(tokenizer, source)
    plain.encode_special_tokens = True
    alphabet = ByteAlphabet()
    table: list[bytes] = []
    for text, kind in zip(source.tokens, types, strict=True):
        if kind in (UNKNOWN, CONTROL, UNUSED):
            table.append(b"")
        elif kind == USER_DEFINED:
            table.append(text.encode())
        else:
            table.append(alphabet.token_bytes(text))
    return Material(plain, marked, tuple(table), hidden_names(source))


def pair(merge: str) -> tuple[str, str]:
    """Split "left right"; the left part may be a space itself.

    Raises:
        ValueError: There is no space between two parts.
    """
    middle = merge.index(" ", 1)
    return merge[:middle], merge[middle + 1 :]
