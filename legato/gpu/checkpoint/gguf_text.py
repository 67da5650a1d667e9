"""What a GGUF file's metadata says about the model's text."""

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard

from ...protocol.errors import InvalidModel
from ...protocol.models import TextSource, VocabularySource

KINDS: dict[str, Literal["bpe", "spm"]] = {"gpt2": "bpe", "llama": "spm"}
CONTROL = 3
# Files name one end token, but chat models end turns with another one: these texts, as
# control tokens, always end an answer.
TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>")
# Pre-tokenizers whose models expect a begin token when the file does not say.
BOS_PRE = ("llama-bpe", "llama3", "llama-v3")
DEFAULTS = {"temp": "temperature", "top_p": "top_p", "top_k": "top_k"}


def gguf_text(metadata: Mapping[str, Any], source: str) -> TextSource:
    """Read everything about the text.

    Raises:
        InvalidModel: No vocabulary, or one of a kind that is not supported.
    """
    vocabulary = _vocabulary(metadata, source)
    template = metadata.get("tokenizer.chat_template")
    prefix = "general.sampling."
    return TextSource(
        vocabulary=vocabulary,
        chat_template=template if isinstance(template, str) else None,
        stop_ids=_stop_ids(metadata, vocabulary),
        bos_token=_token(vocabulary, vocabulary.bos_id),
        eos_token=_token(vocabulary, vocabulary.eos_id),
        defaults={
            name: float(metadata[prefix + key])
            for key, name in DEFAULTS.items()
            if isinstance(metadata.get(prefix + key), int | float)
        },
    )


def _vocabulary(metadata: Mapping[str, Any], source: str) -> VocabularySource:
    model = metadata.get("tokenizer.ggml.model")
    tokens: Any = metadata.get("tokenizer.ggml.tokens")
    if model not in KINDS or not _is_texts(tokens):
        raise InvalidModel(
            f"{source}: tokenizer {model!r} is not supported, only "
            f"{' and '.join(KINDS)} with their tokens in the file"
        )
    kind = KINDS[model]
    pre = metadata.get("tokenizer.ggml.pre", "")
    needs = "tokenizer.ggml.merges" if kind == "bpe" else "tokenizer.ggml.scores"
    if not isinstance(metadata.get(needs), tuple):
        raise InvalidModel(f"{source}: metadata {needs} is missing; convert it again")
    adds_bos = kind == "spm" or pre in BOS_PRE
    return VocabularySource(
        kind=kind,
        tokens=tokens,
        types=metadata.get("tokenizer.ggml.token_type", (1,) * len(tokens)),
        scores=metadata.get("tokenizer.ggml.scores", ()),
        merges=metadata.get("tokenizer.ggml.merges", ()),
        pre=pre,
        bos_id=_id(metadata, "bos", len(tokens)),
        eos_id=_id(metadata, "eos", len(tokens)),
        unk_id=_id(metadata, "unknown", len(tokens)),
        add_bos=bool(metadata.get("tokenizer.ggml.add_bos_token", adds_bos)),
        add_eos=bool(metadata.get("tokenizer.ggml.add_eos_token", False)),
        add_space_prefix=bool(metadata.get("tokenizer.ggml.add_space_prefix", True)),
    )


def _is_texts(value: Any) -> TypeGuard[tuple[str, ...]]:
    # The container's arrays hold one type: the first tells for all.
    return isinstance(value, tuple) and value != () and isinstance(value[0], str)


def _id(metadata: Mapping[str, Any], role: str, vocab_size: int) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{role}_token_id")
    return value if isinstance(value, int) and 0 <= value < vocab_size else None


def _stop_ids(
    metadata: Mapping[str, Any], vocabulary: VocabularySource
) -> tuple[int, ...]:
    size = len(vocabulary.tokens)
    ids = {_id(metadata, role, size) for role in ("eos", "eot", "eom")}
    for text in TURN_ENDS:
        if text in vocabulary.tokens:
            token = vocabulary.tokens.index(text)
            if vocabulary.types[token] == CONTROL:
                ids.add(token)
    return tuple(sorted(token for token in ids if token is not None))


def _token(vocabulary: VocabularySource, token: int | None) -> str:
    return "" if token is None else vocabulary.tokens[token]
