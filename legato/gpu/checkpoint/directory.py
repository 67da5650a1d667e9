"""A checkpoint in a directory: ``config.json``, tokenizer and safetensors."""

from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, cast

import msgspec
import torch
from safetensors import SafetensorError, safe_open

from ...protocol.errors import InvalidModel
from ...protocol.models import TextSource
from .directory_config import ConfigJson, directory_config, read_json
from .directory_text import directory_text
from .parameters import HEAD, check_parameters
from .part import Part

INDEX = "model.safetensors.index.json"
FLOATS = ("F64", "F32", "F16", "BF16")


class TensorView(Protocol):
    """What the safetensors package hands out, which has no types of its own."""

    def get_shape(self) -> list[int]: ...  # noqa: D102
    def get_dtype(self) -> str: ...  # noqa: D102
    def __getitem__(self, index: tuple[slice, ...]) -> torch.Tensor: ...


class TensorFile(Protocol):
    """An open safetensors file."""

    def keys(self) -> list[str]: ...  # noqa: D102
    def get_slice(self, name: str) -> TensorView: ...  # noqa: D102
    def get_tensor(self, name: str) -> torch.Tensor: ...  # noqa: D102


class IndexJson(msgspec.Struct, frozen=True):
    """Which file of a sharded model holds which parameter."""

    weight_map: dict[str, str]


class DirectoryCheckpoint:
    """An open model directory.

    Args:
        path: The directory.

    Raises:
        InvalidModel: Broken, incomplete or not supported.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.resolve().name
        self.path = path
        self._json = read_json(path / "config.json", ConfigJson)
        self._text: TextSource | None = None
        self._files = ExitStack()
        self._shards: dict[str, TensorFile] = {}
        shapes: dict[str, tuple[int, ...]] = {}
        try:
            for shard in _shard_names(path):
                shapes |= self._open_shard(shard)
            source = str(path / "config.json")
            self.config = directory_config(self._json, source, has_head=HEAD in shapes)
            check_parameters(self.config, shapes, str(path))
        except InvalidModel:
            self.close()
            raise

    @property
    def text(self) -> TextSource:
        """Vocabulary, template, ends; read once."""
        if self._text is None:
            self._text = directory_text(self.path, self._json)
        return self._text

    def parameter(self, name: str, part: Part | None = None) -> torch.Tensor:
        """Read one parameter, in its stored type; of a part, only the part.

        Raises:
            InvalidModel: The file changed or broke since it was opened.
        """
        try:
            if part is not None:
                return self._shards[name].get_slice(name)[part.slices]
            return self._shards[name].get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise InvalidModel(
                f"{self.path}: {name} cannot be read: {error}"
            ) from error

    def blocks(self, name: str) -> None:
        """There are none: safetensors hold floats."""

    def close(self) -> None:
        """Unmap the files. May be called again."""
        self._shards.clear()
        self._files.close()

    def _open_shard(self, shard: str) -> dict[str, tuple[int, ...]]:
        path = self.path / shard
        try:
            opened = safe_open(path, framework="pt")
            file = cast(TensorFile, self._files.enter_context(opened))
        except FileNotFoundError as error:
            raise InvalidModel(
                f"{path} is missing; download the model again"
            ) from error
        except (SafetensorError, OSError) as error:
            raise InvalidModel(
                f"{path}: broken or cut short ({error}); download it again"
            ) from error
        shapes: dict[str, tuple[int, ...]] = {}
        for name in file.keys():  # noqa: SIM118 (not a mapping)
            view = file.get_slice(name)
            if view.get_dtype() not in FLOATS and not name.endswith("inv_freq"):
                raise InvalidModel(
                    f"{path}: {name} has type {view.get_dtype()}, which is not "
                    f"supported; use one of {', '.join(FLOATS)}"
                )
            shapes[name] = tuple(view.get_shape())
            self._shards[name] = file
        return shapes


def _shard_names(path: Path) -> list[str]:
    if (path / INDEX).exists():
        index = read_json(path / INDEX, IndexJson)
        return sorted(set(index.weight_map.values()))
    names = sorted(found.name for found in path.glob("*.safetensors"))
    if "model.safetensors" in names:
        return ["model.safetensors"]
    if len(names) == 1:
        return names
    raise InvalidModel(
        f"{path} holds {len(names)} safetensors files and no {INDEX}; download the "
        "whole model"
    )
