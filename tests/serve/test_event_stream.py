import msgspec
import pytest

from legato.protocol.openai.chat import ChatAnswer, read_chat
from legato.protocol.requests import Delta
from legato.serve.event_stream import EventStream

pytestmark = pytest.mark.anyio


class Written:
    """An exchange that keeps what is written."""

    def __init__(self) -> None:
        self.started = False
        self.body = b""

    async def start(self, status, headers):
        self.started = True

    async def write(self, data):
        self.body += data


def sse_indexes(body):
    events = [line[6:] for line in body.split(b"\n\n") if line]
    choices = [msgspec.json.decode(data)["choices"][0] for data in events]
    return [(c["index"], c["delta"].get("role", "")) for c in choices]


async def test_choices_open_in_order_whichever_has_text_first():
    body = {
        "messages": [{"role": "user", "content": "hi"}],
        "n": 3,
        "stream": True,
    }
    request = read_chat(msgspec.json.encode(body), {})
    answer = ChatAnswer(
        "chatcmpl-1", "fake", 0, include_usage=False, token_bytes=lambda token: b""
    )
    exchange = Written()
    await EventStream(exchange, request, answer).take([(2, Delta("text", (1,)))])
    assert sse_indexes(exchange.body) == [
        (0, "assistant"),
        (1, "assistant"),
        (2, "assistant"),
        (2, ""),
    ]
