"""Captured steps: decodes by their number, sampling by its rows and its program.

A decode step is two graphs, the forward pass and the sampling. What lies between them
is where a grammar's mask is brought, and a step with prompts in it, whose forward pass
is not captured, samples through the same graphs.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from ...protocol.errors import InvalidSetting
from ..attention.backend import CapturableAttention
from ..attention.static import StaticStep
from ..memory import mib
from ..model import Decoder
from ..tables import Ints
from .device import Device, Graph, Stream, Work
from .inputs import Shape, StepInputs
from .program import PROGRAMS, Program
from .sampler import DeviceSampler


@dataclass(frozen=True)
class CapturedDecodes:
    """The forward pass of a decode step.

    Args:
        shape: As it is padded.
        attention: Its tensors, to be filled before each replay.
        graph: Leaves logits in the sampler.
    """

    shape: Shape
    attention: StaticStep
    graph: Graph

    def fill(self, stream: Stream, starts: Ints, tables: Ints) -> None:
        """Queue other rows for the next replay."""
        host = self.attention.lay_out(starts, tables)
        # Its memory is fresh, and kept by the work until it ran.
        stream.run(lambda: self.attention.tensors.replace(host))


@dataclass(frozen=True)
class Capture:
    """What one capture took.

    Args:
        what: Was captured.
        rows: Of it.
        graphs: How many.
        seconds: Warming up included.
        num_bytes: Of the device's memory.
    """

    what: str
    rows: int
    graphs: int
    seconds: float
    num_bytes: int


def decode_sizes(most: int) -> tuple[int, ...]:
    """Batches to capture: 1, 2, 4, then every eighth, and the largest."""
    return (*(n for n in (1, 2, 4, *range(8, most, 8)) if n < most), most)


def sampling_sizes(most: int) -> tuple[int, ...]:
    """Powers of two, and the largest: a padding row costs little here."""
    powers = (1 << n for n in range(most.bit_length()))
    return (*(n for n in powers if n < most), most)


def fitting(sizes: tuple[int, ...], count: int) -> int:
    """The smallest size that holds so many."""
    return sizes[bisect_left(sizes, count)]


class StepGraphs:
    """All captured steps; the largest first, whose memory the smaller ones reuse.

    Args:
        decoder: The model.
        sampler: Where logits go and tokens come from.
        inputs: What both read.
        most_rows: Of a step.
        device: What captures.
    """

    def __init__(
        self,
        decoder: Decoder,
        sampler: DeviceSampler,
        inputs: StepInputs,
        most_rows: int,
        device: Device,
    ) -> None:
        self._decoder = decoder
        self._sampler = sampler
        self._inputs = inputs
        self._device = device
        self._sizes = decode_sizes(most_rows)
        self._sampling_sizes = sampling_sizes(most_rows)
        self._decodes: dict[int, CapturedDecodes] = {}
        self._samplings: dict[tuple[int, Program], Graph] = {}
        self.captures: list[Capture] = []

    def shape_of(self, decodes: int) -> Shape:
        """How a step of decodes alone is padded."""
        size = fitting(self._sizes, decodes)
        return Shape(self.sampling_shape(size), size)

    def sampling_shape(self, rows: int) -> int:
        """How many rows so many are padded to."""
        return fitting(self._sampling_sizes, rows)

    def decodes(self, count: int) -> CapturedDecodes | None:
        """A forward pass for so many decodes, if there is one."""
        return self._decodes.get(fitting(self._sizes, count))

    def sampling(self, rows: int, program: Program) -> Work:
        """The sampling of so many padded rows."""
        graph = self._samplings.get((rows, program))
        if graph is not None:
            return graph.replay
        views = self._inputs.rows(rows)
        return lambda: self._sampler.sample(program, views)

    def capture(
        self, attention: CapturableAttention, most_pages: int, spare_page: int
    ) -> None:
        """Capture everything.

        Args:
            attention: Of the decoder.
            most_pages: Of a sequence.
            spare_page: Belongs to padding rows.

        Raises:
            InvalidSetting: The device has no room for it; with the numbers.
        """
        sampling = self._capture_sampling

        def decodes(rows: int) -> int:
            return self._capture_decodes(rows, attention, most_pages, spare_page)

        try:
            for rows in reversed(self._sampling_sizes):
                self._note("sampling", rows, lambda rows=rows: sampling(rows))
            for rows in reversed(self._sizes):
                self._note("decode", rows, lambda rows=rows: decodes(rows))
        except BaseException:
            # Graphs refer to their work, and so to the weights: let go of them now.
            self.clear()
            raise

    def table(self) -> Iterator[str]:
        """What was captured, line by line."""
        yield f"{'captured':<10}{'rows':>6}{'graphs':>8}{'ms':>9}{'MiB':>9}"
        for one in self.captures:
            yield (
                f"{one.what:<10}{one.rows:>6}{one.graphs:>8}"
                f"{one.seconds * 1e3:>9.1f}{one.num_bytes / 2**20:>9.1f}"
            )

    @property
    def report(self) -> str:
        """All of it in a few words."""
        if not self.captures:
            return "no graphs: the attention backend cannot be captured"
        count = sum(one.graphs for one in self.captures)
        seconds = sum(one.seconds for one in self.captures)
        taken = sum(one.num_bytes for one in self.captures)
        return f"{count} graphs {mib(taken)}, captured in {seconds:.1f} s"

    def clear(self) -> None:
        """Free them."""
        self._decodes.clear()
        self._samplings.clear()

    def _capture_sampling(self, rows: int) -> int:
        views = self._inputs.rows(rows)
        for program in reversed(PROGRAMS):
            graph = self._captured(
                Shape(rows, 0),
                lambda program=program: self._sampler.sample(program, views),
            )
            self._samplings[rows, program] = graph
        return len(PROGRAMS)

    def _capture_decodes(
        self, rows: int, attention: CapturableAttention, pages: int, spare_page: int
    ) -> int:
        shape = self.shape_of(rows)
        step = attention.reserve(rows, pages, spare_page)
        sources = self._inputs.sources(shape)
        places = torch.arange(rows, device=self._device.torch_device)

        def forward() -> None:
            ids = self._sampler.future[sources]
            logits = self._decoder.run(ids, step.tensors.positions, step, places)
            self._sampler.logits[:rows].copy_(logits)

        graph = self._captured(shape, forward)
        self._decodes[rows] = CapturedDecodes(shape, step, graph)
        return 1

    def _captured(self, shape: Shape, work: Work) -> Graph:
        # What it reads was made on torch's own stream, which no other waits for.
        self._device.settle()
        # With padding alone: nothing that a sequence has is touched.
        self._device.compute.run(lambda: self._inputs.pad(shape))
        # Once for what is made at first use: libraries' handles and workspaces.
        self._device.compute.run(work)
        return self._device.capture(work)

    def _note(self, what: str, rows: int, capture: Callable[[], int]) -> None:
        before, begun_s = self._device.free_bytes(), time.perf_counter()
        try:
            graphs = capture()
        except torch.OutOfMemoryError as error:
            taken = sum(one.num_bytes for one in self.captures)
            raise InvalidSetting(
                f"no memory to capture {what} steps of {rows} rows: {mib(before)} were "
                f"free, the graphs before took {mib(taken)}; lower kv_share or "
                "kv_bytes, or num_slots"
            ) from error
        seconds = time.perf_counter() - begun_s
        taken = max(before - self._device.free_bytes(), 0)
        self.captures.append(Capture(what, rows, graphs, seconds, taken))
