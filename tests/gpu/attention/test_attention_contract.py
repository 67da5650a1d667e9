"""Every attention backend that runs here, against dense float32 attention."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.gpu.attention import CapturableAttention

from .candidates import CANDIDATES, Candidate, OnGpu
from .scene import LAYER, Rows, Scene, some_rows

every = pytest.mark.parametrize("candidate", CANDIDATES, ids=str)
cases = {
    "kv_heads": st.integers(1, 3),
    "group": st.integers(1, 4),
    "seed": st.integers(0, 1000),
    "window": st.sampled_from([0, 0, 1, 2, 5, 17, 64, 300]),
    "data": st.data(),
}


@pytest.mark.slow
@every
@settings(max_examples=25, deadline=None, derandomize=True)
@given(**cases)
def test_a_step_attends_as_dense_attention_does(
    candidate: Candidate,
    kv_heads: int,
    group: int,
    seed: int,
    window: int,
    data: st.DataObject,
) -> None:
    scene = Scene.make(
        data.draw(some_rows(candidate.longest)),
        kv_heads=kv_heads,
        group=group,
        head_dim=data.draw(st.sampled_from(candidate.head_dims)),
        page_size=data.draw(st.sampled_from(candidate.page_sizes)),
        window=window,
        dtype=data.draw(st.sampled_from(candidate.dtypes)),
        device=candidate.device,
        kv_dtype=candidate.kv_dtype,
        rounds_queries=candidate.rounds_queries,
        seed=seed,
    )
    scene.check(scene.attend(candidate.build(scene, (0, window))))


@pytest.mark.slow
@every
@settings(max_examples=15, deadline=None, derandomize=True)
@given(**cases)
def test_a_static_step_refilled_attends_as_a_fresh_one(
    candidate: Candidate,
    kv_heads: int,
    group: int,
    seed: int,
    window: int,
    data: st.DataObject,
) -> None:
    starts = st.lists(st.integers(0, candidate.longest), min_size=1, max_size=5)
    scene = Scene.make(
        [(start, 1) for start in data.draw(starts)],
        kv_heads=kv_heads,
        group=group,
        head_dim=data.draw(st.sampled_from(candidate.head_dims)),
        page_size=data.draw(st.sampled_from(candidate.page_sizes)),
        window=window,
        dtype=data.draw(st.sampled_from(candidate.dtypes)),
        device=candidate.device,
        kv_dtype=candidate.kv_dtype,
        rounds_queries=candidate.rounds_queries,
        seed=seed,
    )
    backend = candidate.build(scene, (0, window))
    if not isinstance(backend, CapturableAttention):
        return
    given, width = scene.tables.shape
    step = backend.reserve(5, width + 1, scene.spare_page)
    before = step.tensors.tables.data_ptr()
    for part in (slice(0, given), slice(0, 1), slice(0, given)):
        some = len(scene.q[part])
        q, k, v = (
            torch.cat([one[part], one[:1].expand(5 - some, -1, -1)])
            for one in (scene.q, scene.k, scene.v)
        )
        step.fill(scene.batch.starts[part], scene.tables[part])
        got = step.attend(LAYER, q, k, v)[:some]
        want, scene.want = scene.want, scene.want[part]
        scene.check(got)
        scene.want = want
    assert step.tensors.tables.data_ptr() == before


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["flash", "varlen"])
@pytest.mark.parametrize("window", [0, 5])
def test_a_captured_step_attends_to_the_rows_it_is_filled_with(
    name: str, window: int
) -> None:
    candidate = OnGpu(name)
    scene = Scene.make(
        [(0, 1), (700, 1), (31, 1), (255, 1)],
        head_dim=64,
        page_size=candidate.offer.page_size,
        window=window,
        dtype=torch.bfloat16,
        device=candidate.device,
        kv_dtype=candidate.kv_dtype,
        rounds_queries=candidate.rounds_queries,
    )
    backend = candidate.build(scene, (0, window))
    assert isinstance(backend, CapturableAttention)
    step = backend.reserve(4, 4, scene.spare_page)
    out = torch.empty_like(scene.q)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step.attend(LAYER, scene.q, scene.k, scene.v)
        with torch.cuda.graph(graph, stream=stream):
            out.copy_(step.attend(LAYER, scene.q, scene.k, scene.v))
    torch.cuda.current_stream().wait_stream(stream)
    step.fill(scene.batch.starts, scene.tables)
    graph.replay()
    scene.check(out)


@every
def test_a_static_step_refuses_what_does_not_fit(candidate: Candidate) -> None:
    scene = Scene.make(
        [(3, 1)],
        page_size=candidate.page_sizes[0],
        dtype=candidate.dtypes[0],
        head_dim=candidate.head_dims[0],
        device=candidate.device,
        kv_dtype=candidate.kv_dtype,
        rounds_queries=candidate.rounds_queries,
    )
    backend = candidate.build(scene, ())
    if not isinstance(backend, CapturableAttention):
        pytest.skip("it has no static steps")
    step = backend.reserve(2, 3, 0)
    for rows, pages in ((3, 3), (2, 4)):
        with pytest.raises(ValueError, match="do not fit 2 rows of 3 pages"):
            step.fill(np.zeros(rows, np.int64), np.zeros((rows, pages), np.int64))


@every
@pytest.mark.parametrize(
    "rows",
    [[(9, 1)], [(0, 1), (300, 1), (5, 1), (5, 2)], [(0, 12)], [(7, 1), (290, 20)]],
    ids=str,
)
def test_whatever_follows_a_rows_end_is_not_seen(
    candidate: Candidate, rows: Rows
) -> None:
    scene = Scene.make(
        rows,
        page_size=candidate.page_sizes[-1],
        dtype=candidate.dtypes[0],
        head_dim=candidate.head_dims[0],
        device=candidate.device,
        kv_dtype=candidate.kv_dtype,
        rounds_queries=candidate.rounds_queries,
    )
    scene.check(scene.attend(candidate.build(scene, ())))
