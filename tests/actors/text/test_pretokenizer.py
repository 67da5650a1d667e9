import pytest

from legato.actors.text.pretokenizer import CUTS, cut_named
from legato.protocol.errors import InvalidModel


def words(name: str, text: str) -> list[str]:
    """Cut a text, and show spaces as such again."""
    cut = cut_named(name)
    normalizer = cut.normalizer()
    text = text if normalizer is None else normalizer.normalize_str(text)
    parts = cut.pre_tokenizer().pre_tokenize_str(text)
    return [part.replace("Ġ", " ").replace("Ċ", "\n") for part, _ in parts]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("gpt-2", "I'd pay 1234  now!", ["I", "'d", " pay", " 1234", " ", " now", "!"]),
        ("gpt-2", "I'D", ["I", "'", "D"]),
        ("smollm", "a 1234", ["a", " ", "1", "2", "3", "4"]),
        ("llama-bpe", "I'D pay 12345", ["I", "'D", " pay", " ", "123", "45"]),
        ("llama-bpe", "x.\n\n  y", ["x", ".\n\n", " ", " y"]),
        ("qwen2", "I'D pay 12", ["I", "'D", " pay", " ", "1", "2"]),
        ("tekken", "camelCase a/b 12", ["camel", "Case", " a", "/b", " ", "1", "2"]),
        ("gpt-4o", "don't 1234", ["don't", " ", "123", "4"]),
        ("deepseek-coder", "ab 12\n!?", ["ab", " ", "1", "2", "\n", "!?"]),
        ("deepseek-v3", "ab 1234 !x", ["ab", " ", "123", "4", " !", "x"]),
    ],
)
def test_each_cut_makes_its_own_words(name: str, text: str, expected: list[str]):
    assert words(name, text) == expected


@pytest.mark.parametrize("name", sorted(CUTS))
def test_no_cut_loses_a_character(name: str):
    text = "It's 2026,\r\n\tthe ½ of ÅNGSTRÖM 世界 안녕 🙂 \u200d f(x)->y  \n end  "
    parts = cut_named(name).pre_tokenizer().pre_tokenize_str(text)
    ends = [end for _, (_, end) in parts]
    begins = [begin for _, (begin, _) in parts]
    assert begins == [0, *ends[:-1]]
    assert ends[-1] == len(text)


def test_qwen_reads_text_composed():
    assert words("qwen2", "e\u0301") == words("qwen2", "é")
    assert words("llama-bpe", "e\u0301") != words("llama-bpe", "é")


def test_an_unknown_name_is_refused_with_those_known():
    with pytest.raises(InvalidModel, match=r"'klingon'.*known are .*llama-bpe.*smollm"):
        cut_named("klingon")
