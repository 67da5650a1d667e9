"""The way in and the count of those inside."""

import pytest

from legato.protocol.errors import EngineClosed
from legato.serve.gate import Gate

pytestmark = pytest.mark.anyio


async def test_those_inside_are_counted_and_waited_for(engine):
    gate = Gate(engine)
    await gate.emptied()
    with gate.admit(), gate.admit():
        assert gate.inside == 2
        gate.close()
        assert gate.state == "draining"
        with pytest.raises(EngineClosed, match="shutting down"), gate.admit():
            pass
        assert gate.inside == 2
    await gate.emptied()


async def test_an_error_inside_counts_out_too(engine):
    gate = Gate(engine)
    with pytest.raises(RuntimeError), gate.admit():
        raise RuntimeError
    assert gate.inside == 0


async def test_nobody_comes_in_while_the_model_loads(engine):
    engine.state = "starting"
    gate = Gate(engine)
    assert gate.state == "starting"
    with pytest.raises(EngineClosed, match="loading"), gate.admit():
        pass
