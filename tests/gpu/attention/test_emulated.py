"""The stand-ins for kernels refuse what the kernels refuse, or read past."""

from typing import Any

import pytest
import torch

from .emulated import Varlen, flash_2_varlen, flash_2_with_kvcache
from .emulated_flash_3 import flash_3_with_kvcache

BF16 = torch.bfloat16


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def arguments(page_size: int = 256) -> dict[str, Any]:
    """Two rows, of 2 and 1 tokens, over 3 pages."""
    random = torch.Generator().manual_seed(0)
    pool = torch.randn(2, 3, page_size, 2, 16, generator=random).to(BF16)
    return {
        "q": torch.randn(3, 4, 16, generator=random).to(BF16),
        "k": pool[0],
        "v": pool[1],
        "cu_q": ints(0, 2, 3),
        "cu_k": ints(0, page_size + 1, page_size + 4),
        "lengths": ints(page_size + 1, 3),
        "tables": torch.tensor([[2, 0], [1, 7]], dtype=torch.int32),
        "max_q": 2,
        "max_k": page_size + 1,
    }


def call_flash_2(**a: Any) -> torch.Tensor:
    return flash_2_varlen(
        *(a["q"], a["k"], a["v"], a["cu_q"], a["cu_k"], a["max_q"], a["max_k"]),
        causal=True,
        block_table=a["tables"],
    )


def call_flash_3(**a: Any) -> torch.Tensor:
    return flash_3_with_kvcache(
        *(a["q"], a["k"], a["v"]),
        cache_seqlens=a["lengths"],
        page_table=a["tables"],
        cu_seqlens_q=a["cu_q"],
        max_seqlen_q=a["max_q"],
        causal=True,
    )


def call_varlen(**a: Any) -> torch.Tensor:
    return Varlen("FA2")(
        *(a["q"], a["k"], a["v"], a["cu_q"], a["cu_k"], a["max_q"], a["max_k"]),
        window_size=(-1, 0),
        enable_gqa=True,
        seqused_k=a["lengths"],
        block_table=a["tables"],
    )


CALLS = {"flash 2": call_flash_2, "flash 3": call_flash_3, "varlen": call_varlen}
every = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def test_all_of_them_agree() -> None:
    outs = [call(**arguments()) for call in CALLS.values()]
    for out in outs[1:]:
        assert torch.equal(out, outs[0])
    a = arguments()
    one = flash_2_with_kvcache(
        *(a["q"][2:].unsqueeze(1), a["k"], a["v"]),
        cache_seqlens=a["lengths"][1:],
        block_table=a["tables"][1:],
        causal=True,
    )
    assert torch.equal(one[0], outs[0][2:])


def test_a_row_sees_nothing_to_the_right_of_its_lower_right_corner() -> None:
    a = arguments()
    before = call_flash_2(**a)
    a["v"][0, 0] += 1  # the last position of the first row
    after = call_flash_2(**a)
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])
    assert torch.equal(before[2], after[2])


@every
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"q": torch.zeros(3, 4, 16)}, "only fp16 and bf16"),
        ({"q": torch.zeros(3, 4, 16, dtype=torch.float16)}, "one dtype"),
        ({"q": torch.zeros(3, 16, 4, dtype=BF16).mT}, "last dimension contiguous"),
        ({"q": torch.zeros(3, 5, 16, dtype=BF16)}, "multiple of key heads"),
        ({"cu_q": torch.tensor([0, 2, 3])}, "int32"),
        ({"cu_q": ints(0, 9, 2, 9, 3, 9)[::2]}, "contiguous"),
        ({"cu_q": ints(1, 2, 3)}, "from 0"),
        ({"cu_q": ints(0, 2, 4)}, "to the total"),
        ({"max_q": 1}, "within the maximum"),
        ({"tables": torch.tensor([[2, 0], [1, 7]])}, "block table int32"),
        ({"tables": ints(2, 1).view(2, 1)}, "wide enough"),
        ({"tables": ints(2, 3, 1, 0).view(2, 2)}, "pages of the pool"),
        ({"tables": ints(2, 0).view(1, 2)}, "a block table for each row"),
    ],
    ids=lambda told: told if isinstance(told, str) else "",
)
def test_what_a_kernel_refuses_is_refused(
    call: Any, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(RuntimeError, match=told):
        call(**(arguments() | changes))


def test_flash_2_takes_pages_of_256_alone() -> None:
    for call in (call_flash_2, call_varlen):
        with pytest.raises(RuntimeError, match="multiple of 256"):
            call(**arguments(128))
    assert call_flash_3(**arguments(128)).isfinite().all()


def test_lengths_must_be_within_what_was_said() -> None:
    a = arguments() | {"max_k": 200}
    for call in (call_flash_2, call_varlen):
        with pytest.raises(RuntimeError, match="lengths within the maximum"):
            call(**a)


def test_sums_of_lengths_are_torchs_own_kernels_alone() -> None:
    a = arguments()
    wrong = a | {"cu_k": ints(0, 4, 8)}
    with pytest.raises(RuntimeError, match="sums of lengths"):
        call_varlen(**wrong)
    with pytest.raises(RuntimeError, match="for FA2 alone"):
        call_varlen(**(a | {"cu_k": None}))
