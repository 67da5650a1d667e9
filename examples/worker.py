"""A worker: jobs from a queue, answers as they end, load shed with patience.

Reads one job a line (JSON with "id" and "prompt") from standard input, keeps a few open
at once, and writes one line an answer. A full engine says when to come back.

    printf '{"id": 1, "prompt": "Hi"}\\n' | python examples/worker.py   # or: … fake
"""

import asyncio
import json
import sys
from collections.abc import Iterable
from typing import Any

from legato import Engine, InvalidRequest, Overloaded

WORKERS = 4
ATTEMPTS = 5


async def answer(engine: Engine, job: dict[str, Any]) -> dict[str, Any]:
    params = engine.params(temperature=0, max_tokens=40)
    for _ in range(ATTEMPTS):
        try:
            completion = await engine.generate(job["prompt"], params)
        except Overloaded as full:
            await asyncio.sleep(full.retry_after_s)
        except InvalidRequest as error:
            return {"id": job["id"], "error": str(error)}
        else:
            return {"id": job["id"], "text": completion.text}
    return {"id": job["id"], "error": "the engine stayed full"}


async def main(model: str, lines: Iterable[str]) -> None:
    # Bounded, so that a million lines are not all read at once.
    jobs: asyncio.Queue[str | None] = asyncio.Queue(2 * WORKERS)

    async def work(engine: Engine) -> None:
        while (line := await jobs.get()) is not None:
            print(json.dumps(await answer(engine, json.loads(line))), flush=True)

    async with Engine(model) as engine, asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(work(engine))
        source = iter(lines)
        while (line := await asyncio.to_thread(next, source, None)) is not None:
            await jobs.put(line)
        for _ in range(WORKERS):
            await jobs.put(None)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "smollm2", sys.stdin))
