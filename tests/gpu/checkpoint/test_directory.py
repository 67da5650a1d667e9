import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.protocol.errors import InvalidModel

Parameters = dict[str, torch.Tensor]


@pytest.fixture
def folder(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_directory: Callable[..., Path],
) -> Path:
    return write_directory(tmp_path / "tiny", tiny_config, random_parameters())


def refusal(folder: Path) -> str:
    with pytest.raises(InvalidModel) as caught:
        _ = open_checkpoint(str(folder)).text
    assert "\n" not in str(caught.value)
    return str(caught.value)


def edit(path: Path, **changes: Any) -> None:
    known = json.loads(path.read_text()) if path.exists() else {}
    known |= changes
    path.write_text(json.dumps({k: v for k, v in known.items() if v is not ...}))


def test_a_sharded_model_is_read_whole(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_directory: Callable[..., Path],
) -> None:
    parameters = random_parameters()
    path = write_directory(tmp_path / "m", tiny_config, parameters, shards=3)
    checkpoint = open_checkpoint(str(path))
    assert checkpoint.name == "m"
    assert checkpoint.config == tiny_config
    for name, want in parameters.items():
        assert checkpoint.parameter(name).equal(want)
    checkpoint.close()
    checkpoint.close()


def test_a_missing_shard_is_named(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_directory: Callable[..., Path],
) -> None:
    path = write_directory(tmp_path / "m", tiny_config, random_parameters(), shards=3)
    (path / "model-1.safetensors").unlink()
    assert "model-1.safetensors is missing" in refusal(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_safetensors_cut_short_are_one_clear_line(folder: Path, share: float) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert "download it again" in refusal(folder)


def test_no_safetensors_at_all(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "0 safetensors files" in refusal(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_missing_or_malformed_json_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_text("{not json")
    assert f"{name} is malformed" in refusal(folder)
    (folder / name).unlink()
    assert f"{name} is missing" in refusal(folder)


def test_a_missing_or_mistyped_field_is_named(folder: Path) -> None:
    edit(folder / "config.json", hidden_size="wide")
    assert "hidden_size" in refusal(folder)
    edit(folder / "config.json", hidden_size=...)
    assert "hidden_size" in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "mamba"}, "'mamba' is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"quantization_config": {"quant_method": "awq"}}, "awq"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "'yarn'"),
        ({"num_key_value_heads": 3}, "4 query heads cannot share 3"),
        ({"head_dim": 15}, "odd"),
        ({"num_hidden_layers": 0}, "num_layers is 0"),
        ({"num_hidden_layers": 3}, "is missing"),
        ({"intermediate_size": 100}, "has shape"),
        ({"attention_bias": True}, "bias"),
    ],
)
def test_what_cannot_work_is_refused_by_name(
    folder: Path, changes: dict[str, Any], told: str
) -> None:
    edit(folder / "config.json", **changes)
    assert told in refusal(folder)


def test_integer_weights_are_refused(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_directory: Callable[..., Path],
) -> None:
    parameters = random_parameters()
    parameters["model.norm.weight"] = torch.zeros(64, dtype=torch.int32)
    assert "I32" in refusal(write_directory(tmp_path / "m", tiny_config, parameters))


def windows(folder: Path, **changes: Any) -> tuple[int, ...]:
    edit(folder / "config.json", **changes)
    return open_checkpoint(str(folder)).config.windows


def test_a_sliding_window_is_every_layers_where_it_is_used(folder: Path) -> None:
    assert windows(folder, sliding_window=128) == (128, 128)
    assert windows(folder, use_sliding_window=False) == ()
    assert open_checkpoint(str(folder)).config.max_context == 256


def test_some_layers_have_a_sliding_window(folder: Path) -> None:
    assert windows(folder, sliding_window=64, max_window_layers=1) == (0, 64)
    types = ["sliding_attention", "full_attention"]
    assert windows(folder, layer_types=types) == (64, 0)
    assert windows(folder, layer_types=["full_attention"] * 2) == ()
    with pytest.raises(InvalidModel, match="chunked_attention are not supported"):
        windows(folder, layer_types=["chunked_attention", "full_attention"])
    with pytest.raises(InvalidModel, match="sliding windows"):
        windows(folder, layer_types=["sliding_attention"])


def test_qwen_uses_its_window_only_where_it_says_so(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_directory: Callable[..., Path],
) -> None:
    config = msgspec.structs.replace(tiny_config, architecture="qwen2", qkv_bias=True)
    folder = write_directory(tmp_path / "qwen", config, random_parameters(config))
    assert windows(folder, sliding_window=64) == ()
    assert windows(folder, use_sliding_window=True) == ()  # its first 28 see all
    assert windows(folder, max_window_layers=1) == (0, 64)
    assert windows(folder, use_sliding_window=False) == ()


def test_without_its_windows_a_model_has_a_shorter_context(
    tiny_config: ModelConfig,
) -> None:
    windowed = msgspec.structs.replace(tiny_config, windows=(0, 100))
    assert windowed.without_windows().max_context == 100
    assert windowed.without_windows().windows == ()
    assert tiny_config.without_windows() == tiny_config


def test_newer_rope_parameters_are_read(folder: Path) -> None:
    rope = {"rope_theta": 12345.0, "rope_type": "default"}
    edit(folder / "config.json", rope_theta=..., rope_parameters=rope)
    assert open_checkpoint(str(folder)).config.rope.theta == 12345.0


def test_ends_templates_and_defaults_come_from_every_file(folder: Path) -> None:
    edit(
        folder / "tokenizer_config.json",
        bos_token="<s>",
        eos_token={"content": "</s>", "lstrip": False},
        chat_template=[
            {"name": "tool_use", "template": "no"},
            {"name": "default", "template": "{{ a }}"},
        ],
    )
    edit(
        folder / "generation_config.json",
        eos_token_id=[7, 9],
        do_sample=True,
        temperature=0.6,
        top_k=20,
    )
    text = open_checkpoint(str(folder)).text
    assert text.vocabulary.kind == "json"
    assert Path(text.vocabulary.json_path) == folder / "tokenizer.json"
    assert (text.vocabulary.bos_id, text.vocabulary.eos_id) == (0, 1)
    assert (text.bos_token, text.eos_token) == ("<s>", "</s>")
    assert text.stop_ids == (1, 7, 9)
    assert text.chat_template == "{{ a }}"
    assert text.defaults == {"temperature": 0.6, "top_k": 20.0}
    assert not text.vocabulary.add_bos
    (folder / "chat_template.jinja").write_text("{{ b }}")
    assert open_checkpoint(str(folder)).text.chat_template == "{{ b }}"


def test_a_begin_token_put_by_the_tokenizers_processor_is_seen(folder: Path) -> None:
    edit(folder / "tokenizer_config.json", bos_token="<s>")
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}]
    template = {"type": "TemplateProcessing", "single": single}
    processor = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]}
    edit(folder / "tokenizer.json", post_processor=processor)
    assert open_checkpoint(str(folder)).text.vocabulary.add_bos
