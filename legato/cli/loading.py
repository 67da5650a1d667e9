"""Loading an engine, and what a person sees meanwhile: a bar on a terminal."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..engine import Engine
from .garbage import uncollected


class LoadingBar:
    """A progress bar on standard error, gone once loading is done.

    Args:
        model: The name to show.
    """

    def __init__(self, model: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._model = model
        self._task = self._progress.add_task(f"loading {model}", total=1.0)

    def __enter__(self) -> "LoadingBar":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away. Idempotent."""
        self._progress.stop()

    def show(self, fraction: float, what: str) -> None:
        """Move the bar; may be called from any thread."""
        self._progress.update(
            self._task,
            completed=fraction,
            description=f"loading {self._model}: {what}",
        )


def make_engine(options: dict[str, Any], bar: LoadingBar) -> Engine:
    """Build the engine that a command's options describe."""
    settings = dict(options)
    model = settings.pop("model")
    settings["kv_bytes"] = settings.pop("kv_mib") * 2**20
    return Engine(model, progress=bar.show, **settings)


@asynccontextmanager
async def loaded(options: dict[str, Any]) -> AsyncGenerator[Engine]:
    """Run the engine that a command's options describe, with a bar while it loads."""
    with uncollected(), LoadingBar(options["model"]) as bar:
        engine = make_engine(options, bar)
        await engine.__aenter__()
    try:
        yield engine
    finally:
        await engine.__aexit__(None, None, None)
