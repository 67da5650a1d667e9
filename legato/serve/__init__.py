"""The front end: one ASGI application for every protocol."""

from .app import Application, create_app
from .server import Server, run_server, serve
from .settings import ServeSettings

__all__ = [
    "Application",
    "ServeSettings",
    "Server",
    "create_app",
    "run_server",
    "serve",
]
