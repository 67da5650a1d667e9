"""Let a model call functions of yours: ask, run what it calls, tell it what they gave.

The server keeps the conversation, so that each turn sends only what is new. Arguments
are valid JSON of the function's schema, whatever the model; whether they make sense is
up to it.

    legato serve &
    python examples/tool_loop.py      # or: … ws://host:port
"""

import asyncio
import json
import sys

from legato.client import Client

DEGREES = {"Oslo": -3, "Rome": 17}
TOOLS = [
    {
        "type": "function",
        "name": "temperature",
        "description": "Tells the temperature in a city, in degrees Celsius.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": list(DEGREES)}},
            "required": ["city"],
            "additionalProperties": False,
        },
    }
]
QUESTION = "How warm is it in Oslo now?"
MAX_TURNS = 4


def temperature(city: str) -> str:
    return f"{DEGREES[city]} °C"


async def main(url: str) -> None:
    async with Client(url) as client:
        chat = client.conversation(tools=TOOLS, temperature=0, max_output_tokens=200)
        turn = chat.say(QUESTION, tool_choice="required")
        for _ in range(MAX_TURNS):
            async for text in turn:
                print(text, end="", flush=True)
            given: list[dict[str, str]] = []
            for call in chat.calls:
                gave = temperature(**json.loads(call.arguments))
                print(f"[{call.name}({call.arguments}) gave {gave}]")
                item = {"type": "function_call_output", "call_id": call.id}
                given.append({**item, "output": gave})
            if not given:
                break
            turn = chat.say(given)
        print()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8000"))
