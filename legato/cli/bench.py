"""``legato bench``: how quick an engine is here, and how steadily it streams."""

import asyncio
import json
from typing import Any

import click

from .garbage import uncollected
from .kernels import compile_ahead
from .options import ENGINE_OPTIONS, with_options

LABELS = {
    "out_tok_s": "output tokens a second",
    "ttft_ms_p50": "time to first token, ms, median",
    "ttft_ms_p99": "                         p99",
    "itl_ms_p50": "between tokens, ms, median",
    "itl_ms_p99": "                    p99",
    "bubble_share": "share of device time idle between steps",
    "peak_rss_mib": "peak memory, MiB",
}


@click.command()
@with_options(ENGINE_OPTIONS)
@click.option(
    "-c",
    "--streams",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Streams open at a time; the next begins as one ends.",
)
@click.option("-n", "--requests", type=click.IntRange(1), default=8, show_default=True)
@click.option("--prompt-tokens", type=click.IntRange(1), default=128, show_default=True)
@click.option("--max-tokens", type=click.IntRange(1), default=128, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the prompts.")
def bench(
    streams: int,
    requests: int,
    prompt_tokens: int,
    max_tokens: int,
    seed: int,
    **options: Any,
) -> None:
    """Measure throughput, waits and bubbles, in this process, without a server.

    Prompts are random and of an exact length, and so are answers. The last line is one
    JSON document. (With --placement process, memory is that of the larger process.)

    \b
    Examples:
      legato bench
      legato bench -c 32 -n 96
      legato bench -c 4 -n 12 --prompt-tokens 1500 --max-tokens 64 --threads 2
    """
    compile_ahead(options)
    with uncollected():
        from .load import Load

    load = Load(
        streams=streams,
        requests=requests,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        seed=seed,
    )
    found = asyncio.run(_bench(load, options))
    for name, label in LABELS.items():
        click.echo(f"{label:<40}{found[name]:>10}")
    click.echo(json.dumps(found))


async def _bench(load: Any, options: dict[str, Any]) -> dict[str, float]:
    from msgspec.structs import replace

    from .load import drive, peak_bytes, report
    from .loading import loaded

    async with loaded(options) as engine:
        click.echo(engine.memory_report, err=True)
        # A stream of its own warms caches; its prompt is nobody else's.
        warm_up = replace(load, streams=1, requests=1, max_tokens=4, seed=load.seed - 1)
        await drive(engine, warm_up)
        await engine.wait_idle()
        before = engine.stats().core
        answers = await drive(engine, load)
        await engine.wait_idle()
        found = report(answers, before, engine.stats().core)
    # A child's memory is known once it ended.
    return found | {"peak_rss_mib": round(peak_bytes() / 2**20, 1)}
