"""The planner and its bookkeeping: pages, prefix, order, budget, batching.

Pure and synchronous: no I/O, no clock of its own, no torch.
"""

from .batching import Auto, Batching, Continuous, Dynamic, Static
from .planner import Planner
from .settings import PlannerSettings
from .stats import PlannerStats

__all__ = [
    "Auto",
    "Batching",
    "Continuous",
    "Dynamic",
    "Planner",
    "PlannerSettings",
    "PlannerStats",
    "Static",
]
