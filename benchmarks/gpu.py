"""How near to the device's limits are decode and prefill, and does it ever stand idle?

On a CUDA device, with random weights of two well-known shapes:

- decode: the time from step to step beside its floor, which is the weights' bytes and
  the keys and values' over the bandwidth of a copy, measured here;
- prefill: operations a second of an 8k prompt beside those of a matrix product;
- 256 streams through the whole engine: the share of time that the device is at work,
  and tokens a second, beside transformers' continuous batching if it is installed.

Without a GPU it says so and measures nothing. ``--tiny`` runs the same code on the CPU
over a model of two small layers: its figures mean nothing.
"""

import argparse
import asyncio
import gc
import json
import platform
from typing import Any

import torch
from gpu_floor import copy_bytes_s, product_flops_s
from gpu_model import SHAPES, RandomCheckpoint, RandomModel, matrix_numbers
from gpu_rival import transformers_tokens_s
from gpu_steps import decode, prefill

from legato import Engine
from legato.cli.load import Load, drive, report
from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import ModelConfig
from legato.gpu.settings import RunnerSettings

Row = dict[str, Any]


class Bench:
    """The measurements on one device.

    Args:
        tiny: On the CPU, over the tiny shape.
    """

    def __init__(self, tiny: bool) -> None:
        self.device = torch.device("cpu" if tiny else "cuda")
        self.dtype = torch.float32 if tiny else torch.bfloat16
        self.shapes = ("tiny",) if tiny else ("8B", "0.6B")
        self.batches = (1, 2) if tiny else (1, 2, 4, 8, 16, 32, 64)
        self.context, self.steps = (24, 8) if tiny else (1024, 64)
        self.prompt = 48 if tiny else 8192
        self.streams, self.tokens = (4, 6) if tiny else (256, 256)
        self.bytes_s = copy_bytes_s(self.device, 1 << (20 if tiny else 30))
        width = 64 if tiny else 8192
        self.flops_s = product_flops_s(self.device, width, self.dtype)

    def release(self) -> None:
        """Give the device's memory to whoever comes next."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def settings(self, slots: int) -> RunnerSettings:
        """Of a runner with so many slots."""
        return RunnerSettings(
            device=self.device.type,
            dtype=str(self.dtype).removeprefix("torch."),
            num_slots=slots,
            max_context=max(self.prompt, self.context + self.steps) + 64,
            max_step_tokens=self.prompt,
        )

    def checkpoint(self, name: str) -> RandomCheckpoint:
        """A shape's."""
        return RandomCheckpoint(name, self.device, self.dtype)

    def steps_of(self, name: str) -> list[Row]:
        """Measure decode and prefill of a shape."""
        checkpoint = self.checkpoint(name)
        runner = build_runner(checkpoint, self.settings(max(self.batches)))
        print(f"{name}: {runner.memory_report}", flush=True)
        rows: list[Row] = []
        for batch in self.batches:
            step_s, busy = decode(runner, batch, self.context, self.steps)
            floor_s = self.floor_s(checkpoint.config, batch)
            rows.append({"model": name, "batch": batch, "step_ms": 1e3 * step_s})
            rows[-1] |= {"floor_ms": 1e3 * floor_s, "times_floor": step_s / floor_s}
            rows[-1] |= {"busy_share": busy}
            show(rows[-1])
        prompt_s = prefill(runner, self.prompt, 3)
        flops_s = prefill_flops(checkpoint.config, self.prompt) / prompt_s
        rows.append(
            {"model": name, "prompt": self.prompt, "prefill_ms": 1e3 * prompt_s}
        )
        rows[-1] |= {"matmul_share": flops_s / self.flops_s}
        show(rows[-1])
        runner.close()
        return rows

    def floor_s(self, config: ModelConfig, batch: int) -> float:
        """What reading weights and past takes at the speed of a copy."""
        past = 2 * config.num_layers * config.num_kv_heads * config.head_dim
        past *= batch * (self.context + self.steps // 2)
        return (matrix_numbers(config) + past) * self.dtype.itemsize / self.bytes_s

    async def streams_of(self, name: str) -> Row:
        """Measure many streams through the engine, and the rival."""
        load = Load(
            streams=self.streams,
            requests=self.streams,
            prompt_tokens=16,
            max_tokens=self.tokens,
        )
        settings = self.settings(self.streams)
        model = RandomModel(lambda: self.checkpoint(name), settings)
        async with Engine(model) as engine:
            await drive(
                engine, Load(streams=2, requests=2, prompt_tokens=8, max_tokens=4)
            )
            await engine.wait_idle()
            before = engine.stats().core
            answers = await drive(engine, load)
            await engine.wait_idle()
            found = report(answers, before, engine.stats().core)
        prompts = [[5 + n % 200] * 16 for n in range(self.streams)]
        self.release()
        rival = transformers_tokens_s(SHAPES[name], self.device, prompts, self.tokens)
        self.release()
        row: Row = {"model": name, "streams": self.streams, "tok_s": found["out_tok_s"]}
        row |= {"busy_share": 1 - found["bubble_share"], "transformers_tok_s": rival}
        show(row)
        return row


def prefill_flops(config: ModelConfig, length: int) -> float:
    """Operations of a prompt: products with layers' weights, and causal attention."""
    head = config.vocab_size * config.hidden
    products = 2 * (matrix_numbers(config) - head) * length
    return (
        products
        + 2 * length**2 * config.num_layers * config.num_heads * config.head_dim
    )


def show(row: Row) -> None:
    """Print a row."""
    parts = (
        f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
    )
    print("  ".join(parts), flush=True)


def main() -> None:
    """Measure, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="try this program on a CPU")
    tiny = parser.parse_args().tiny
    if not (tiny or torch.cuda.is_available()):
        print("There is no GPU that torch can use: nothing was measured (see --tiny).")
        print(json.dumps({"benchmark": "gpu", "gpu": None, "rows": []}))
        return
    bench = Bench(tiny)
    show({"copy_gb_s": bench.bytes_s / 1e9, "product_tflop_s": bench.flops_s / 1e12})
    rows = [row for name in bench.shapes for row in bench.steps_of(name)]
    rows += [asyncio.run(bench.streams_of(name)) for name in bench.shapes]
    result = {
        "benchmark": "gpu",
        "gpu": None if tiny else torch.cuda.get_device_name(),
        "tiny": tiny,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "copy_gb_s": bench.bytes_s / 1e9,
        "product_tflop_s": bench.flops_s / 1e12,
        "rows": rows,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
