"""When the core is told to pause a request, and when to go on."""

import pytest

from legato.actors.flow import Flow
from legato.actors.orders import OrderLine
from legato.mailbox import Mailbox
from legato.protocol.requests import Credit

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Core:
    def __init__(self) -> None:
        self.orders = Mailbox[object]("orders", 16)
        self.line = OrderLine()
        self.line.connect(self.orders.address())

    def told(self) -> list[object]:
        return self.orders.drain_nowait()


async def test_a_request_without_credit_is_paused_as_the_core_gets_it():
    core = Core()
    flow = Flow(1, core.line)
    flow.limit(0)
    assert core.told() == []
    flow.open()
    assert core.told() == [Credit(1, False)]
    flow.repeat()
    assert core.told() == [Credit(1, False)]


async def test_two_reasons_to_pause_are_one_pause():
    core = Core()
    flow = Flow(1, core.line)
    flow.open()
    flow.limit(1)
    arrived = [7, 8]
    assert flow.share(arrived, [], 2, None) == (1, None)
    assert arrived == [7]
    assert flow.withheld == (8,)
    flow.lag(True)
    assert core.told() == [Credit(1, False)]
    flow.lag(False)
    assert core.told() == []
    assert flow.ration is not None
    flow.ration.grant(5)
    assert flow.share(arrived, [], 0, None) == (1, None)
    assert core.told() == [Credit(1, True)]
    assert arrived == [7, 8]


async def test_an_ended_request_is_not_spoken_of():
    core = Core()
    flow = Flow(1, core.line)
    flow.open()
    flow.close()
    flow.limit(0)
    flow.lag(True)
    assert core.told() == []
