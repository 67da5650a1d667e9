import pytest
import torch

from legato.gpu.model.projection import (
    DensePacking,
    DenseProjection,
    SlimProjection,
)


@pytest.mark.parametrize("kind", [DenseProjection, SlimProjection])
@pytest.mark.parametrize("rows", [1, 2, 16, 17])
@pytest.mark.parametrize("biased", [False, True])
def test_every_number_of_rows_is_projected(
    kind: type[DenseProjection], rows: int, biased: bool
) -> None:
    random = torch.Generator().manual_seed(rows)
    weight = torch.randn(40, 24, generator=random)
    bias = torch.randn(40, generator=random) if biased else None
    x = torch.randn(rows, 24, generator=random)
    residual = torch.randn(rows, 40, generator=random)
    want = torch.stack([weight @ row for row in x])
    want = want + bias if bias is not None else want
    projection = kind(weight, bias)
    assert projection.apply(x).is_contiguous()
    torch.testing.assert_close(projection.apply(x), want, atol=1e-4, rtol=1e-4)
    added = projection.add(x, residual)
    assert added.is_contiguous()
    torch.testing.assert_close(added, want + residual, atol=1e-4, rtol=1e-4)


def test_only_float32_on_a_cpu_is_slim() -> None:
    def kind(dtype: torch.dtype, device: str) -> type:
        packing = DensePacking(dtype, torch.device(device))
        return type(packing.pack(torch.zeros(2, 2), None))

    assert kind(torch.float32, "cpu") is SlimProjection
    assert kind(torch.bfloat16, "cpu") is DenseProjection
    assert kind(torch.float32, "cuda") is DenseProjection
