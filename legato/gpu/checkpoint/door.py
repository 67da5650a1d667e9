"""Opens a checkpoint by what the user called it."""

from pathlib import Path

from ...protocol.errors import InvalidModel
from ..embedded import EMBEDDED_MODELS, check_named, embedded_path
from .checkpoint import Checkpoint
from .directory import DirectoryCheckpoint
from .gguf_checkpoint import GgufCheckpoint


def open_checkpoint(model: str) -> Checkpoint:
    """Open an embedded model, a ``.gguf`` file or a directory of safetensors.

    Raises:
        InvalidModel: There is none, or it is broken or not supported; one line that
            says what to do.
    """
    if model in EMBEDDED_MODELS:
        return GgufCheckpoint(
            embedded_path(model), name=model, defaults=EMBEDDED_MODELS[model].defaults
        )
    check_named(model)
    path = Path(model).expanduser()
    try:
        if path.is_dir():
            return DirectoryCheckpoint(path)
        if path.is_file():
            return GgufCheckpoint(path, name=path.stem)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidModel(f"{model}: cannot be read: {reason}") from error
    raise InvalidModel(f"{model}: neither a file nor a directory")
