import json

import pytest
from click.testing import CliRunner

from legato.cli import main
from legato.cli.load import Answer, milliseconds, report
from legato.protocol.core import CoreStats

FIELDS = [
    "out_tok_s",
    "ttft_ms_p50",
    "ttft_ms_p99",
    "itl_ms_p50",
    "itl_ms_p99",
    "bubble_share",
    "peak_rss_mib",
]


@pytest.mark.slow
def test_the_last_line_is_one_document_with_every_figure() -> None:
    arguments = "bench --model fake -c 3 -n 5 --prompt-tokens 7 --max-tokens 4"
    ran = CliRunner().invoke(main, arguments.split(), catch_exceptions=False)
    assert ran.exit_code == 0
    found = json.loads(ran.stdout.splitlines()[-1])
    assert list(found) == FIELDS
    # Of a step of 20 ms each: three streams at once give at most 150 tokens a second.
    assert 0 < found["out_tok_s"] <= 150
    assert found["ttft_ms_p50"] >= 20
    assert 0 <= found["bubble_share"] <= 1


def test_a_report_is_what_readers_saw() -> None:
    answers = [Answer(10.0, 3, [10.5, 10.75, 12.0]), Answer(11.0, 1, [11.25])]
    before = CoreStats(busy_s=5.0, idle_s=1.0)
    after = CoreStats(busy_s=8.0, idle_s=2.0)
    found = report(answers, before, after)
    assert found["out_tok_s"] == 2.0
    assert (found["ttft_ms_p50"], found["ttft_ms_p99"]) == (500, 500)
    assert (found["itl_ms_p50"], found["itl_ms_p99"]) == (1250, 1250)
    assert found["bubble_share"] == 0.25
    assert found["peak_rss_mib"] > 1


def test_quantiles_are_values_that_were_measured() -> None:
    values = [number / 1000 for number in range(1, 101)]
    assert milliseconds(values, 0.5) == 51
    assert milliseconds(values, 0.99) == 100
    assert milliseconds([], 0.5) == 0
