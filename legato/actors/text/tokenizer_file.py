"""Vocabularies from a ``tokenizer.json``."""

import json
from typing import Any

from tokenizers import Tokenizer

from ...protocol.errors import InvalidModel
from ...protocol.models import VocabularySource
from .byte_level import ByteAlphabet
from .material import Material
from .sentencepiece import named_byte, piece_bytes

SPACED = {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}


def file_material(source: VocabularySource) -> Material:
    """Read the file.

    Raises:
        InvalidModel: It is missing or broken, or decodes in a way that tokens have no
            bytes of their own.
    """
    plain, marked = opened(source.json_path), opened(source.json_path)
    plain.encode_special_tokens = True
    kinds = decoder_kinds(marked)
    if "ByteLevel" not in kinds and not (kinds and kinds <= SPACED):
        raise InvalidModel(
            f"{source.json_path}: decoder {' + '.join(sorted(kinds)) or 'none'} is not "
            "supported, only byte-level and SentencePiece-style ones"
        )
    alphabet = ByteAlphabet() if "ByteLevel" in kinds else None
    added = marked.get_added_tokens_decoder()
    ids = marked.get_vocab(with_added_tokens=True)
    table = [b""] * (max(ids.values(), default=-1) + 1)
    hidden: dict[int, str] = {}
    for text, token in ids.items():
        atom = added.get(token)
        if atom is not None and atom.special:
            hidden[token] = text
        elif alphabet is not None:
            table[token] = text.encode() if atom else alphabet.token_bytes(text)
        else:
            byte = named_byte(text) if "ByteFallback" in kinds else None
            table[token] = piece_bytes(text) if byte is None else byte
    return Material(plain, marked, tuple(table), hidden)


def opened(path: str) -> Tokenizer:
    """Open the file, without limits of length that it may carry.

    Raises:
        InvalidModel: It is missing or broken.
    """
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:
        # The library raises bare exceptions, for a missing file too.
        raise InvalidModel(f"{path}: not a usable tokenizer: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def decoder_kinds(tokenizer: Tokenizer) -> set[str]:
    """Name the parts of the file's decoder."""
    if tokenizer.decoder is None:
        return set()
    waiting: list[dict[str, Any]] = [json.loads(tokenizer.decoder.__getstate__())]
    kinds: set[str] = set()
    while waiting:
        part = waiting.pop()
        if part["type"] == "Sequence":
            waiting.extend(part["decoders"])
        else:
            kinds.add(part["type"])
    return kinds
