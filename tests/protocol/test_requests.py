from hypothesis import given
from hypothesis import strategies as st

from legato.protocol.core import CoreReport, CoreStats
from legato.protocol.errors import Failure
from legato.protocol.requests import (
    Delta,
    Emitted,
    Ended,
    FinishReason,
    StepOutput,
    Usage,
)
from legato.protocol.steps import TokenLogprobs

deltas = st.lists(
    st.builds(
        lambda text, ids: Delta(
            text, tuple(ids), tuple(TokenLogprobs(-float(i)) for i in ids)
        ),
        st.text(max_size=5),
        st.lists(st.integers(0, 99), max_size=4),
    ),
    min_size=1,
)


@given(deltas)
def test_merging_deltas_loses_and_repeats_nothing(parts: list[Delta]):
    last = Delta("", (), (), FinishReason.STOP, Usage(1, 2))
    merged = parts[0]
    for part in [*parts[1:], last]:
        merged = merged.merge(part)
    assert merged.text == "".join(part.text for part in parts)
    assert merged.token_ids == tuple(i for part in parts for i in part.token_ids)
    assert len(merged.logprobs) == len(merged.token_ids)
    assert merged.finish_reason is FinishReason.STOP
    assert merged.usage == Usage(1, 2)


def test_merged_reports_keep_all_output_and_the_latest_of_the_rest():
    token = StepOutput.of((Emitted(1, 7),), (), 1.0)
    end = StepOutput.of((), (Ended(1, FinishReason.STOP, Usage(1, 1)),), 2.0)
    merged = (
        CoreReport(output=token, stats=CoreStats(steps=1), idle=(1,))
        .merge(CoreReport(stats=CoreStats(steps=2), idle=(2,)))
        .merge(CoreReport(output=end, failure=Failure("engine_failed", "x")))
    )
    assert merged.output == StepOutput.of(token.emitted, end.ended, 1.0)
    assert merged.stats == CoreStats(steps=2)
    assert merged.idle == (1, 2)
    assert merged.failure == Failure("engine_failed", "x")


def test_the_bubble_share_of_a_device_that_never_ran_is_zero():
    assert CoreStats().bubble_share == 0
    assert CoreStats(busy_s=3.0, idle_s=1.0).bubble_share == 0.25


def test_tokens_joined_keep_their_own_logprobs():
    first = StepOutput.of((Emitted(1, 7), Emitted(2, 8, TokenLogprobs(-1.0))))
    second = StepOutput.of((Emitted(1, 9, TokenLogprobs(-2.0)),))
    assert first.merge(second).emitted == first.emitted + second.emitted
