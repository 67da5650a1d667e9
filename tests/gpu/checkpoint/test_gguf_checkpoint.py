from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from msgspec.structs import replace

from legato.gpu.checkpoint import Checkpoint, ModelConfig, open_checkpoint
from legato.protocol.errors import InvalidModel

Kind = gguf.GGMLQuantizationType
Parameters = dict[str, torch.Tensor]
DOWN = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture
def wide(tiny_config: ModelConfig) -> ModelConfig:
    """Every matrix's rows are whole blocks of 256."""
    return replace(tiny_config, num_layers=2, hidden=256, head_dim=64, ffn=256)


def parameters_of(checkpoint: Checkpoint, names: list[str]) -> Parameters:
    return {name: checkpoint.parameter(name) for name in names}


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [
        (Kind.F32, 0.0),
        (Kind.F16, 1e-3),
        (Kind.BF16, 1e-2),
        (Kind.Q8_0, 1e-2),
        (Kind.Q4_0, 0.2),
        (Kind.Q4_1, 0.2),
    ],
)
def test_quantized_parameters_come_back_near(
    kind: Kind,
    tolerance: float,
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_gguf: Callable[..., Path],
) -> None:
    parameters = random_parameters(tiny_config)
    path = write_gguf(tmp_path / "m.gguf", tiny_config, parameters, kind=kind)
    checkpoint = open_checkpoint(str(path))
    for name, want in parameters.items():
        got = checkpoint.parameter(name).float()
        assert (got - want).abs().max() <= tolerance * want.abs().max(), name
    checkpoint.close()


def q4_k(block: bytes) -> list[float]:
    """Dequantize 256 numbers, bit by bit as the format's definition says."""
    d, dmin = np.frombuffer(block[:4], np.float16).astype(float)
    scales, quants, out = block[4:16], block[16:], []
    for part in range(8):
        if part < 4:
            scale, low = scales[part] & 63, scales[part + 4] & 63
        else:
            high = scales[part + 4]
            scale = (high & 15) | (scales[part - 4] >> 6 << 4)
            low = (high >> 4) | (scales[part] >> 6 << 4)
        for index in range(32):
            pair = quants[part // 2 * 32 + index]
            out.append(d * scale * (pair >> 4 if part % 2 else pair & 15) - dmin * low)
    return out


def q6_k(block: bytes) -> list[float]:
    lows, highs = block[:128], block[128:192]
    scales = np.frombuffer(block[192:208], np.int8)
    d = float(np.frombuffer(block[208:], np.float16)[0])
    out = []
    for index in range(256):
        half, rest = divmod(index, 128)
        quarter, place = divmod(rest, 32)
        low = lows[half * 64 + place + 32 * (quarter % 2)]
        low = low >> 4 if quarter > 1 else low & 15
        high = highs[half * 32 + place] >> (2 * quarter) & 3
        out.append(d * int(scales[index // 16]) * ((low | high << 4) - 32))
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size", "halves", "exact"),
    [(Kind.Q4_K, 144, (0, 2), q4_k), (Kind.Q6_K, 210, (208,), q6_k)],
)
def test_k_blocks_are_read_as_their_definition_says(
    kind: Kind,
    size: int,
    halves: tuple[int, ...],
    exact: Callable[[bytes], list[float]],
    tmp_path: Path,
    wide: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_gguf: Callable[..., Path],
) -> None:
    parameters = random_parameters(wide)
    blocks = np.random.default_rng(0).integers(0, 256, (256, size)).astype(np.uint8)
    for offset in halves:
        scale = np.linspace(0.01, 0.1, 256).astype(np.float16)
        blocks[:, offset : offset + 2] = scale.view(np.uint8).reshape(-1, 2)
    vectors = {name: w for name, w in parameters.items() if w.ndim == 1 or name == DOWN}
    raw = {"blk.1.ffn_down.weight": blocks}
    path = write_gguf(tmp_path / "k.gguf", wide, vectors, kind=kind, raw=raw)
    rest = {name: w for name, w in parameters.items() if name not in vectors}
    merged = merge(path, write_gguf(tmp_path / "f.gguf", wide, rest), tmp_path)
    got = open_checkpoint(str(merged)).parameter(DOWN)
    want = torch.tensor([exact(block.tobytes()) for block in blocks])
    torch.testing.assert_close(got, want.float(), atol=1e-5, rtol=1e-5)


def merge(one: Path, other: Path, folder: Path) -> Path:
    """Put the tensors of two files into one, with the metadata of the first."""
    reader, extra = gguf.GGUFReader(one), gguf.GGUFReader(other)
    writer = gguf.GGUFWriter(folder / "merged.gguf", "llama")
    skip = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count")
    for name, field in reader.fields.items():
        if name not in (*skip, "general.architecture"):
            kind = field.types[0]
            sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=sub)
    for tensor in (*reader.tensors, *extra.tensors):
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder / "merged.gguf"


@pytest.fixture
def tiny_gguf(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_gguf: Callable[..., Path],
) -> Path:
    return write_gguf(tmp_path / "tiny.gguf", tiny_config, random_parameters())


def test_the_text_comes_from_the_metadata(tiny_gguf: Path) -> None:
    text = open_checkpoint(str(tiny_gguf)).text
    assert text.vocabulary.kind == "bpe"
    assert text.vocabulary.tokens[:3] == ("t0", "t1", "t2")
    assert text.vocabulary.types[:3] == (3, 3, 1)
    assert text.vocabulary.merges == ("t 1", "t 2")
    assert text.vocabulary.pre == "smollm"
    assert (text.bos_token, text.eos_token, text.stop_ids) == ("t0", "t1", (1,))
    assert text.chat_template == "{{ messages }}"


def test_an_unmapped_checkpoint_keeps_nothing_open(tiny_gguf: Path) -> None:
    checkpoint = open_checkpoint(str(tiny_gguf))
    kept = checkpoint.parameter(DOWN)
    checkpoint.close()
    checkpoint.close()
    assert kept.isfinite().all()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.05, 0.5, 0.99])
def test_a_file_cut_short_anywhere_is_one_clear_line(
    share: float, tiny_gguf: Path
) -> None:
    content = tiny_gguf.read_bytes()
    tiny_gguf.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InvalidModel) as caught:
        open_checkpoint(str(tiny_gguf))
    told = str(caught.value)
    assert "\n" not in told
    assert "download it again" in told or "not a GGUF file" in told


@pytest.mark.parametrize("position", range(4, 2000, 41))
def test_a_broken_byte_is_never_a_traceback_from_inside(
    position: int, tiny_gguf: Path
) -> None:
    content = bytearray(tiny_gguf.read_bytes())
    content[position] ^= 0xFF
    tiny_gguf.write_bytes(content)
    told = ""
    try:
        checkpoint = open_checkpoint(str(tiny_gguf))
        assert checkpoint.text.vocabulary.tokens
    except InvalidModel as error:
        told = str(error)
    assert "\n" not in told


def test_another_kind_of_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\x03\x04 not a model at all")
    with pytest.raises(InvalidModel, match="not a GGUF file"):
        open_checkpoint(str(path))


def refuse(
    path: Path, write_gguf: Callable[..., Path], told: str, *args: Any, **kw: Any
) -> None:
    write_gguf(path, *args, **kw)
    with pytest.raises(InvalidModel, match=told) as caught:
        open_checkpoint(str(path))
    assert "\n" not in str(caught.value)


def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_gguf: Callable[..., Path],
) -> None:
    path, good = tmp_path / "m.gguf", random_parameters()
    gemma = replace(tiny_config, architecture="gemma3")
    refuse(path, write_gguf, "'gemma3' is not supported", gemma, good)
    experts = {"llama.expert_count": 8}
    refuse(path, write_gguf, "experts", tiny_config, good, metadata=experts)
    yarn = {"llama.rope.scaling.type": "yarn"}
    refuse(path, write_gguf, "'yarn'", tiny_config, good, metadata=yarn)
    part = {"llama.rope.dimension_count": 8}
    refuse(path, write_gguf, "part of a head", tiny_config, good, metadata=part)


def test_missing_and_misshapen_parameters_are_named(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_gguf: Callable[..., Path],
) -> None:
    path, parameters = tmp_path / "m.gguf", random_parameters()
    down = parameters.pop(DOWN)
    refuse(path, write_gguf, f"{DOWN} is missing", tiny_config, parameters)
    parameters[DOWN] = down[:, :32]
    refuse(path, write_gguf, "has shape", tiny_config, parameters)


def test_a_type_that_is_not_supported_is_named(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_gguf: Callable[..., Path],
) -> None:
    raw = {"blk.1.ffn_down.weight": np.zeros((64, 96), np.int8)}
    kw = {"raw": raw, "kind": Kind.I8}
    vectors = {n: w for n, w in random_parameters().items() if w.ndim == 1}
    full = random_parameters()
    matrices = {n: w for n, w in full.items() if n not in vectors and n != DOWN}
    one = write_gguf(
        tmp_path / "a.gguf", tiny_config, vectors | {DOWN: full[DOWN]}, **kw
    )
    other = write_gguf(tmp_path / "b.gguf", tiny_config, matrices)
    with pytest.raises(InvalidModel, match=r"blk\.1\.ffn_down\.weight .*not supported"):
        open_checkpoint(str(merge(one, other, tmp_path)))


def test_a_sliding_window_is_every_layers(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_gguf: Callable[..., Path],
) -> None:
    window = {"llama.attention.sliding_window": 100}
    path = tmp_path / "m.gguf"
    write_gguf(path, tiny_config, random_parameters(), metadata=window)
    config = open_checkpoint(str(path)).config
    assert (config.windows, config.max_context) == ((100, 100), 256)
