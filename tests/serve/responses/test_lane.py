"""Lanes as a matter of bookkeeping."""

import pytest

from legato.protocol.openai.refusal import Refusal
from legato.serve.responses.lane import REMEMBERED, Lanes


class FakeJob:
    def __init__(self, name):
        self.name = name
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


def test_a_lane_is_new_until_it_has_run_dry():
    lanes = Lanes(2, 10)
    first, second = FakeJob("1"), FakeJob("2")
    lane = lanes.put("a", first)
    assert lanes.put("a", second) is None
    assert lanes.next(lane) is first
    assert lanes.next(lane) is second
    assert lanes.next(lane) is None
    assert lanes.put("a", FakeJob("3")) is not None


def test_the_lane_without_a_name_is_a_lane():
    lanes = Lanes(1, 10)
    assert lanes.put(None, FakeJob("1")) is not None
    with pytest.raises(Refusal) as caught:
        lanes.put("a", FakeJob("2"))
    assert caught.value.param == "stream_id"


def test_waiting_responses_count_against_the_limit():
    lanes = Lanes(5, 2)
    lane = lanes.put("a", FakeJob("1"))
    lanes.put("a", FakeJob("2"))
    with pytest.raises(Refusal) as caught:
        lanes.put("b", FakeJob("3"))
    assert (caught.value.status, caught.value.code) == (429, "too_many_responses")
    lanes.next(lane)
    lanes.next(lane)
    assert lanes.put("b", FakeJob("3")) is not None


def test_a_cancel_reaches_what_runs_and_what_waits():
    lanes = Lanes(5, 10)
    jobs = [FakeJob(str(number)) for number in range(4)]
    lane = lanes.put("a", jobs[0])
    lanes.put("a", jobs[1])
    lanes.put("b", jobs[2])
    lanes.put("b", jobs[3])
    lanes.next(lane)
    lanes.cancel_lane("a")
    assert [job.cancelled for job in jobs] == [True, True, False, False]
    lanes.cancel_lane("never was")


def test_a_response_is_found_by_its_id_and_by_its_lane():
    lanes = Lanes(5, 10)
    first, second = FakeJob("1"), FakeJob("2")
    lane = lanes.put("a", first)
    lanes.put("a", second)
    lanes.next(lane)
    assert lanes.running("a") is first
    assert lanes.find("2") is second
    assert (lanes.running("b"), lanes.find("3")) == (None, None)
    lanes.next(lane)
    lanes.next(lane)
    assert lanes.is_idle


def test_what_has_ended_is_remembered_for_a_while():
    lanes = Lanes(5, 10)
    lane = lanes.put("a", FakeJob("early"))
    lanes.next(lane)
    lanes.next(lane)
    assert lanes.has_ended("early")
    for number in range(REMEMBERED):
        lane = lanes.put("a", FakeJob(str(number)))
        lanes.next(lane)
        lanes.next(lane)
    assert not lanes.has_ended("early")
