"""Turn after turn with a real model: what was computed before is not computed again."""

import asyncio

import msgspec
import pytest

from legato import Engine
from legato.protocol.requests import ChatMessage
from legato.serve import create_app

pytestmark = [pytest.mark.model, pytest.mark.slow]
PAGE = 16
QUESTIONS = ("What is the capital of France?", "And of Italy?", "And of Spain?")


async def post(app, body):
    body = msgspec.json.encode(body)
    inbox, sent = asyncio.Queue(), []
    inbox.put_nowait({"type": "http.request", "body": body})

    async def send(message):
        sent.append(message.get("body", b""))

    headers = [(b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses",
        "headers": headers,
    }
    await app(scope, inbox.get, send)
    return msgspec.json.decode(b"".join(sent))


def test_a_turn_computes_only_what_is_new():
    async def main():
        async with Engine("smollm2", dtype="float32") as engine:
            app = create_app(engine)
            messages, seen, name = (), (), None
            for question in QUESTIONS:
                response = await post(
                    app,
                    {
                        "input": question,
                        "previous_response_id": name,
                        "temperature": 0,
                        "max_output_tokens": 40,
                    },
                )
                name = response["id"]
                usage = response["usage"]
                messages += (ChatMessage("user", question),)
                prompt = engine.encode(messages)
                assert usage["input_tokens"] == len(prompt)
                # The prompt begins with the ids of all that was said and read before.
                assert prompt[: len(seen)] == seen
                cached = usage["input_tokens_details"]["cached_tokens"]
                assert cached >= len(seen) - PAGE
                text = response["output"][0]["content"][0]["text"]
                messages += (ChatMessage("assistant", text),)
                seen = prompt + engine.encode(text)
            assert "Paris" in messages[1].content
            await app.close()

    asyncio.run(main())
