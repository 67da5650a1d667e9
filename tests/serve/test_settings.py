"""Settings that cannot work are refused with the reason."""

import pytest

from legato.protocol.errors import InvalidSetting
from legato.serve import ServeSettings


@pytest.mark.parametrize(
    "options",
    [
        {"max_header_bytes": 0},
        {"header_deadline_s": 0.0},
        {"max_body_bytes": 0},
        {"max_lanes": 0},
        {"max_in_flight": -1},
        {"send_deadline_s": 0.0},
        {"body_deadline_s": float("nan")},
        {"port": 65536},
        {"api_keys": ("",)},
        {"api_keys": ("with space",)},
        {"api_keys": ("schlüssel",)},
    ],
)
def test_an_impossible_setting_is_refused_by_name(options):
    with pytest.raises(InvalidSetting) as caught:
        ServeSettings(**options)
    name = next(iter(options))
    assert name in str(caught.value) or "API key" in str(caught.value)


def test_a_refused_key_is_not_repeated():
    with pytest.raises(InvalidSetting) as caught:
        ServeSettings(api_keys=("secret key",))
    assert "secret" not in str(caught.value)


def test_keys_are_not_shown_when_settings_are():
    shown = repr(ServeSettings(api_keys=("sk-secret",), port=99))
    assert "secret" not in shown
    assert "1 api_keys" in shown
    assert "port=99" in shown
