"""Let go of an answer nobody wants any more: three ways, nothing leaks.

Leaving the ``async with`` block ends the request wherever it stands: waiting, reading
its prompt, or generating. Its pages are free within two steps.

    python examples/cancel_on_disconnect.py   # or: … fake, a .gguf file, a directory
"""

import asyncio
import sys

from legato import Engine

LONG = "Tell me the longest story you know."


async def main(model: str) -> None:
    async with Engine(model) as engine:
        params = engine.params(max_tokens=500, ignore_eos=True)

        # The reader has had enough: leave the block.
        async with engine.stream(LONG, params) as stream:
            async for delta in stream:
                print(f"broke off after {delta.text!r}")
                break

        # Somebody else says stop: the stream ends by itself, and says so.
        async with engine.stream(LONG, params) as stream:
            asyncio.get_running_loop().call_later(0.1, stream.cancel)
            reasons = [delta.finish_reason async for delta in stream]
            print(f"the stream ended: {reasons[-1]}")

        # The task is cancelled, as a web framework does when its client disconnects.
        try:
            async with asyncio.timeout(0.1):
                await engine.generate(LONG, params)
        except TimeoutError:
            print("gave up waiting")

        await engine.wait_idle()
        print(f"pages in use: {engine.stats().core.pages_used}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "smollm2"))
