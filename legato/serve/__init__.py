"""The front end: one ASGI application for every protocol."""

from .app import Application, create_app
from .server import Server, listen, run_server, serve
from .settings import ServeSettings

__all__ = [
    "Application",
    "ServeSettings",
    "Server",
    "create_app",
    "listen",
    "run_server",
    "serve",
]
