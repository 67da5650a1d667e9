from legato.actors.restarts import RestartLimit


def test_only_so_many_restarts_in_a_period():
    limit = RestartLimit(intensity=2, period_s=10)
    assert limit.allow(0)
    assert limit.allow(1)
    assert not limit.allow(2)
    assert limit.num_restarts == 2


def test_a_period_later_restarts_are_allowed_again():
    limit = RestartLimit(intensity=1, period_s=10)
    assert limit.allow(0)
    assert not limit.allow(10)
    assert limit.allow(10.5)


def test_an_intensity_of_zero_allows_none():
    assert not RestartLimit(intensity=0).allow(0)
