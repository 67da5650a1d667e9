"""``/``: a page to talk with the model, and the JavaScript client it is built on.

Static: everything it shows it asks for over the public protocols, as any page would.
"""

from .files import OPEN_PATHS, playground

__all__ = ["OPEN_PATHS", "playground"]
