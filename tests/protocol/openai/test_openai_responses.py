"""Frames of Responses WebSocket mode. Refusals are tested with the session."""

import msgspec
import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.responses import (
    NEUTRAL,
    open_envelope,
    read_cancel,
    read_create,
)
from legato.protocol.requests import ChatMessage


def create(**fields):
    frame = {"type": "response.create", "input": "hi", **fields}
    return read_create(msgspec.json.encode(frame), {"top_k": 2})


def test_text_is_a_user_message():
    made = create(stream_id="a", metadata={"k": "v"}, user="ada")
    assert made.generation.prompts == ((ChatMessage("user", "hi"),),)
    assert (made.stream_id, made.generation.tenant) == ("a", "ada")
    assert made.echo["metadata"] == {"k": "v"}
    assert made.generation.params.top_k == 2


def test_our_sampling_fields_are_taken_too():
    params = create(seed=3, stop=["x"], min_tokens=1, ignore_eos=True).generation.params
    assert (params.seed, params.stop, params.ignore_eos) == (3, ("x",), True)


def test_every_field_without_effect_is_accepted_empty():
    create(**dict.fromkeys(NEUTRAL))
    create(**{name: values[0] for name, values in NEUTRAL.items() if values})


@pytest.mark.parametrize("name", [n for n in NEUTRAL if n != "stream_options"])
def test_every_field_without_effect_is_refused_when_it_asks_for_one(name):
    with pytest.raises(InvalidRequest) as caught:
        create(**{name: "surely not"})
    assert caught.value.field == name


def test_logprobs_come_with_a_number_or_by_inclusion():
    include = ["message.output_text.logprobs"]
    assert create().generation.params.logprobs is None
    assert create(include=include).generation.params.logprobs == 0
    assert create(include=include, top_logprobs=3).generation.params.logprobs == 3
    with pytest.raises(InvalidRequest) as caught:
        create(include=["reasoning.encrypted_content"])
    assert caught.value.field == "include"


def test_an_envelope_keeps_only_a_usable_lane():
    assert open_envelope(b'{"type": "x", "stream_id": "a"}').stream_id == "a"
    assert open_envelope(b'{"type": "x", "stream_id": 5}').stream_id is None


def test_a_cancel_names_a_response_a_lane_or_nothing():
    assert (
        read_cancel(b'{"type":"response.cancel","response_id":"r"}').response_id == "r"
    )
    assert read_cancel(b'{"type":"response.cancel","stream_id":"a"}').stream_id == "a"
    assert read_cancel(b'{"type":"response.cancel"}').response_id is None


def test_terms_are_taken_and_checked():
    terms = create(
        priority=-3, ttft_deadline_s=1, total_deadline_s=2.5
    ).generation.terms
    assert (terms.priority, terms.ttft_deadline_s) == (-3, 1.0)
    assert terms.total_deadline_s == 2.5
    with pytest.raises(InvalidRequest) as caught:
        create(priority=101)
    assert caught.value.field == "priority"
