"""When a request wants to run."""

import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.scheduling import SchedulingFields, Terms, read_terms


def test_silence_means_the_usual():
    assert read_terms(SchedulingFields()) == Terms()
    assert Terms() == Terms(priority=0, ttft_deadline_s=0.0, total_deadline_s=0.0)


def test_every_field_arrives():
    fields = SchedulingFields(priority=-100, ttft_deadline_s=0.5, total_deadline_s=9)
    assert read_terms(fields) == Terms(
        priority=-100, ttft_deadline_s=0.5, total_deadline_s=9
    )


@pytest.mark.parametrize(
    ("field", "value", "range_"),
    [
        ("priority", 101, "[-100, 100]"),
        ("priority", -101, "[-100, 100]"),
        ("ttft_deadline_s", 0, "(0, 86400]"),
        ("ttft_deadline_s", -1, "(0, 86400]"),
        ("total_deadline_s", 86_401, "(0, 86400]"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(field, value, range_):
    with pytest.raises(InvalidRequest) as caught:
        read_terms(SchedulingFields(**{field: value}))
    assert caught.value.field == field
    assert range_ in str(caught.value)
