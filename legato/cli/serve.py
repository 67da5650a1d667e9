"""``legato serve``: the protocols, on one port."""

import asyncio
from typing import Any

import click

from .options import ENGINE_OPTIONS, with_options


@click.command()
@with_options(ENGINE_OPTIONS)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option(
    "--api-key",
    "api_keys",
    multiple=True,
    envvar="LEGATO_API_KEY",
    help="Ask clients for a key; may be repeated. Also from LEGATO_API_KEY.",
)
@click.option(
    "--origin",
    "allowed_origins",
    multiple=True,
    help="A web origin that may connect, beside this machine's own; may be repeated.",
)
@click.option(
    "--slots",
    "num_slots",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Sequences on the device at once.",
)
@click.option(
    "--max-requests",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="Requests open at once; more are refused with 429.",
)
def serve(
    host: str,
    port: int,
    api_keys: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    **options: Any,
) -> None:
    """Serve chat and completions over HTTP, and responses over WebSocket.

    \b
    Examples:
      legato serve
      legato serve --port 9000 --api-key secret --origin https://app.example
      legato serve --model fake            try a client without a model
    """
    asyncio.run(_serve(host, port, api_keys, allowed_origins, options))


async def _serve(
    host: str,
    port: int,
    api_keys: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    options: dict[str, Any],
) -> None:
    from ..serve import ServeSettings, run_server
    from .loading import loaded

    settings = ServeSettings(
        host=host, port=port, api_keys=api_keys, allowed_origins=allowed_origins
    )
    async with loaded(options) as engine:
        click.echo(f"{engine.name}: {engine.memory_report}", err=True)
        await run_server(engine, settings)
