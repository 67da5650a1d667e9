import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from legato.actors.text.byte_level import byte_level_material
from legato.actors.text.stream import StreamText
from legato.actors.text.vocabulary import Vocabulary
from legato.protocol.errors import InvalidModel, InvalidRequest
from legato.protocol.models import TextSource, VocabularySource

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "smollm2.json").read_text(encoding="utf-8")
)
STEADY = settings(max_examples=30, deadline=None, derandomize=True)
# The model has no token for the byte that planes 4 and up begin with; no character
# stands there.
ASSIGNED = st.text(st.characters(max_codepoint=0x3FFFF, codec="utf-8"), max_size=40)
IDS = st.lists(st.integers(0, 49_151), max_size=40)


@pytest.fixture(scope="module")
def smollm2(embedded: TextSource) -> Vocabulary:
    return Vocabulary.load(embedded.vocabulary)


@pytest.fixture(scope="module")
def bytewise(byte_level_source: VocabularySource) -> Vocabulary:
    return Vocabulary.load(byte_level_source)


@pytest.fixture(scope="module")
def spaced(spaced_source: VocabularySource) -> Vocabulary:
    return Vocabulary.load(spaced_source)


@pytest.fixture(scope="module")
def reference(embedded: TextSource) -> Tokenizer:
    return byte_level_material(embedded.vocabulary).plain


def streamed(vocabulary: Vocabulary, ids: list[int]) -> str:
    stream = StreamText(vocabulary, ("never to be found",), False)
    text = ""
    for token in ids:
        stream.push(token, None)
        text += stream.take()[0]
    stream.finish()
    return text + stream.take()[0]


@pytest.mark.model
@pytest.mark.parametrize(
    "case", GOLDEN["tokenizer_cases"], ids=lambda it: it["ids"][:4]
)
def test_text_encodes_to_the_reference_ids(smollm2: Vocabulary, case: dict):
    assert smollm2.encode(case["text"]) == tuple(case["ids"])
    assert smollm2.decode(case["ids"]) == case["text"]


@pytest.mark.model
@STEADY
@given(ids=IDS)
def test_a_stream_of_random_ids_reads_as_the_tokenizers_own_decode(
    smollm2: Vocabulary, reference: Tokenizer, ids: list[int]
):
    expected = reference.decode(ids, skip_special_tokens=True)
    assert smollm2.decode(ids) == expected
    assert streamed(smollm2, ids) == expected


@pytest.mark.model
@STEADY
@given(text=ASSIGNED | st.text("🙂안녕👩‍👧é世 a\n", max_size=40))
def test_encoded_text_streams_back_unchanged(smollm2: Vocabulary, text: str):
    ids = list(smollm2.encode(text))
    assert streamed(smollm2, ids) == text


@pytest.mark.model
def test_control_tokens_are_read_only_where_asked(smollm2: Vocabulary):
    text = "<|im_start|>user\nhi<|im_end|>"
    assert smollm2.encode(text, special=True) == (1, 4093, 198, 6004, 2)
    assert not smollm2.special_ids & set(smollm2.encode(text))
    assert smollm2.decode(smollm2.encode(text)) == text


@STEADY
@given(ids=st.lists(st.integers(0, 268), max_size=30))
def test_byte_tokens_in_any_order_decode_as_the_codec_does(
    bytewise: Vocabulary, ids: list[int]
):
    expected = b"".join(map(bytewise.token_bytes, ids)).decode("utf-8", "replace")
    assert bytewise.decode(ids) == expected
    assert streamed(bytewise, ids) == expected


@STEADY
@given(text=st.text("helo world.é🙂안\n", max_size=30))
def test_spaced_text_streams_back_with_the_space_put_before_it(
    spaced: Vocabulary, text: str
):
    ids = list(spaced.encode(text))
    assert streamed(spaced, ids) == (f" {text}" if text else "")


def test_a_streamed_word_keeps_the_space_it_begins_with(spaced: Vocabulary):
    hello, world = spaced.encode("hello world", add_bos=False)
    assert spaced.token_bytes(hello) == b" hello"
    assert streamed(spaced, [world]) == " world"


def test_the_begin_token_is_there_exactly_once(spaced: Vocabulary):
    assert spaced.encode("hello")[0] == 1
    assert spaced.encode("hello", add_bos=False)[0] != 1
    assert spaced.encode("<s>hello", special=True).count(1) == 1
    assert spaced.encode("", add_bos=True) == (1,)


def test_the_end_token_follows_where_the_model_wants_it(
    spaced_source: VocabularySource,
):
    source = msgspec.structs.replace(spaced_source, add_eos=True)
    vocabulary = Vocabulary.load(source)
    assert vocabulary.encode("hello")[-1] == 2
    assert vocabulary.encode("hello", add_bos=True)[-1] != 2


def test_control_tokens_and_unknown_ids_have_no_bytes(bytewise: Vocabulary):
    assert bytewise.size == 269
    assert [bytewise.token_bytes(token) for token in (0, 1, -1, 269)] == [b""] * 4
    assert bytewise.decode([0, -5, 10**9]) == ""


def test_the_longest_token_bounds_how_few_tokens_a_text_takes(bytewise: Vocabulary):
    assert bytewise.max_token_bytes == len("<think>")
    for text in ("<think>" * 5, "hello hello", "é🙂"):
        fewest = len(text.encode()) / bytewise.max_token_bytes
        assert len(bytewise.encode(text)) >= fewest


def test_one_token_alone_shows_its_name_or_its_characters(bytewise: Vocabulary):
    assert bytewise.token_text(0) == "<end>"
    assert bytewise.token_text(bytewise.encode("h")[0]) == "h"
    assert bytewise.token_text(bytewise.encode("é")[0]) == "\ufffd"
    assert bytewise.token_text(269) == ""


def test_a_user_defined_token_is_text_and_one_token(bytewise: Vocabulary):
    ids = bytewise.encode("a<think>b")
    assert len(ids) == 3
    assert bytewise.decode(ids) == "a<think>b"


def test_half_a_surrogate_pair_is_refused(bytewise: Vocabulary):
    with pytest.raises(InvalidRequest, match="surrogate") as caught:
        bytewise.encode("x\ud83d")
    assert caught.value.field == "prompt"


def test_an_end_token_outside_the_vocabulary_is_refused(
    byte_level_source: VocabularySource,
):
    source = msgspec.structs.replace(byte_level_source, eos_id=1000)
    with pytest.raises(InvalidModel, match="1000 is outside its vocabulary of 269"):
        Vocabulary.load(source)


def test_threads_may_encode_at_once(bytewise: Vocabulary):
    texts = [f"hello {number} <end> é🙂" * 20 for number in range(32)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(bytewise.encode, texts))
    assert found == [bytewise.encode(text) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, " " * 1_000_000 + "x", "{" * 999_999]
)
def test_a_megabyte_in_one_word_is_encoded(bytewise: Vocabulary, text: str):
    assert bytewise.decode(bytewise.encode(text)) == text


@pytest.mark.slow
def test_a_megabyte_without_a_space_is_encoded_by_score(spaced: Vocabulary):
    text = "hello" * 200_000
    assert spaced.decode(spaced.encode(text)) == " " + text
