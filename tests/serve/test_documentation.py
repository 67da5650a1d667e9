"""docs/serving.md names what a user looks for."""

import asyncio
from pathlib import Path

import pytest

from legato import Engine, FakeModel
from legato.cli.serve import serve

TEXT = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()


@pytest.mark.parametrize("option", [p for p in serve.params if p.name != "help"])
def test_every_option_of_the_server_is_documented(option):
    names = (*option.opts, *option.secondary_opts)
    assert any(f"`{name}`" in TEXT or f"`{name} " in TEXT for name in names)


def test_every_metric_is_documented():
    async def main():
        async with Engine(FakeModel()) as engine:
            return engine.metrics_text().decode()

    lines = asyncio.run(main()).splitlines()
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) > 30
    silent = [n for n in names if f"`{n.removeprefix('legato_')}`" not in TEXT]
    assert silent == []
