"""What a body comes down to: choices, seeds, tenants."""

import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.generation import Generation, read_n, read_tenant
from legato.protocol.sampling import SamplingParams


def generation(prompts=("a",), **fields):
    params = SamplingParams(seed=fields.pop("seed", None))
    return Generation(prompts=prompts, params=params, **fields)


def test_choices_stand_in_the_order_of_prompts_and_then_of_answers():
    asked = [prompt for prompt, _ in generation(("a", "b"), n=2).choices()]
    assert asked == ["a", "a", "b", "b"]


def test_the_seeds_of_a_prompts_choices_count_up_from_the_requests():
    seeds = [params.seed for _, params in generation(("a", "b"), n=3, seed=7).choices()]
    assert seeds == [7, 8, 9, 7, 8, 9]


def test_seeds_begin_anew_below_the_largest():
    largest = 2**64 - 1
    seeds = [params.seed for _, params in generation(n=3, seed=largest).choices()]
    assert seeds == [largest, 0, 1]


def test_without_a_seed_each_choice_draws_its_own():
    assert [params.seed for _, params in generation(n=2).choices()] == [None, None]


@pytest.mark.parametrize(("n", "read"), [(None, 1), (1, 1), (16, 16)])
def test_n_is_read(n, read):
    assert read_n(n) == read


@pytest.mark.parametrize("n", [0, -1, 17, 10**18])
def test_n_out_of_range_is_refused_with_the_range(n):
    with pytest.raises(InvalidRequest) as caught:
        read_n(n)
    assert caught.value.field == "n"
    assert "[1, 16]" in str(caught.value)


def test_a_key_outweighs_the_name_a_client_gives_itself():
    request = generation(tenant="ada")
    assert request.of_tenant("").tenant == "ada"
    assert request.of_tenant("key-1").tenant == "key-1"
    assert request.tenant == "ada"


def test_a_tenant_is_the_user_or_else_the_safety_identifier():
    assert read_tenant(None) == ""
    assert read_tenant("ada", "id") == "ada"
    assert read_tenant(None, "id") == "id"
