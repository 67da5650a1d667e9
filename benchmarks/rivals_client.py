"""A closed loop of streamed completions over HTTP, by hand: it has to cost little.

A new connection a request: not every server keeps one open after a stream.
"""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from typing import Any

from legato.cli.load import Answer, Load

TIMEOUT_S = 900.0


async def drive(
    port: int, load: Load, words: Sequence[str], body: dict[str, Any]
) -> list[Answer]:
    """Run the loop to its end.

    Args:
        port: Of the server, on this machine.
        load: How much.
        words: Each one token.
        body: Fields of every request.

    Raises:
        RuntimeError: A server's refusal, in its words.
    """
    numbers = iter(range(load.requests))
    answers: list[Answer] = []

    async def reader() -> None:
        for number in numbers:
            rng = random.Random(f"{load.seed} {number}")
            prompt = "".join(rng.choices(words, k=load.prompt_tokens))
            asked = body | {
                "prompt": prompt,
                "max_tokens": load.max_tokens,
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            answers.append(await asyncio.wait_for(_ask(port, asked), TIMEOUT_S))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(load.streams, load.requests)):
            group.create_task(reader())
    return answers


async def _ask(port: int, body: dict[str, Any]) -> Answer:
    answer = Answer(time.perf_counter())
    lines, out = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    try:
        content = json.dumps(body).encode()
        out.write(
            b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nAccept: text/event-stream\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(content), content)
        )
        await out.drain()
        status = await lines.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"{status!r}: {(await lines.read())[-500:]!r}")
        # Lines of chunk sizes and headers begin otherwise and are passed over.
        while line := await lines.readline():
            if line.startswith(b"data: {"):
                _hear(answer, json.loads(line[6:]))
    finally:
        out.close()
    if not answer.times:
        raise RuntimeError("an answer without text")
    return answer


def _hear(answer: Answer, event: dict[str, Any]) -> None:
    if usage := event.get("usage"):
        answer.tokens = usage["completion_tokens"]
    for choice in event.get("choices", ()):
        if choice.get("text"):
            answer.times.append(time.perf_counter())
