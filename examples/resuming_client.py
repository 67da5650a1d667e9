"""Talk with a running server through a client that survives dropped connections.

legato serve
python examples/resuming_client.py ws://127.0.0.1:8000
"""

import asyncio
import sys

from legato import LegatoError
from legato.client import Client

TURNS = ("Name a river.", "In which country is it?")


async def main(url: str) -> None:
    async with Client(url) as client:
        # Two questions side by side, each in a lane of its own.
        async with asyncio.TaskGroup() as group:
            for question in ("What is a token?", "What is a lane?"):
                group.create_task(ask(client, question))

        # A conversation: the server remembers, each turn sends only what is new.
        chat = client.conversation(max_output_tokens=40)
        for turn in TURNS:
            print(f"> {turn}")
            async for text in chat.say(turn):
                print(text, end="", flush=True)
            print()

        # Enough read: breaking off cancels the answer on the server.
        async for _ in client.stream("Tell me a long story."):
            break


async def ask(client: Client, question: str) -> None:
    try:
        answer = client.stream(question, max_output_tokens=40)
        print(f"{question} {await answer.text()} [{answer.status}]")
    except LegatoError as error:
        print(f"{question} failed: {error}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8000"))
