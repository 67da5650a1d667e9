"""What people run: ``legato chat``, ``generate``, ``serve``, ``trace``, …

Each command is a file; torch and the engine are imported only once a command needs
them, so that ``--help`` answers at once.
"""

from .main import main

__all__ = ["main"]
