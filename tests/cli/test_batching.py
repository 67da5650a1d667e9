import click
import pytest

from legato.actors.scheduling.batching import (
    Auto,
    Batching,
    Continuous,
    Dynamic,
    Static,
)
from legato.cli.batching import BatchingType


@pytest.mark.parametrize(
    ("text", "batching"),
    [
        ("continuous", Continuous()),
        ("auto", Auto()),
        ("static:size=4", Static(size=4)),
        (
            "dynamic:max_batch=16, max_delay_s=0.02",
            Dynamic(max_batch=16, max_delay_s=0.02),
        ),
    ],
)
def test_a_strategy_is_read_with_its_options(text: str, batching: Batching):
    assert BatchingType().convert(text, None, None) == batching


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dynamo", "one of continuous, dynamic, static, auto"),
        ("static:4", "write name=value"),
        ("static:size=many", "size"),
        ("static:size=0", "size"),
        ("dynamic:max_bach=3", "'max_bach'; did you mean 'max_batch'"),
        ("continuous:size=3", "unknown option 'size'"),
    ],
)
def test_a_bad_strategy_says_what_to_write(text: str, message: str):
    with pytest.raises(click.BadParameter, match=message):
        BatchingType().convert(text, None, None)
