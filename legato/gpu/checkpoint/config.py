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
        max_context: Positions the model is made for; a sliding window cuts it, since
            within the window full attention gives the same answers.
        norm_eps: Of the RMS norms.
        rope: Rotary positions.
        tied_embeddings: The head is the embedding.
        qkv_bias: Query, key and value projections have biases.
        output_bias: The attention's output projection has one.
        qk_norm: Queries and keys are normed per head before rotation.
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

    def check(self, source: str) -> None:
        """Refuse numbers that no model can have.

        Raises:
            InvalidModel: Names the number and ``source``.
        """
        sizes = ("num_layers", "hidden", "num_heads", "num_kv_heads", "head_dim", "ffn")
        for name in (*sizes, "vocab_size", "max_context"):
            if getattr(self, name) <= 0:
                raise InvalidModel(f"{source}: {name} is {getattr(self, name)}")
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
