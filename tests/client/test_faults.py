"""What a server's errors become in the client."""

from legato.client.faults import fault_of
from legato.protocol.errors import EngineClosed, EngineStalled


def test_a_server_that_hangs_is_told_from_one_that_goes():
    error = {"message": "no step has ended", "code": "engine_stalled"}
    stalled = fault_of({"status": 503, "error": error})
    assert isinstance(stalled, EngineStalled)
    assert str(stalled) == "no step has ended"
    closed = fault_of({"status": 503, "error": error | {"code": "engine_closed"}})
    assert isinstance(closed, EngineClosed)
