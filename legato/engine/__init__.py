"""What people embed: the engine, its streams and its settings. Wiring only."""

from ..gpu.fake_model import FakeModel
from ..gpu.source import Model
from .engine import Engine
from .settings import EngineSettings
from .stats import EngineStats
from .stream import Stream

__all__ = ["Engine", "EngineSettings", "EngineStats", "FakeModel", "Model", "Stream"]
