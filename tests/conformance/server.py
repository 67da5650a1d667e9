"""A server for foreign clients: a paced device that always says the same.

Run by Legato's own Python; the clients run in environments of their own. Prints its URL
and ends when its input does. A number as its argument has it say it so many times.
"""

import asyncio
import sys

from legato.engine import Engine, FakeModel
from legato.serve import ServeSettings, serve

ANSWER = "Hello, wörld 🌍!".encode()


async def main() -> None:
    loop = asyncio.get_running_loop()

    def ready(server) -> None:
        print(url, flush=True)
        loop.run_in_executor(None, wait_for_the_end, server)

    def listening(at: str) -> None:
        nonlocal url
        url = at

    def wait_for_the_end(server) -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(server.stop)

    url = ""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    engine = Engine(FakeModel(script=ANSWER * times, step_s=0.002))
    settings = ServeSettings(port=0, api_keys=("sk-right",))
    await serve(engine, settings, on_listening=listening, on_ready=ready)


if __name__ == "__main__":
    asyncio.run(main())
