"""``/v1/responses``: Responses WebSocket mode, the primary protocol, and HTTP."""

from .endpoint import ResponsesEndpoint
from .registry import Registry
from .resource import ResponsesResource
from .shelf import make_store

__all__ = ["Registry", "ResponsesEndpoint", "ResponsesResource", "make_store"]
