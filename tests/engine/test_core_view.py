"""What the front end knows of the core."""

from legato.engine.core_view import CoreView
from legato.protocol.core import CoreReport, CoreStats


def test_a_core_that_is_gone_holds_nothing_and_keeps_its_sums():
    busy = CoreStats(
        **dict.fromkeys(("running", "waiting", "paused", "live", "in_flight"), 2),
        pages_total=10,
        pages_free=3,
        pages_cached=3,
        pages_used=4,
        output_tokens=50,
    )
    view = CoreView()
    view.hear(CoreReport(stats=busy))
    assert view.stats == busy
    view.close()
    view.hear(CoreReport(stats=busy))  # under way as it went
    gone = CoreStats(pages_total=10, pages_free=10, output_tokens=50)
    assert view.stats == gone
