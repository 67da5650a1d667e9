import gc

import pytest

from legato.cli.garbage import uncollected


def test_nothing_is_collected_inside_and_what_was_made_is_left_alone_later() -> None:
    try:
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


def test_collecting_is_as_it_was_after_an_error() -> None:
    try:
        gc.disable()
        with pytest.raises(ZeroDivisionError), uncollected():
            raise ZeroDivisionError
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
