"""What people embed: the engine, its streams and its settings. Wiring only."""

from .engine import Engine
from .model import FakeModel, Model
from .settings import EngineSettings
from .stats import EngineStats
from .stream import Stream

__all__ = ["Engine", "EngineSettings", "EngineStats", "FakeModel", "Model", "Stream"]
