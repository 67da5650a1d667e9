"""Names that people misspell in constructors."""

import pickle

import msgspec
import pytest

from legato import EngineSettings, SamplingParams, UnknownOption


@pytest.mark.parametrize(
    ("kind", "option", "near"),
    [
        (SamplingParams, "max_new_tokens", "max_tokens"),
        (SamplingParams, "temprature", "temperature"),
        (EngineSettings, "max_contex", "max_context"),
    ],
)
def test_an_unknown_name_is_refused_with_the_one_that_was_meant(kind, option, near):
    with pytest.raises(UnknownOption, match=f"did you mean '{near}'") as refused:
        kind(**{option: 1})
    assert refused.value.field == option
    assert refused.value.__cause__ is None


def test_a_value_that_is_no_name_stays_a_type_error():
    with pytest.raises(TypeError, match="positional"):
        SamplingParams(7)


def test_the_structs_are_structs_like_any_other():
    params = SamplingParams(top_k=3, stop=["x"])
    assert pickle.loads(pickle.dumps(params)) == params
    body = msgspec.json.encode(params)
    assert msgspec.json.decode(body, type=SamplingParams) == params
    assert msgspec.structs.replace(params, top_k=4).top_k == 4
