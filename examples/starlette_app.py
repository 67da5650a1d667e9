"""Mount Legato's protocols inside a Starlette application.

Everything `legato serve` speaks stands below /llm, sockets included; keys, origins and
limits are those of its settings.

    python examples/starlette_app.py          # or: … fake, a .gguf file, a directory
    curl http://127.0.0.1:8000/llm/v1/models
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from legato import Engine
from legato.serve import ServeSettings, create_app


def make_app(model: str) -> Starlette:
    engine = Engine(model)
    settings = ServeSettings(allowed_origins=("https://chat.example",))

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with engine:
            yield

    async def summary(request: Request) -> PlainTextResponse:
        text = (await request.body()).decode()
        ask = f"Summarize in one sentence: {text}"
        # A client that leaves does not end this: long answers want to be streamed.
        answer = await engine.generate(ask, engine.params(max_tokens=40))
        return PlainTextResponse(answer.text)

    routes = [
        Route("/summary", summary, methods=["POST"]),
        Mount("/llm", create_app(engine, settings)),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


if __name__ == "__main__":
    app = make_app(sys.argv[1] if len(sys.argv) > 1 else "smollm2")
    uvicorn.run(app, timeout_graceful_shutdown=3)
