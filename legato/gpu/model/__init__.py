"""Decoder-only transformers: weights in memory, and the forward pass over them."""

from .decoder import Decoder
from .weights import DecoderWeights, LayerWeights, load_weights

__all__ = ["Decoder", "DecoderWeights", "LayerWeights", "load_weights"]
