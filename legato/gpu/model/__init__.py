"""Decoder-only transformers: weights in memory, and the forward pass over them."""

from .decoder import Decoder, Forward
from .weights import DecoderWeights, LayerWeights, load_weights

__all__ = ["Decoder", "DecoderWeights", "Forward", "LayerWeights", "load_weights"]
