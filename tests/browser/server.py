"""A server for the browser: a paced device with a short answer and a long one.

A long question gets the long answer. Prints its URL and ends when its input does.
Arguments are API keys.
"""

import asyncio
import sys
from pathlib import Path

from legato.engine import Engine, FakeModel
from legato.gpu.fake import FAKE_LIMITS, FakeRunner, fake_text
from legato.serve import ServeSettings, serve

HERE = Path(__file__).parent
SHORT = (HERE / "short.md").read_bytes()
LONG = " ".join(f"w{number}" for number in range(250)).encode()
LONG_QUESTION_TOKENS = 500
STEP_S = 0.003


def say(prompt_tokens: int, number: int) -> int:
    """The token that comes next."""
    answer = LONG if prompt_tokens > LONG_QUESTION_TOKENS else SHORT
    return answer[number] if number < len(answer) else fake_text().stop_ids[0]


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
    model = FakeModel(runner=lambda: FakeRunner(FAKE_LIMITS, STEP_S, script=say))
    settings = ServeSettings(port=0, api_keys=tuple(sys.argv[1:]))
    await serve(Engine(model), settings, on_listening=listening, on_ready=ready)


if __name__ == "__main__":
    asyncio.run(main())
