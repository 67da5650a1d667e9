"""``legato serve``: the protocols, on one port."""

import logging
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from ..version import __version__
from .batching import BatchingType
from .garbage import uncollected
from .kernels import compile_ahead
from .options import ENGINE_OPTIONS, with_options

if TYPE_CHECKING:
    from ..serve import ServeSettings


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
@click.option(
    "--batching",
    type=BatchingType(),
    default="continuous",
    show_default=True,
    help="continuous, dynamic, static or auto; options behind a colon.",
)
@click.option(
    "--playground/--no-playground",
    default=True,
    show_default=True,
    help="A page to talk with the model, at /.",
)
@click.option(
    "--state-store",
    default="",
    metavar="PATH",
    help="File that keeps responses, so that they survive a restart.",
)
@click.option(
    "--store-entries",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Responses that are kept.",
)
@click.option(
    "--store-ttl",
    "store_ttl_s",
    type=click.FloatRange(0, min_open=True),
    default=86400.0,
    show_default=True,
    help="Seconds for which they are.",
)
@click.option(
    "--resume-grace",
    "resume_grace_s",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds that a resumable answer waits for its reader.",
)
@click.option(
    "--max-requests-per-key",
    type=click.IntRange(0),
    default=0,
    help="Answers under way for one API key; 0: no limit.",
)
@click.option("--access-log", is_flag=True, help="Write a line for each request.")
def serve(
    host: str,
    port: int,
    api_keys: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    playground: bool,
    access_log: bool,
    state_store: str,
    store_entries: int,
    store_ttl_s: float,
    resume_grace_s: float,
    max_requests_per_key: int,
    **options: Any,
) -> None:
    """Serve chat and completions over HTTP, and responses over WebSocket.

    \b
    Examples:
      legato serve
      legato serve --port 9000 --api-key secret --origin https://app.example
      legato serve --batching dynamic:max_batch=16,max_delay_s=0.02
      legato serve --model fake            try a client without a model
    """
    from ..serve import ServeSettings, listen

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    settings = ServeSettings(
        host=host,
        port=port,
        api_keys=api_keys,
        allowed_origins=allowed_origins,
        playground=playground,
        access_log=access_log,
        state_store=state_store,
        store_entries=store_entries,
        store_ttl_s=store_ttl_s,
        resume_grace_s=resume_grace_s,
        max_requests_per_key=max_requests_per_key,
    )
    listener = listen(settings)
    compile_ahead(options)
    _run(settings, listener, options)


def _run(
    settings: "ServeSettings", listener: socket.socket, options: dict[str, Any]
) -> None:
    # Only now what takes a while to import: a taken port was said at once.
    loading = ExitStack()
    loading.enter_context(uncollected())
    from ..serve import run_server
    from .loading import LoadingBar, make_engine

    bar = LoadingBar(options["model"])
    engine = make_engine(options, bar)

    def listening(url: str) -> None:
        ws = url.replace("http", "ws", 1)
        click.echo(f"legato {__version__}, loading {options['model']}", err=True)
        page = [f"{url}/                the playground"] if settings.playground else []
        for line in (
            *page,
            f"{url}/v1              OpenAI-compatible API (base URL)",
            f"{ws}/v1/responses      Responses over WebSocket",
            f"{url}/health, /metrics, /debug",
        ):
            click.echo(f"  {line}", err=True)
        bar.__enter__()

    def ready(_server: object) -> None:
        bar.close()
        loading.close()
        click.echo(f"ready: {engine.name}; {engine.memory_report}", err=True)

    try:
        run_server(
            engine, settings, listener=listener, on_listening=listening, on_ready=ready
        )
    finally:
        bar.close()
        loading.close()
