"""Frames about responses under way: which they mean, and what is done to those."""

from ...protocol.openai.extensions import (
    ControlFrame,
    CreditFrame,
    Note,
    UpdateFrame,
    note,
)
from ...protocol.openai.refusal import Refusal
from .job import Job
from .lane import Lanes
from .registry import Registry


class Control:
    """Obeys the frames of one connection.

    Args:
        lanes: Of the connection.
        registry: The responses that no connection owns.
        tenant: Whose responses it may touch there.
    """

    def __init__(self, lanes: Lanes, registry: Registry, tenant: str) -> None:
        self._lanes = lanes
        self._registry = registry
        self._tenant = tenant

    def obey(self, kind: str, request: ControlFrame) -> Note | None:
        """Do what a frame asks; return the event that answers it, if one does.

        Raises:
            Refusal: There never was such a response, or it does not run.
        """
        if kind == "response.cancel" and request.response_id is None:
            self._lanes.cancel_lane(request.stream_id)
            return None
        job = self._find(request)
        if isinstance(request, UpdateFrame):
            return self._update(job, request)
        if job is None:
            return None  # it has ended, which the client could not know yet
        if isinstance(request, CreditFrame):
            job.grant(request.tokens)
        elif kind == "response.stop":
            job.stop()
        else:
            job.cancel()
        return None

    def _find(self, request: ControlFrame) -> Job | None:
        name = request.response_id
        if name is None:
            return self._lanes.running(request.stream_id)
        job = self._lanes.find(name)
        if job is None:
            run = self._registry.find(name, self._tenant)
            job = None if run is None else run.job
        if job is None and not self._lanes.has_ended(name):
            raise Refusal(
                404,
                "response_not_found",
                f"no response {name!r} runs here",
                param="response_id",
            )
        return job

    def _update(self, job: Job | None, request: UpdateFrame) -> Note:
        if job is None:
            raise Refusal(
                409,
                "response_not_running",
                "no such response runs now",
                param="response_id",
            )
        job.update(request.max_output_tokens, request.priority)
        return note(
            "response.updated",
            job.create.stream_id,
            response_id=job.name,
            max_output_tokens=request.max_output_tokens,
            priority=request.priority,
        )
