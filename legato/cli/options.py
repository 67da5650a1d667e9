"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..gpu.embedded import check_named
from ..protocol.sampling import SamplingParams

F = TypeVar("F", bound=Callable[..., Any])


def check_model(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Refuse a model that is not there before torch is loaded.

    Raises:
        InvalidModel: Names the models there are.
    """
    check_named(value)
    return value


ENGINE_OPTIONS = (
    click.option(
        "-m",
        "--model",
        default="smollm2",
        show_default=True,
        callback=check_model,
        help="smollm2 (embedded), a .gguf file, a directory with safetensors, or fake.",
    ),
    click.option(
        "--placement",
        type=click.Choice(["thread", "process"]),
        default="thread",
        show_default=True,
        help="Where scheduler and device live.",
    ),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
    ),
    click.option(
        "--dtype",
        type=click.Choice(["auto", "float32", "bfloat16", "float16", "int8"]),
        default="auto",
        show_default=True,
        help="Precision of weights and cache; auto is int8 on most CPUs.",
    ),
    click.option(
        "--activation-bits",
        type=click.Choice([8, 15]),
        default=8,
        show_default=True,
        help="Of activations in products with 4-bit weights: 15 is exact and slower.",
    ),
    click.option(
        "--kv-dtype",
        type=click.Choice(["auto", "fp8"]),
        default="auto",
        show_default=True,
        help="Numbers of the key-value cache; fp8 takes half the memory of bfloat16.",
    ),
    click.option(
        "--threads",
        "num_threads",
        type=click.IntRange(0),
        default=0,
        help="Kernel threads on a CPU; 0 chooses.",
    ),
    click.option(
        "--max-context",
        type=click.IntRange(0),
        default=0,
        help="Most tokens of prompt and answer; 0 is the model's limit.",
    ),
    click.option(
        "--kv-mib",
        type=click.IntRange(0),
        default=0,
        help="Memory for the key-value cache, in MiB; 0 sizes it from what is free.",
    ),
    click.option(
        "--kv-share",
        type=click.FloatRange(0, 1),
        default=0.0,
        help="Share of the free memory that the cache may take; 0 chooses.",
    ),
    click.option(
        "--tensor-parallel",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Divide the model among so many GPUs.",
    ),
    click.option(
        "--step-timeout",
        "step_timeout_s",
        type=click.FloatRange(0),
        default=300.0,
        show_default=True,
        help="Seconds without the end of a step that mean a hang; 0: never.",
    ),
    click.option(
        "--profile",
        default="",
        metavar="FILE",
        help="Profile steps of the device, for https://ui.perfetto.dev.",
    ),
    click.option(
        "--profile-from",
        type=click.IntRange(0),
        default=100,
        show_default=True,
        help="Steps before the first that is profiled.",
    ),
    click.option(
        "--profile-steps",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        help="Steps to profile.",
    ),
)

SAMPLING_OPTIONS = (
    click.option("--temperature", type=float, help="0 is greedy."),
    click.option("--top-p", type=float, help="Keep the likeliest mass."),
    click.option("--top-k", type=int, help="Keep the k likeliest; 0 keeps all."),
    click.option("--min-p", type=float, help="Drop tokens below this share."),
    click.option("--seed", type=int, help="Same seed, same text."),
    click.option("--max-tokens", type=int, help="Most tokens to answer with."),
    click.option("--stop", multiple=True, help="Text that ends it; may be repeated."),
)


def with_options(options: tuple[Callable[[F], F], ...]) -> Callable[[F], F]:
    """Put several options on a command, in the order they are listed."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def split_sampling(options: dict[str, Any]) -> dict[str, Any]:
    """Take the sampling options that were given out of all options."""
    chosen: dict[str, Any] = {}
    for name in SamplingParams.__struct_fields__:
        value = options.pop(name, None)
        if value is not None and value != ():
            chosen[name] = value
    return chosen
