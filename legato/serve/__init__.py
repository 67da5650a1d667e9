"""The front end: one ASGI application for every protocol."""
