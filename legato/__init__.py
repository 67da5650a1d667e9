"""Legato: streaming LLM inference with no silence between tokens."""

from .version import __version__

__all__ = ["__version__"]
