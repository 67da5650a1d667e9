"""The operations on responses."""

from ...protocol.openai import response_fields
from . import answers
from .operation import BODY, EVENTS, JSON, WORK, Operation, Parameter

RESPONSE_ID = Parameter(
    name="id", where="path", schema={"type": "string"}, says="A response's id."
)

RESPONSES = (
    Operation(
        path="/v1/responses",
        method="POST",
        name="createResponse",
        says="Make a response, whole, as server-sent events, or in the background.",
        takes=response_fields.CreateBody,
        gives={JSON: answers.Response, EVENTS: None},
        fails=BODY + WORK,
    ),
    Operation(
        path="/v1/responses/{id}",
        method="GET",
        name="getResponse",
        says="Show a response, or its events from one on.",
        gives={JSON: answers.Response, EVENTS: None},
        fails=(400, 410),
        parameters=(
            RESPONSE_ID,
            Parameter(
                name="stream",
                where="query",
                schema={"type": "boolean"},
                says="Its events, of a response in the background.",
            ),
            Parameter(
                name="starting_after",
                where="query",
                schema={"type": "integer", "minimum": -1},
                says="The last event that is known.",
            ),
        ),
    ),
    Operation(
        path="/v1/responses/{id}",
        method="DELETE",
        name="deleteResponse",
        says="Forget a response.",
        gives={JSON: answers.ResponseDeleted},
    ),
    Operation(
        path="/v1/responses/{id}/cancel",
        method="POST",
        name="cancelResponse",
        says="Cancel a response in the background.",
        gives={JSON: answers.Response},
    ),
    Operation(
        path="/v1/responses/{id}/input_items",
        method="GET",
        name="listInputItems",
        says="List what a response was asked with, newest first.",
        gives={JSON: answers.InputItemList},
        fails=(400,),
        parameters=(
            RESPONSE_ID,
            Parameter(
                name="limit",
                where="query",
                schema={"type": "integer", "minimum": 1, "maximum": 100},
                says="Items on a page; 20 if absent.",
            ),
            Parameter(
                name="order",
                where="query",
                schema={"type": "string", "enum": ["asc", "desc"]},
                says="Oldest or newest first.",
            ),
            Parameter(
                name="after",
                where="query",
                schema={"type": "string"},
                says="The last item of the page before.",
            ),
        ),
    ),
)
