"""What can be set about planning."""

import pytest

from legato.actors.scheduling import Continuous, PlannerSettings
from legato.protocol.errors import InvalidSetting


def test_the_defaults_are_continuous_batching_two_steps_deep():
    settings = PlannerSettings()
    assert settings.batching == Continuous()
    assert settings.depth == 2
    assert settings.prefix_cache


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_step_tokens", 0),
        ("max_waiting", 0),
        ("max_waiting_tokens", -5),
        ("depth", 9),
        ("patience_s", 0.0),
        ("patience_s", float("nan")),
    ],
)
def test_values_out_of_range_are_refused_by_name(field, value):
    with pytest.raises(InvalidSetting, match=f"{field} must be in .* got {value!r}"):
        PlannerSettings(**{field: value})
