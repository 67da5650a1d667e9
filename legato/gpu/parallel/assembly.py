"""Puts a model over several ranks together."""

from collections.abc import Callable
from pathlib import Path

import torch

from ...protocol.errors import InvalidSetting
from ..assembly import build_runner, choose_device
from ..checkpoint import Checkpoint
from ..model.weights import Progress
from ..runner import ModelRunner
from ..settings import RunnerSettings
from .crew import Crew
from .group import open_group
from .runner import ParallelRunner
from .shard import check_divides
from .words import RankOrder


def build_parallel(
    model: str,
    checkpoint: Checkpoint,
    settings: RunnerSettings,
    progress: Progress | None = None,
) -> ParallelRunner:
    """Start the other ranks, and build this one beside them.

    Args:
        model: What the user called the checkpoint, for the other ranks to open it.
        checkpoint: Open; it may be closed afterwards.
        settings: For every rank.
        progress: Of this rank's loading.

    Raises:
        InvalidSetting: The settings cannot work here; with the numbers.
        InvalidModel: A parameter cannot be read.
        EngineFailed: A rank died meanwhile.
    """
    size = settings.tensor_parallel
    check_divides(checkpoint.config, size)
    device = rank_device(settings.device, 0, size)
    crew = Crew(model, settings)
    group = None
    try:
        crew.wait_ready()
        group = open_group(crew.folder, 0, size, device)
        crew.on_failure = group.abort
        runner = build_runner(checkpoint, settings, progress=progress, group=group)
    except BaseException as error:
        cause = crew.blame(error) if isinstance(error, RuntimeError) else error
        crew.close()
        if group is not None:
            group.close()
        raise cause from None
    return ParallelRunner(runner, group, crew)


def build_rank(
    checkpoint: Checkpoint, order: RankOrder, *, before_meeting: Callable[[], None]
) -> ModelRunner:
    """Build a rank that does not lead.

    Raises:
        InvalidSetting: The settings cannot work here; with the numbers.
        InvalidModel: A parameter cannot be read.
        RuntimeError: Another rank died meanwhile.
    """
    settings, size = order.settings, order.settings.tensor_parallel
    device = rank_device(settings.device, order.rank, size)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    before_meeting()
    group = open_group(Path(order.folder), order.rank, size, device)
    return build_runner(checkpoint, settings, group=group)


def rank_device(name: str, rank: int, size: int) -> torch.device:
    """Choose a rank's device: a card of its own, or the one CPU that all share.

    Raises:
        InvalidSetting: There are not as many cards.
    """
    device = choose_device(name)
    if device.type == "cpu":
        return device
    cards = torch.cuda.device_count()
    if cards < size:
        raise InvalidSetting(
            f"tensor_parallel is {size}, but torch sees {cards} CUDA device"
            f"{'s' * (cards > 1)}; choose at most that, or device cpu"
        )
    return torch.device("cuda", rank)
