"""Queued work on a device that has no numbers: whoever asks for one is found out.

Tensors of torch's ``meta`` device have shapes alone. What would make the host wait for
a GPU fails there, and what mixes host memory into the device's work shows.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from legato.gpu import limits
from legato.gpu.attention import choice
from legato.gpu.attention.kernel import CapturableKernel
from legato.gpu.attention.offer import Offer
from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.gpu.cuda import build_stream_runner
from legato.gpu.cuda.device import Work
from legato.gpu.cuda.host_device import HostMark
from legato.gpu.cuda.program import PROGRAMS
from legato.gpu.precision import hold
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.steps import RowSampling, SlotOpen, StepPlan, StepRow

PROMPT = tuple(range(2, 22))


class Watch(TorchDispatchMode):
    """Refuses host memory among the device's.

    Args:
        uploads: Whether copies that do not wait may bring some.
    """

    def __init__(self, uploads: bool) -> None:
        super().__init__()
        self.uploads = uploads

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to turn it off

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        leaves = pytree.tree_leaves((args, kwargs, results))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        kinds = {one.device.type for one in tensors}
        if len(kinds) > 1:
            copies = str(func) in ("aten._to_copy.default", "aten.copy_.default")
            flags = (kwargs.get("non_blocking"), *args)
            waits = not any(one is True for one in flags)
            if waits or not (copies and self.uploads):
                raise RuntimeError(f"{func} reads host memory")
        return results


class ShapesDevice:
    """A device whose tensors are shapes; its captures allow no uploads at all."""

    torch_device = torch.device("meta")

    def __init__(self) -> None:
        self.compute = self.readback = self
        self.captured = 0

    # Not in inference mode, which hides what operators are made of.

    def run(self, work: Work) -> None:
        with torch.no_grad(), Watch(uploads=True):
            work()

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Its numbers are nobody's business."""

    def mark(self) -> HostMark:
        return HostMark()

    def follow(self, mark: HostMark) -> None:
        pass

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    def capture(self, work: Work) -> SimpleNamespace:
        self.captured += 1
        with torch.no_grad(), Watch(uploads=False):
            work()
        return SimpleNamespace(replay=lambda: None)

    def settle(self) -> None:
        pass

    def peak_bytes(self, work: Work) -> int:
        self.settle()
        return 0

    def free_bytes(self) -> int:
        return 1 << 30

    def release(self) -> None:
        pass

    def phase(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.fixture(params=["auto", "fp8"])
def build(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_gguf: Callable[..., Path],
) -> Callable[[ShapesDevice], ModelRunner]:
    """Make a runner whose attention is a kernel that returns a shape."""

    def kernel(cache: Any, num_heads: int, windows: Any = ()) -> CapturableKernel:
        return CapturableKernel(
            cache, windows, lambda q, *_: torch.empty_like(q), splits=True
        )

    offer = Offer("a kernel", kernel, reads_fp8=True)
    monkeypatch.setitem(choice.ATTENTION_BACKENDS, "kernel", lambda device: (offer,))
    monkeypatch.setitem(limits.DECODE_WEIGHT, "meta", 0.0)
    path = write_gguf(tmp_path / "tiny.gguf", tiny_config, random_parameters())

    def make(device: ShapesDevice) -> ModelRunner:
        settings = RunnerSettings(
            device="cpu",  # that it is another, only the runner is told
            dtype="float32",
            kv_dtype=request.param,
            attention="kernel",
            page_size=16,
            num_slots=2,
            max_step_tokens=32,
            kv_share=0.5,
        )
        checkpoint = open_checkpoint(str(path))
        held = hold(checkpoint, settings, device.torch_device, None)
        return build_stream_runner(checkpoint.config, held, settings, device)

    return make


@pytest.mark.slow
def test_captured_work_reads_nothing_of_the_hosts(
    build: Callable[[ShapesDevice], ModelRunner],
) -> None:
    device = ShapesDevice()
    build(device)
    assert device.captured == 2 * len(PROGRAMS) + 2


@pytest.mark.slow
def test_a_step_as_it_comes_is_queued_without_waiting(
    build: Callable[[ShapesDevice], ModelRunner],
) -> None:
    """A prompt whose tokens are scored, a decode beside it, a copied page."""
    runner = build(ShapesDevice())
    wants = RowSampling(0.7, top_k=5, logprobs=2, prompt_logprobs=1)
    opens = (SlotOpen(0, wants, 20, (0, 1), PROMPT), SlotOpen(1, wants, 1, (2,), (5,)))
    row = StepRow(0, 0, PROMPT, True, targets=PROMPT[1:])
    first = StepPlan(0, (StepRow(1, 0, (5,), True),), opens)
    runner.launch(first)
    runner.launch(StepPlan(1, (row,), (), ((0, 3),), (1,)))
    runner.launch(StepPlan(2, (), (), (), (0, 1)))


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(),
        lambda x: x + torch.ones(3),
        lambda x: torch.ones(3).to(x.device),
    ],
    ids=["item", "host memory", "blocking"],
)
def test_what_would_wait_is_found_out(work: Callable[[torch.Tensor], Any]) -> None:
    x = torch.ones(3, device="meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        ShapesDevice().run(lambda: (work(x), None)[1])
