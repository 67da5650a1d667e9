"""Models of well-known shapes with random weights: enough for speed, not for text."""

from collections.abc import Callable
from pathlib import Path

import torch
from msgspec.structs import replace

from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import Blocks, ModelConfig, RopeConfig
from legato.gpu.checkpoint.parameters import EMBEDDING, expected_parameters
from legato.gpu.checkpoint.part import Part
from legato.gpu.fake import fake_text
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.models import TextSource

CONTROL = 3  # GGUF's type of tokens that are no text


def shape(name: str, layers: int, widths: tuple[int, ...], vocab: int) -> ModelConfig:
    """A shape; widths are hidden, heads, key heads, head, MLP."""
    hidden, heads, kv_heads, head_dim, ffn = widths
    is_small = name != "8B"
    return ModelConfig(
        architecture="qwen3" if is_small else "llama",
        num_layers=layers,
        hidden=hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=ffn,
        vocab_size=vocab,
        max_context=16_384,
        norm_eps=1e-6,
        rope=RopeConfig(theta=500_000.0),
        tied_embeddings=is_small,
        qk_norm=is_small,
    )


SHAPES = {
    "8B": shape("8B", 32, (4096, 32, 8, 128, 14_336), 128_256),
    "0.6B": shape("0.6B", 28, (1024, 16, 8, 128, 3072), 151_936),
    "tiny": shape("tiny", 2, (64, 4, 2, 16, 96), 320),
}


def matrix_numbers(config: ModelConfig) -> int:
    """Numbers that every step reads: all but an embedding that is only looked up."""
    total = 0
    for name, size in expected_parameters(config).items():
        if name != EMBEDDING or config.tied_embeddings:
            total += torch.Size(size).numel()
    return total


class RandomCheckpoint:
    """A checkpoint without files.

    Args:
        name: Of its shape.
        device: Where its numbers are made.
        dtype: Of them.
    """

    path = Path()

    def __init__(self, name: str, device: torch.device, dtype: torch.dtype) -> None:
        self.name = name
        self.config = SHAPES[name]
        self._device = device
        self._dtype = dtype
        self._shapes = expected_parameters(self.config)

    @property
    def text(self) -> TextSource:
        """One token a byte, and fillers for the rest of the vocabulary."""
        text = fake_text()
        known = text.vocabulary
        more = self.config.vocab_size - len(known.tokens)
        vocabulary = replace(
            known,
            tokens=(*known.tokens, *(f"<filler {n}>" for n in range(more))),
            types=(*known.types, *(CONTROL,) * more),
        )
        return replace(text, vocabulary=vocabulary)

    def parameter(self, name: str, part: Part | None = None) -> torch.Tensor:
        """Make one up."""
        size = self._shapes[name]
        if "norm" in name:
            return torch.ones(size, dtype=self._dtype, device=self._device)
        made = torch.empty(size, dtype=self._dtype, device=self._device)
        made.normal_(0, size[-1] ** -0.5)
        return made if part is None else made[part.slices]

    def blocks(self, name: str) -> Blocks | None:
        """There are none."""

    def close(self) -> None:
        """Nothing to close."""


class RandomModel:
    """What an engine takes.

    Args:
        make: Makes the checkpoint.
        settings: For its runner.
    """

    def __init__(
        self, make: Callable[[], RandomCheckpoint], settings: RunnerSettings
    ) -> None:
        self._make = make
        self._settings = settings
        self.name = "random"

    def text(self) -> TextSource:
        """Its text."""
        return self._make().text

    def build(self) -> ModelRunner:
        """Its runner."""
        return build_runner(self._make(), self._settings)
