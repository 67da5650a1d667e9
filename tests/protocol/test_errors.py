import pytest

from legato.protocol.errors import (
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    EngineFailed,
    EngineStalled,
    Failure,
    InvalidModel,
    InvalidRequest,
    InvalidSetting,
    LegatoError,
    Overloaded,
    UnknownOption,
    nearest,
)


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("must be positive", field="max_tokens"),
        InvalidRequest("must not be empty"),
        UnknownOption("tempratur", ["temperature"]),
        ContextOverflow(9000, 8191, "the model's context"),
        InvalidModel("no such file"),
        InvalidSetting("too many pages"),
        Overloaded("the queue is full", retry_after_s=2.5),
        DeadlineExceeded("no token within 1 s"),
        EngineFailed("the device melted"),
        EngineClosed("shut down"),
        EngineStalled("no step ended"),
    ],
)
def test_an_error_survives_the_journey_in_a_message(error: LegatoError):
    arrived = Failure.of(error).error()
    assert arrived.code == error.code
    assert str(arrived) == str(error)
    assert isinstance(arrived, InvalidRequest) == isinstance(error, InvalidRequest)
    assert getattr(arrived, "field", None) == getattr(error, "field", None)
    assert getattr(arrived, "retry_after_s", None) == getattr(
        error, "retry_after_s", None
    )


def test_an_error_that_is_not_ours_arrives_as_a_failure_with_its_type():
    arrived = Failure.of(ZeroDivisionError("division by zero")).error()
    assert isinstance(arrived, EngineFailed)
    assert str(arrived) == "ZeroDivisionError: division by zero"


def test_a_name_of_megabytes_is_not_compared_with_the_known_ones():
    known = ["temperature"]
    assert nearest("temperatur", known) == "temperature"
    assert nearest("temperatur" + "e" * 300, known) == ""


def test_an_option_far_from_all_known_ones_gets_no_guess():
    assert "did you mean" not in str(UnknownOption("xyz", ["temperature"]))
