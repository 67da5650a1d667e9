"""Grammars' masks on logits: what may not come next is out of the question."""

from collections.abc import Sequence
from math import inf

import torch


def apply_masks(
    logits: torch.Tensor, rows: Sequence[int], masks: Sequence[bytes]
) -> None:
    """Forbid tokens, in place: one transfer, and one pass over the rows it is about.

    Args:
        logits: [rows, vocab] float32.
        rows: Which of them are bound.
        masks: For each of those, a bit for each token that may come, in 32-bit words.
            Tokens beyond its end may not.
    """
    device = logits.device
    joined = torch.frombuffer(bytearray(b"".join(masks)), dtype=torch.int32)
    words = joined.view(len(rows), -1, 1).to(device, non_blocking=True)
    bits = torch.arange(32, dtype=torch.int32, device=device)
    forbidden = ((words >> bits) & 1).view(len(rows), -1) == 0
    missing = logits.shape[1] - forbidden.shape[1]
    if missing > 0:
        forbidden = torch.nn.functional.pad(forbidden, (0, missing), value=True)
    forbidden = forbidden[:, : logits.shape[1]]
    if len(rows) == len(logits):
        logits.masked_fill_(forbidden, -inf)
        return
    some = torch.tensor(rows, device=device)
    logits.index_copy_(0, some, logits[some].masked_fill_(forbidden, -inf))
