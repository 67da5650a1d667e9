"""A client of the WebSocket protocol that outlives its connections.

    async with Client("ws://127.0.0.1:8000", api_key="…") as client:
        async for text in client.stream("Name three rivers."):
            print(text, end="")

Needs no engine and no torch: it runs wherever there is ``websockets``.
"""

from .answer import Answer
from .client import Client
from .conversation import Conversation

__all__ = ["Answer", "Client", "Conversation"]
