"""``legato generate``: continue a text, once."""

import asyncio
import sys
from typing import Any

import click

from .garbage import uncollected
from .kernels import compile_ahead
from .options import ENGINE_OPTIONS, SAMPLING_OPTIONS, split_sampling, with_options

# A text may go on for ever; whoever wants more says --max-tokens.
TOKENS = 256


@click.command()
@click.argument("prompt", required=False)
@with_options(ENGINE_OPTIONS)
@with_options(SAMPLING_OPTIONS)
def generate(prompt: str | None, **options: Any) -> None:
    """Continue PROMPT (or standard input) as plain text, without a chat template.

    Where no sampling option is given, the model's recommended ones hold, and the text
    ends after 256 tokens.

    \b
    Examples:
      legato generate "Once upon a time" --max-tokens 50
      echo "The capital of France is" | legato generate --temperature 0
    """
    if prompt is None and sys.stdin.isatty():
        raise click.UsageError("give a PROMPT, or pipe one in")
    text: str = prompt if prompt is not None else sys.stdin.read()
    compile_ahead(options)
    asyncio.run(_generate(text, options))


async def _generate(prompt: str, options: dict[str, Any]) -> None:
    with uncollected():
        from .loading import loaded

    sampling = {"max_tokens": TOKENS} | split_sampling(options)
    async with loaded(options) as engine:
        params = engine.params(**sampling)
        async with engine.stream(prompt, params) as stream:
            async for delta in stream:
                click.echo(delta.text, nl=False)
    click.echo()
