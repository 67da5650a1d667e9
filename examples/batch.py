"""Answer a batch of prompts: all at once, in the order they end.

The engine batches them by itself; a file of a million lines would want a bound on how
many are open, which is what the semaphore is for.

    python examples/batch.py                  # or: … fake, a .gguf file, a directory
"""

import asyncio
import sys

from legato import Engine

PROMPTS = [f"Count from {start} to {start + 5}:" for start in range(8)]
MAX_OPEN = 4


async def main(model: str) -> None:
    async with Engine(model) as engine:
        params = engine.params(temperature=0, max_tokens=24)
        room = asyncio.Semaphore(MAX_OPEN)

        async def answer(prompt: str) -> None:
            async with room:
                completion = await engine.generate(prompt, params)
            tokens = completion.usage.output_tokens
            print(f"{prompt} [{tokens} tokens] {completion.text!r}")

        async with asyncio.TaskGroup() as group:
            for prompt in PROMPTS:
                group.create_task(answer(prompt))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "smollm2"))
