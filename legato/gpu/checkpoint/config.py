"""The shape of a decoder-only model, whatever file it came from.

Also which families are known, and which of their options are refused.
"""

from typing import Literal

import msgspec

from ...protocol.errors import InvalidModel

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")


class RopeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Rotary position embedding.

    Args:
        theta: The base of the frequencies.
        kind: ``default``; ``linear``: positions divided by ``factor``; ``llama3``: low
            frequencies divided by ``factor``, high ones kept, smooth between;
            ``factors``: each frequency divided by the checkpoint's own number, the
            parameter ``rope_factors``.
        factor: For ``linear`` and ``llama3``.
        low_freq_factor: For ``llama3``.
        high_freq_factor: For ``llama3``.
        original_context: For ``llama3``: the context before it was stretched.
    """

    theta: float
    kind: Literal["default", "linear", "llama3", "factors"] = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder-only transformer with RMS norms, rotary positions and a gated MLP.

    Args:
        architecture: One of ``ARCHITECTURES``.
        num_layers: Decoder layers.
        hidden: Width of the residual stream.
        num_heads: Query heads.
        num_kv_heads: Key and value heads; divides ``num_heads``.
        head_dim: Width of a head.
        ffn: Inner width of the MLP.
        vocab_size: Rows of the embedding.
        max_context: Positions the model is made for.
        norm_eps: Of the RMS norms.
        rope: Rotary positions.
        tied_embeddings: The head is the embedding.
        qkv_bias: Query, key and value projections have biases.
        output_bias: The attention's output projection has one.
        qk_norm: Queries and keys are normed per head before rotation.
        windows: For each layer, so many last positions it sees, its token's own
            included; 0 is all. Empty: every layer sees all.
    """

    architecture: str
    num_layers: int
    hidden: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn: int
    vocab_size: int
    max_context: int
    norm_eps: float
    rope: RopeConfig
    tied_embeddings: bool
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    windows: tuple[int, ...] = ()

    def without_windows(self) -> "ModelConfig":
        """Cut the context to the narrowest window: there, windows change nothing."""
        narrowest = min(filter(None, self.windows), default=self.max_context)
        context = min(self.max_context, narrowest)
        return msgspec.structs.replace(self, max_context=context, windows=())

    def check(self, source: str) -> None:
        """Refuse numbers that no model can have.

        Raises:
            InvalidModel: Names the number and ``source``.
        """
        sizes = ("num_layers", "hidden", "num_heads", "num_kv_heads", "head_dim", "ffn")
        for name in (*sizes, "vocab_size", "max_context"):
            if getattr(self, name) <= 0:
                raise InvalidModel(f"{source}: {name} is {getattr(self, name)}")
        if self.windows and (
            len(self.windows) != self.num_layers or min(self.windows) < 0
        ):
            raise InvalidModel(
                f"{source}: sliding windows {self.windows} of {self.num_layers} layers"
            )
        if self.num_heads % self.num_kv_heads:
            raise InvalidModel(
                f"{source}: {self.num_heads} query heads cannot share "
                f"{self.num_kv_heads} key and value heads"
            )
        if self.head_dim % 2:
            raise InvalidModel(
                f"{source}: head_dim {self.head_dim} is odd, rotary positions need "
                "an even one"
            )


def check_architecture(name: str, source: str) -> None:
    """Refuse a family that is not known.

    Raises:
        InvalidModel: Names it, and those that are.
    """
    if name not in ARCHITECTURES:
        raise InvalidModel(
            f"{source}: architecture {name!r} is not supported; choose a model of "
            f"{', '.join(ARCHITECTURES)}"
        )
