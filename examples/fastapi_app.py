"""Embed Legato in a FastAPI application.

The engine lives as long as the application, in the same event loop. OpenAI's protocols
are mounted under /llm; the application's own endpoints use the engine directly.

    pip install fastapi
    python examples/fastapi_app.py            # or: … fake, a .gguf file, a directory
    curl 'http://127.0.0.1:8000/haiku?about=rain'
    curl http://127.0.0.1:8000/llm/v1/models
"""

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from legato import ChatMessage, Engine
from legato.serve import create_app


def make_app(model: str) -> FastAPI:
    engine = Engine(model)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        async with engine:
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/llm", create_app(engine))

    async def haiku(about: str) -> StreamingResponse:
        return StreamingResponse(verses(about), media_type="text/plain")

    async def verses(about: str) -> AsyncIterator[str]:
        ask = [ChatMessage("user", f"Write a haiku about {about}.")]
        # If the client leaves, the generator is closed, and with it the stream.
        async with engine.stream(ask, engine.params(max_tokens=60)) as stream:
            async for delta in stream:
                yield delta.text

    app.add_api_route("/haiku", haiku)
    return app


if __name__ == "__main__":
    app = make_app(sys.argv[1] if len(sys.argv) > 1 else "smollm2")
    # Without a limit uvicorn waits on Ctrl-C until every answer has come to its end.
    uvicorn.run(app, timeout_graceful_shutdown=3)
