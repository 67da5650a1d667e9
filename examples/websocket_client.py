"""Ask several questions at once over one WebSocket, each in a lane of its own.

legato serve
python examples/websocket_client.py ws://127.0.0.1:8000/v1/responses
"""

import asyncio
import json
import sys

from websockets.asyncio.client import connect

QUESTIONS = {
    "france": "What is the capital of France?",
    "rivers": "Name three rivers.",
    "haiku": "Write a haiku about rain.",
}
ENDS = ("completed", "incomplete", "cancelled", "failed")


async def main(url: str) -> None:
    async with connect(url) as websocket:
        for lane, question in QUESTIONS.items():
            ask = {
                "type": "response.create",
                "stream_id": lane,
                "input": question,
                "max_output_tokens": 40,
            }
            await websocket.send(json.dumps(ask))
        answers = dict.fromkeys(QUESTIONS, "")
        running = set(QUESTIONS)
        while running:
            event = json.loads(await websocket.recv())
            if event["type"] == "error":
                raise SystemExit(f"the server says: {event}")
            lane = event["stream_id"]
            if event["type"] == "response.output_text.delta":
                answers[lane] += event["delta"]
            elif event["type"].removeprefix("response.") in ENDS:
                running.discard(lane)
                print(f"{lane}: {answers[lane] or event}")


if __name__ == "__main__":
    default = "ws://127.0.0.1:8000/v1/responses"
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else default))
