"""The Python packages that steps are computed with, each tried in a child."""

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import msgspec

from ...protocol.errors import InvalidModel
from ..embedded import EMBEDDED_MODELS, embedded_path
from .finding import Finding
from .inquiry import NoAnswer, ask, ask_facts

# A cold disk takes its time to read torch.
TORCH_S = 90.0
NEEDED = ("gguf", "jinja2", "llguidance", "numpy", "safetensors", "tokenizers")
FLASH = {
    "flash-attn 2": ("flash_attn", "flash-attn"),
    "flash-attn 3": ("flash_attn_interface", "flash-attn-3"),
}


def find_torch() -> Finding:
    """Import torch in a child, and ask it for its devices.

    Raises:
        NoAnswer: It cannot be imported, crashes, or hangs.
    """
    if find_spec("torch") is None:
        return Finding(name="torch", state="missing", text="not installed")
    try:
        said = ask_facts(f"{__package__}.torch_facts", TORCH_S)
        facts = msgspec.json.decode(said, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise NoAnswer(str(error)) from error
    cuda = f"built for CUDA {facts['cuda']}" if facts["cuda"] else "built without CUDA"
    faults = "".join(f"; {name}: {why}" for name, why in facts["faults"].items())
    gpus = len(facts["gpus"])
    seen = f", {gpus} GPU{'s' * (gpus > 1)}" if gpus else ""
    text = f"{facts['version']}, {cuda}{seen}, {facts['threads']} threads{faults}"
    return Finding(name="torch", state="ok", text=text, facts=facts)


def find_flash(name: str) -> Finding:
    """Import a generation of FlashAttention in a child.

    Raises:
        NoAnswer: It is installed and cannot be imported.
    """
    module, package = FLASH[name]
    if find_spec(module) is None:
        return Finding(name=name, state="missing", text="not installed")
    ask([sys.executable, "-W", "ignore", "-c", f"import {module}"], TORCH_S)
    try:
        found = version(package)
    except PackageNotFoundError:
        found = "of an unknown version"
    return Finding(name=name, state="ok", text=found, facts={"version": found})


def find_packages() -> Finding:
    """Look whether the other packages are installed, without importing them."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        text = f"not installed: {', '.join(absent)}"
        return Finding(
            name="packages", state="missing", text=text, facts={"missing": absent}
        )
    return Finding(name="packages", state="ok", text=", ".join(NEEDED))


def find_model() -> Finding:
    """Look for the embedded model."""
    name = next(iter(EMBEDDED_MODELS))
    try:
        path = str(embedded_path(name))
    except InvalidModel as error:
        return Finding(name="model", state="missing", text=str(error))
    return Finding(
        name="model", state="ok", text=f"{name}: {path}", facts={"path": path}
    )
