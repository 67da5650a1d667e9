import math

import pytest

from legato.protocol.errors import InvalidRequest, UnknownOption
from legato.protocol.sampling import SamplingParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", -0.1),
        ("temperature", 101.0),
        ("temperature", True),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.5),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("min_tokens", -1),
        ("seed", 2**64),
        ("logprobs", 21),
        ("presence_penalty", 3.0),
        ("frequency_penalty", -3.0),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 1e-38),
        ("repetition_penalty", 0.009),
        ("repetition_penalty", 10.1),
        ("logit_bias", {1: 1e9}),
        ("logit_bias", {-1: 1.0}),
        ("stop", ("",)),
        ("stop", ("x",) * 17),
        ("stop", ("x" * 1001,)),
        ("stop_token_ids", (-1,)),
        ("stop_token_ids", (1.5,)),
        ("stop_token_ids", 7),
        ("stop_token_ids", (1,) * 10_001),
        ("logit_bias", dict.fromkeys(range(10_001), 1.0)),
        ("stop", (7,)),
        ("max_tokens", 2.5),
        ("min_tokens", 1.0),
        ("top_k", 1.5),
        ("seed", 1.5),
        ("seed", "x"),
        ("logprobs", 1.5),
        ("temperature", "warm"),
        ("ignore_eos", 1),
        ("logit_bias", {1.5: 1.0}),
        ("logit_bias", [1]),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(field: str, value: object):
    with pytest.raises(InvalidRequest) as refused:
        SamplingParams(**{field: value})  # pyright: ignore[reportArgumentType]
    assert refused.value.field == field
    assert field in str(refused.value)


def test_the_ends_of_a_range_are_in_it():
    for penalty in (0.01, 10):
        assert SamplingParams(repetition_penalty=penalty).repetition_penalty == penalty
    with pytest.raises(InvalidRequest, match=r"in \[0\.01, 10\], got 1e-38"):
        SamplingParams(repetition_penalty=1e-38)


def test_an_endless_integer_is_refused_without_being_written_out():
    for field in ("temperature", "top_k", "seed"):
        with pytest.raises(InvalidRequest, match="an integer of 33220 bits"):
            SamplingParams(**{field: 10**10_000})


def test_min_tokens_must_not_exceed_max_tokens():
    with pytest.raises(InvalidRequest, match="9 is more than max_tokens"):
        SamplingParams(min_tokens=9, max_tokens=8)


def test_a_bare_string_is_no_list_of_stops():
    with pytest.raises(InvalidRequest, match="stop: must be a sequence"):
        SamplingParams(stop="end")  # pyright: ignore[reportArgumentType]


def test_an_unknown_option_is_refused_with_the_nearest():
    with pytest.raises(UnknownOption, match="'temprature'; did you mean 'temperature'"):
        SamplingParams.of({"temprature": 1.0})


def test_a_wrong_type_names_its_field():
    with pytest.raises(InvalidRequest) as refused:
        SamplingParams.of({"top_k": "many"})
    assert refused.value.field == "top_k"


def test_loose_options_become_params():
    params = SamplingParams.of({"stop": ["a", "b"], "temperature": 0, "seed": 7})
    assert params == SamplingParams(stop=("a", "b"), temperature=0, seed=7)


def test_a_list_is_as_good_as_a_tuple():
    params = SamplingParams(stop=["a"], stop_token_ids=[5])  # pyright: ignore[reportArgumentType]
    assert params == SamplingParams(stop=("a",), stop_token_ids=(5,))
