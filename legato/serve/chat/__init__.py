"""The AI SDK's chat: its WebSocket transport, and its UI messages over HTTP."""

from .chats import Chats
from .endpoint import CHAT_PATHS, ChatEndpoint
from .socket_endpoint import ChatSocketEndpoint

__all__ = ["CHAT_PATHS", "ChatEndpoint", "ChatSocketEndpoint", "Chats"]
