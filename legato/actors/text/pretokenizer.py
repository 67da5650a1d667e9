"""How byte-level vocabularies cut text into words before they merge bytes.

GGUF files name the cut; the patterns themselves are the models' makers', as published
in their ``tokenizer.json`` or with their training code.
"""

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from ...protocol.errors import InvalidModel

GPT4_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_WORDS = GPT4_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED_END = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
TEKKEN_WORDS = rf"{UPPER}*{LOWER}+|{UPPER}+{LOWER}*|\p{{N}}{CASED_END}"
GPT4O_WORDS = (
    rf"{UPPER}*{LOWER}+{ENDING}|{UPPER}+{LOWER}*{ENDING}|\p{{N}}{{1,3}}{CASED_END}"
)
DEEPSEEK_CODER = (
    *(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+"),
    *("[一-龥\u0800-\u4e00가-\ud7ff]+", r"\p{N}"),
)
DEEPSEEK_V3 = (
    *(r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+"),
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to cut text into words.

    Args:
        patterns: Applied one after the other, each within the words of the last.
        gpt2: Then cut by GPT-2's own pattern.
        whole_words: A word that is a token is not built from merges.
        composed: Text is brought to Unicode's composed form (NFC) before.
    """

    patterns: tuple[str, ...] = ()
    gpt2: bool = False
    whole_words: bool = False
    composed: bool = False

    def pre_tokenizer(self) -> PreTokenizer:
        """Build it."""
        parts: list[PreTokenizer] = [
            pre_tokenizers.Split(Regex(pattern), "isolated")
            for pattern in self.patterns
        ]
        byte_level = pre_tokenizers.ByteLevel(
            add_prefix_space=False, use_regex=self.gpt2
        )
        return pre_tokenizers.Sequence([*parts, byte_level])

    def normalizer(self) -> Normalizer | None:
        """Build it, if there is one."""
        return normalizers.NFC() if self.composed else None


GPT2 = Cut(gpt2=True)
DIGITS = Cut((r"\p{N}",), gpt2=True)
LLAMA3 = Cut((GPT4_WORDS,), whole_words=True)
CUTS = {
    "gpt-2": GPT2,
    "smollm": DIGITS,
    "starcoder": DIGITS,
    "refact": DIGITS,
    "command-r": DIGITS,
    "codeshell": DIGITS,
    "llama-bpe": LLAMA3,
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    "dbrx": Cut((GPT4_WORDS,)),
    "smaug-bpe": Cut((GPT4_WORDS,)),
    "qwen2": Cut((QWEN_WORDS,), composed=True),
    "deepseek-r1-qwen": Cut((QWEN_WORDS,)),
    "tekken": Cut((TEKKEN_WORDS,), whole_words=True),
    "gpt-4o": Cut((GPT4O_WORDS,)),
    "deepseek-coder": Cut(DEEPSEEK_CODER),
    "deepseek-v3": Cut(DEEPSEEK_V3),
}


def cut_named(name: str) -> Cut:
    """Look a pre-tokenizer up by the name GGUF gives it.

    Raises:
        InvalidModel: Nobody knows it; the message names those that are known.
    """
    if name not in CUTS:
        raise InvalidModel(
            f"pre-tokenizer {name!r} is not supported; known are "
            f"{', '.join(sorted(CUTS))}"
        )
    return CUTS[name]
