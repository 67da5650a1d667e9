"""The live page about the pipeline, its figures, and traces on demand."""

from .endpoint import OPEN_PATHS, DebugEndpoint

__all__ = ["OPEN_PATHS", "DebugEndpoint"]
