"""What every answer must look like, whatever was asked."""

import msgspec

from legato.serve.openapi.answers import ErrorObject, Refused


def check_refusal(status, body):
    """A refused request has its status and OpenAI's error object."""
    assert 400 <= status < 600
    assert status != 500
    error = msgspec.json.decode(body, type=Refused, strict=True).error
    assert error.message
    assert error.code


def check_stream(text):
    """A stream ends once, and an error in it is in shape."""
    *events, rest = text.split("\n\n")
    assert rest == ""
    if events[0].startswith("event: "):
        check_named(events)
        return
    assert events[-1] == "data: [DONE]"
    for event in events[:-1]:
        data = msgspec.json.decode(event.removeprefix("data: "))
        assert isinstance(data, dict)
        if "error" in data:
            msgspec.convert(data, Refused, strict=True)


def check_named(events):
    """A response's events have names and dense numbers, and end in a terminal one."""
    for number, event in enumerate(events):
        name, data = event.split("\n")
        data = msgspec.json.decode(data.removeprefix("data: "))
        assert name == f"event: {data['type']}"
        assert data["sequence_number"] == number
    assert data["response"]["status"] != "in_progress"


def check_answer(status, content_type, body):
    """An answer over HTTP."""
    if status != 200:
        check_refusal(status, body)
    elif content_type.startswith("text/event-stream"):
        check_stream(body.decode())
    else:
        msgspec.json.decode(body)


def check_event(event):
    """An event of a socket; an error is in shape, and not the server's fault."""
    assert isinstance(event["type"], str)
    if event["type"] == "error":
        assert event.get("status") != 500
        said = event["error"]
        error = {name: said[name] for name in ErrorObject.__struct_fields__}
        error = msgspec.convert(error, ErrorObject, strict=True)
        assert error.code != "internal_error"
