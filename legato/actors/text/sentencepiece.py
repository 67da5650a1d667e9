"""SentencePiece-style BPE vocabularies, as GGUF files carry them.

Tokens are pieces of text in which ``▁`` stands for a space; bytes without a piece are
tokens named ``<0xNN>``. Instead of merges there are scores: of all neighbours whose
joint is a piece, those with the best score join first.
"""

import re

from tokenizers import Tokenizer, decoders, normalizers
from tokenizers.models import BPE
from tokenizers.normalizers import Normalizer

from ...protocol.errors import InvalidModel
from ...protocol.models import VocabularySource
from .material import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    Material,
    add_atoms,
    first_ids,
    hidden_names,
    token_types,
)

SPACE = "▁"
BYTE_NAME = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def piece_bytes(piece: str) -> bytes:
    """Return a piece's bytes.

    A space at the start of a piece stays, also where a text begins with it: what a
    model generates goes on from its prompt, and only the text's very first piece could
    have got a space that nobody wrote.
    """
    return piece.replace(SPACE, " ").encode()


def named_byte(piece: str) -> bytes | None:
    """Return the byte that ``<0xNN>`` stands for; None if it is no such name."""
    match = BYTE_NAME.fullmatch(piece)
    return bytes.fromhex(match[1]) if match else None


def sentencepiece_material(source: VocabularySource) -> Material:
    """Build the tokenizer.

    Raises:
        InvalidModel: There is no score for each token.
    """
    types = token_types(source)
    if len(source.scores) != len(source.tokens):
        raise InvalidModel(
            f"the vocabulary has {len(source.tokens)} tokens but "
            f"{len(source.scores)} scores; convert the model again"
        )
    unknown = None if source.unk_id is None else source.tokens[source.unk_id]
    model = BPE(
        vocab=first_ids(source.tokens),
        merges=merges_of(source),
        byte_fallback=BYTE in types,
        fuse_unk=True,
        unk_token=unknown,
    )
    plain, marked = Tokenizer(model), Tokenizer(model)
    for tokenizer in (plain, marked):
        spaces: list[Normalizer] = [normalizers.Replace(" ", SPACE)]
        if source.add_space_prefix:
            spaces.insert(0, normalizers.Prepend(SPACE))
        tokenizer.normalizer = normalizers.Sequence(spaces)
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.Replace(SPACE, " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
            ]
        )
        add_atoms(tokenizer, source)
    plain.encode_special_tokens = True
    table: list[bytes] = []
    for piece, kind in zip(source.tokens, types, strict=True):
        if kind in (UNKNOWN, CONTROL, UNUSED):
            table.append(b"")
        else:
            byte = named_byte(piece) if kind == BYTE else None
            table.append(piece_bytes(piece) if byte is None else byte)
    return Material(plain, marked, tuple(table), hidden_names(source))


def merges_of(source: VocabularySource) -> list[tuple[str, str]]:
    """List the pairs that join to a piece, best piece first."""
    pieces = {
        piece: source.scores[token]
        for token, (piece, kind) in enumerate(
            zip(source.tokens, token_types(source), strict=True)
        )
        if kind == NORMAL
    }
    best_first = sorted(pieces, key=pieces.__getitem__, reverse=True)
    return [
        (piece[:middle], piece[middle:])
        for piece in best_first
        for middle in range(1, len(piece))
        if piece[:middle] in pieces and piece[middle:] in pieces
    ]
