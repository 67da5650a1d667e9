"""Lanes: responses that share a ``stream_id`` run one after another, others at once.

A lane exists while it has work. Owned by one session.
"""

from collections import deque

from ...protocol.openai.refusal import LOAD, Refusal
from .job import Job

# Ended responses whose late cancel is no error: the client could not know yet.
REMEMBERED = 256


class Lane:
    """One lane.

    Args:
        stream_id: Its name; None is the lane without one.
    """

    def __init__(self, stream_id: str | None) -> None:
        self.stream_id = stream_id
        self.waiting: deque[Job] = deque()
        self.running: Job | None = None


class Lanes:
    """The lanes of one socket.

    Args:
        max_lanes: At work at once.
        max_in_flight: Responses in all of them, waiting ones included.
    """

    def __init__(self, max_lanes: int, max_in_flight: int) -> None:
        self._max_lanes = max_lanes
        self._max_in_flight = max_in_flight
        self._lanes: dict[str | None, Lane] = {}
        self._jobs: dict[str, Job] = {}
        self._ended: deque[str] = deque(maxlen=REMEMBERED)

    def put(self, stream_id: str | None, job: Job) -> Lane | None:
        """Put a response at the end of its lane.

        Returns:
            The lane if it is new: somebody must then run it.

        Raises:
            Refusal: Too many lanes, or responses.
        """
        if len(self._jobs) >= self._max_in_flight:
            raise Refusal(
                429,
                "too_many_responses",
                f"{self._max_in_flight} responses are under way on this socket, the "
                "most there may be",
                kind=LOAD,
            )
        lane = self._lanes.get(stream_id)
        is_new = lane is None
        if lane is None:
            if len(self._lanes) >= self._max_lanes:
                raise Refusal(
                    429,
                    "too_many_streams",
                    f"{self._max_lanes} lanes are at work on this socket, the most "
                    "there may be",
                    param="stream_id",
                    kind=LOAD,
                )
            lane = self._lanes[stream_id] = Lane(stream_id)
        self._jobs[job.name] = job
        lane.waiting.append(job)
        return lane if is_new else None

    def next(self, lane: Lane) -> Job | None:
        """End the lane's running response and take the next; None ends the lane."""
        if lane.running is not None:
            del self._jobs[lane.running.name]
            self._ended.append(lane.running.name)
            lane.running = None
        if not lane.waiting:
            del self._lanes[lane.stream_id]
            return None
        lane.running = lane.waiting.popleft()
        return lane.running

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self._jobs

    def find(self, name: str) -> Job | None:
        """Return a response that runs or waits here."""
        return self._jobs.get(name)

    def has_ended(self, name: str) -> bool:
        """Whether it was here, not too long ago."""
        return name in self._ended

    def running(self, stream_id: str | None) -> Job | None:
        """Return what runs in a lane; None: it is at rest."""
        lane = self._lanes.get(stream_id)
        return None if lane is None else lane.running

    def cancel_lane(self, stream_id: str | None) -> None:
        """Cancel all responses of a lane; one at rest is left alone."""
        if lane := self._lanes.get(stream_id):
            for job in (lane.running, *lane.waiting):
                if job is not None:
                    job.cancel()
