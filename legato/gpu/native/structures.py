"""The structures that kernels take, as in kernels/*.h; field for field."""

import ctypes

Address = ctypes.c_void_p
Int = ctypes.c_int64


class Weights(ctypes.Structure):
    """A packed matrix."""

    _fields_ = (
        *((name, Address) for name in ("blocks", "bias")),
        *((name, Int) for name in ("outs", "ins", "nibbles", "coarse")),
    )


class Cache(ctypes.Structure):
    """One layer of a cache."""

    _fields_ = (
        *((name, Address) for name in ("keys", "values")),
        *((name, Int) for name in ("page_size", "kv_heads", "head_dim", "halves")),
    )


class Batch(ctypes.Structure):
    """The rows of a step."""

    _fields_ = (
        *((name, Address) for name in ("starts", "counts", "firsts", "tables")),
        *((name, Int) for name in ("rows", "table_width")),
    )


class Embedding(ctypes.Structure):
    """A vector for each token: rows of packed weights, or of a table."""

    _fields_ = (
        ("packed", ctypes.POINTER(Weights)),
        ("table", Address),
        *((name, Int) for name in ("hidden", "kind")),
    )


class Layer(ctypes.Structure):
    """One decoder layer."""

    _fields_ = (
        ("input_norm", Address),
        ("qkv", Weights),
        ("qk_norm", Address),
        ("output", Weights),
        ("mlp_norm", Address),
        ("gate_up", Weights),
        ("down", Weights),
    )


class Model(ctypes.Structure):
    """A whole model and its cache."""

    _fields_ = (
        *((name, Int) for name in ("num_layers", "hidden", "heads", "ffn")),
        ("layers", ctypes.POINTER(Layer)),
        ("final_norm", Address),
        ("head", Weights),
        ("cos", Address),
        ("sin", Address),
        ("cache", Cache),
        ("cells", Int),
        ("eps", ctypes.c_float),
        ("embedding", Embedding),
    )


class Step(ctypes.Structure):
    """One step: its rows, tokens and results."""

    _fields_ = (
        ("batch", Batch),
        *((name, Int) for name in ("tokens", "samples", "whole")),
        *(
            (name, Address)
            for name in ("positions", "cells", "sampling", "x", "logits")
        ),
    )


class Slots(ctypes.Structure):
    """What the device keeps for each slot."""

    _fields_ = (
        ("pages", Address),
        ("most_pages", Int),
        *((name, Address) for name in ("ends", "room", "prompts", "future")),
    )


class Wish(ctypes.Structure):
    """What a row wants of its draw."""

    _fields_ = (
        *((name, ctypes.c_float) for name in ("temperature", "top_p", "min_p")),
        *((name, Int) for name in ("top_k", "seed")),
    )


class Decodes(ctypes.Structure):
    """A step of nothing but decodes."""

    _fields_ = (
        ("slots", Slots),
        ("rows", Address),
        ("wishes", ctypes.POINTER(Wish)),
        ("count", Int),
        *((name, Address) for name in ("tokens", "peaks")),
    )
