"""``WS /v1/realtime``: OpenAI's Realtime API, text alone."""

from .endpoint import RealtimeEndpoint

__all__ = ["RealtimeEndpoint"]
