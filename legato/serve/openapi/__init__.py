"""``/openapi.json``: every HTTP path, described from the structs that read them."""

from .endpoint import OPEN_PATHS, DescriptionEndpoint
from .operations import OPERATIONS, Operation

__all__ = ["OPEN_PATHS", "OPERATIONS", "DescriptionEndpoint", "Operation"]
