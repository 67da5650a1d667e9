"""``legato trace``: what a running server does, for a few seconds, as a drawing."""

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import IO

import click
import msgspec
from rich.filesize import decimal

from ..protocol.errors import InvalidSetting, LegatoError

# The server records, collects the core's part and draws: more than the recording.
GRACE_S = 60.0


@click.command()
@click.option("--url", default="http://127.0.0.1:8000", show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 60, min_open=True),
    default=5.0,
    show_default=True,
)
@click.option(
    "-o",
    "--output",
    type=click.File("wb", lazy=True),
    default="legato-trace.json",
    show_default=True,
    help="A file, or - for standard output.",
)
@click.option(
    "--api-key", envvar="LEGATO_API_KEY", help="Also from LEGATO_API_KEY.", default=""
)
def trace(url: str, seconds: float, output: IO[bytes], api_key: str) -> None:
    """Record a trace of a running server; open it at https://ui.perfetto.dev.

    \b
    Examples:
      legato trace --seconds 2 -o out.json
      legato trace --url http://10.0.0.7:8000 --api-key secret
    """
    body = fetch(url, seconds, api_key)
    output.write(body)
    if output.name != "-":
        size = decimal(len(body))
        click.echo(
            f"{output.name}: {size}; open it at https://ui.perfetto.dev", err=True
        )


def fetch(url: str, seconds: float, api_key: str) -> bytes:
    """Ask a server for a trace.

    Raises:
        InvalidSetting: The address is none, or nobody answers there.
        LegatoError: The server refused; says why.
    """
    if not url.startswith(("http://", "https://")):
        raise InvalidSetting(f"--url must begin with http:// or https://, not {url!r}")
    request = urllib.request.Request(
        f"{url.rstrip('/')}/debug/trace?seconds={seconds:g}", method="POST"
    )
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with urllib.request.urlopen(request, timeout=seconds + GRACE_S) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        with error:
            raise LegatoError(f"{url} refused: {reason(error.read(), error)}") from None
    except (OSError, HTTPException, ValueError) as error:
        # What urllib wraps says it better than the wrapper.
        cause = getattr(error, "reason", None) or error
        why = getattr(cause, "strerror", None) or cause
        raise InvalidSetting(f"no server answers at {url}: {why}") from error


def reason(body: bytes, error: urllib.error.HTTPError) -> str:
    """What a server's refusal says."""
    try:
        return msgspec.json.decode(body)["error"]["message"]
    except (msgspec.DecodeError, LookupError, TypeError):
        return f"{error.code} {error.reason}"
