"""Durations between the marks of a request."""

import pytest

from legato.actors.stages import Stages


def test_each_stage_lasts_from_its_mark_to_the_next():
    stages = Stages(1.0, 1.5, 2.0, 2.25, 3.0, 5.0, 9.0)
    assert stages.durations() == {
        "request_tokenize_queue_time": 0.5,
        "request_tokenize_time": 0.5,
        "request_admit_time": 0.25,
        "request_queue_time": 0.75,
        "request_prefill_time": 2.0,
        "request_decode_time": 4.0,
        "request_inference_time": 6.0,
        "e2e_request_latency": 8.0,
    }


def test_stages_that_were_never_reached_have_no_duration():
    cancelled = Stages(1.0, encoding_s=2.0, ended_s=4.0)
    assert set(cancelled.durations()) == {
        "request_tokenize_queue_time",
        "e2e_request_latency",
    }


def test_marks_of_two_threads_never_give_a_negative_time():
    stages = Stages(1.0, encoded_s=2.0, admitted_s=1.9999)
    assert stages.durations()["request_admit_time"] == pytest.approx(0.0)
