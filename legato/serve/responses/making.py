"""From a request to a job: its id, its events, its checks."""

import time
import uuid

from ...protocol.openai.create import Create
from ...protocol.openai.response_events import ResponseEvents
from ..backend import Backend
from ..judgement import check_model
from .job import Job
from .recall import Recall


def make_job(create: Create, engine: Backend, recall: Recall, tenant: str) -> Job:
    """Make the job of a request.

    Raises:
        Refusal: It asks for a model that is not here.
    """
    check_model(create.generation.model, engine.name)
    name = f"resp_{uuid.uuid4().hex}"
    events = ResponseEvents(
        name,
        engine.name,
        int(time.time()),
        stream_id=create.stream_id,
        echo=create.echo,
        token_bytes=engine.token_bytes,
        clock=time.time,
        parser=None if create.use is None else engine.tool_parser(),
    )
    return Job(name, create, events, recall, tenant)
