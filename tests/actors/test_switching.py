"""The interpreter's switch interval: shortened, and put back."""

import sys
from collections.abc import Iterator

import pytest

from legato.actors.switching import SWITCH_S, Switching


@pytest.fixture(autouse=True)
def usual() -> Iterator[float]:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield 0.005
    sys.setswitchinterval(before_s)


def test_it_is_shortened_and_put_back(usual: float):
    switching = Switching()
    switching.shorten()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    switching.restore()
    assert sys.getswitchinterval() == pytest.approx(usual)
    switching.restore()
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_a_shorter_one_is_left_alone():
    sys.setswitchinterval(SWITCH_S / 2)
    switching = Switching()
    switching.shorten()
    switching.restore()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S / 2)


def test_what_the_program_chose_meanwhile_stays():
    switching = Switching()
    switching.shorten()
    sys.setswitchinterval(0.002)
    switching.restore()
    assert sys.getswitchinterval() == pytest.approx(0.002)
