"""What a checkpoint says about its text: vocabulary, template, ends, defaults.

The execution room reads it from disk; the text room makes a tokenizer of it.
"""

from typing import Literal

import msgspec


class VocabularySource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tokenizer comes from.

    Args:
        kind: ``json``: a ``tokenizer.json`` file. ``bpe``: byte-level BPE from GGUF
            metadata. ``spm``: SentencePiece-style BPE with scores and byte tokens from
            GGUF metadata.
        json_path: For ``json``.
        tokens: Each id's text as the file has it, for ``bpe`` and ``spm``.
        types: Each id's GGUF token type (1 normal, 2 unknown, 3 control, 4 user
            defined, 5 unused, 6 byte).
        scores: For ``spm``.
        merges: For ``bpe``: "left right" pairs, best first.
        pre: For ``bpe``: GGUF's name of the pre-tokenizer, such as ``smollm``.
        bos_id: Begin-of-text id, or None.
        eos_id: End-of-text id, or None.
        unk_id: Unknown id, or None.
        add_bos: Plain text begins with ``bos_id``.
        add_eos: Plain text ends with ``eos_id``.
        add_space_prefix: For ``spm``: encode text with a space put before it.
    """

    kind: Literal["json", "bpe", "spm"]
    json_path: str = ""
    tokens: tuple[str, ...] = ()
    types: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    merges: tuple[str, ...] = ()
    pre: str = ""
    bos_id: int | None = None
    eos_id: int | None = None
    unk_id: int | None = None
    add_bos: bool = False
    add_eos: bool = False
    add_space_prefix: bool = True


class TextSource(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a model's text.

    Args:
        vocabulary: The tokenizer's material.
        chat_template: Jinja source, or None: the model cannot chat.
        stop_ids: Tokens that end an answer, from the tokenizer and from
            ``generation_config.json``.
        bos_token: For the template.
        eos_token: For the template.
        defaults: Sampling the model's makers recommend (``temperature``, ``top_p``,
            ``top_k``), used where a request is silent.
    """

    vocabulary: VocabularySource
    chat_template: str | None = None
    stop_ids: tuple[int, ...] = ()
    bos_token: str = ""
    eos_token: str = ""
    defaults: dict[str, float] = {}
