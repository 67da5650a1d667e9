"""What is written to the log of a request that failed."""

from legato.protocol.errors import EngineFailed, InvalidRequest
from legato.serve.judgement import refusal_of


def test_a_failed_engine_is_logged_by_its_cause_and_a_fault_by_where_it_was(caplog):
    assert refusal_of(EngineFailed("the device melted")).status == 500
    (ours,) = caplog.records
    assert ours.getMessage() == "a request failed: the device melted"
    assert not ours.exc_info
    caplog.clear()
    fault = ZeroDivisionError("x")
    assert refusal_of(fault).status == 500
    (other,) = caplog.records
    assert other.exc_info[1] is fault


def test_what_is_the_clients_to_change_is_not_logged(caplog):
    assert refusal_of(InvalidRequest("x")).status == 400
    assert not caplog.records
