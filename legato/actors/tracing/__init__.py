"""Recording what actors do, and drawing it."""

from .chrome import draw
from .recorder import Recorder
from .tracer import Tracer, sample

__all__ = ["Recorder", "Tracer", "draw", "sample"]
