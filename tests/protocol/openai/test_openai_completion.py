"""The body of /v1/completions. Answers are tested with the endpoint."""

import msgspec
import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.completion import echoes, read_completion


def completion(**fields):
    return read_completion(msgspec.json.encode(fields), {})


@pytest.mark.parametrize(
    ("prompt", "read"),
    [
        ("a", ("a",)),
        ("", ("",)),
        (["a"], ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1, 2]], ((1, 2),)),
        ([[1], [2, 3]], ((1,), (2, 3))),
        ([0], ((0,),)),
    ],
)
def test_a_prompt_is_text_or_ids_alone_or_in_a_list(prompt, read):
    assert completion(prompt=prompt).prompts == read


@pytest.mark.parametrize(
    ("prompt", "field"),
    [
        ([], "prompt"),
        ([[]], "prompt[0]"),
        ([[1], []], "prompt[1]"),
        ([[1], [2, -1]], "prompt[1][1]"),
        ([[1], "a"], "prompt"),
        ([1, "a"], "prompt"),
        ([1, -1], "prompt[1]"),
        ([2**40], "prompt[0]"),
        (5, "prompt"),
        ([True], "prompt[0]"),
        ([1.5], "prompt[0]"),
    ],
)
def test_any_other_prompt_is_refused(prompt, field):
    with pytest.raises(InvalidRequest) as caught:
        completion(prompt=prompt)
    assert caught.value.field == field


def test_the_default_length_gives_way_to_min_tokens():
    assert completion(prompt="a").params.max_tokens == 16
    assert completion(prompt="a", min_tokens=40).params.max_tokens == 40
    assert completion(prompt="a", max_tokens=3).params.max_tokens == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"best_of": 3},
        {"suffix": "x"},
        {"best_of": 1, "n": 2},
    ],
)
def test_what_is_not_supported_is_refused_by_name(fields):
    with pytest.raises(InvalidRequest) as caught:
        completion(prompt="a", **fields)
    assert caught.value.field == next(iter(fields))
    completion(prompt="a", echo=False, best_of=1, suffix=None, n=1)
    completion(prompt="a", best_of=3, n=3)


def test_echo_and_logprobs_ask_for_those_of_the_prompt():
    read = completion(prompt="a", echo=True, logprobs=2)
    assert (read.params.logprobs, read.params.prompt_logprobs) == (2, 2)
    assert completion(prompt="a", logprobs=2).params.prompt_logprobs is None
    assert completion(prompt="a", echo=True).params.prompt_logprobs is None
    with pytest.raises(InvalidRequest) as caught:
        completion(prompt="a", echo=True, logprobs=21)
    assert caught.value.field == "logprobs"


def test_an_answer_may_be_empty_where_the_prompt_is_repeated():
    read = completion(prompt="a", echo=True, max_tokens=0)
    assert (read.silent, read.params.max_tokens) == (True, 1)
    assert not completion(prompt="a", echo=True, max_tokens=1).silent
    with pytest.raises(InvalidRequest) as caught:
        completion(prompt="a", max_tokens=0)
    assert caught.value.field == "max_tokens"


def test_prompts_times_answers_have_a_limit():
    assert completion(prompt=["a"] * 8, n=16).num_choices == 128
    with pytest.raises(InvalidRequest) as caught:
        completion(prompt=["a"] * 9, n=16)
    assert caught.value.field == "prompt"
    assert "128" in str(caught.value)


def test_echo_repeats_each_prompt_before_its_answers():
    read = completion(prompt=["one", "two"], n=2, best_of=2, echo=True)
    assert echoes(read, bytes) == ("one", "one", "two", "two")
    ids = completion(prompt=[104, 105], echo=True)
    assert echoes(ids, lambda token: bytes([token])) == ("hi",)
    assert echoes(completion(prompt="one"), bytes) == ()


def test_too_many_prompts_are_refused_before_they_are_read():
    with pytest.raises(InvalidRequest, match="128 answers") as refused:
        completion(prompt=[[]] * 129)
    assert refused.value.field == "prompt"
