"""``WS /v1/responses``: Responses WebSocket mode, the primary protocol."""

from .endpoint import ResponsesEndpoint

__all__ = ["ResponsesEndpoint"]
