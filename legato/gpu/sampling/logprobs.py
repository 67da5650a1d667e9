"""Log-probabilities of the model's own logits, for the rows that ask."""

from collections.abc import Sequence

import torch

from ...protocol.steps import RowSampling, TokenLogprobs
from ..readback import integers, reals


class LogprobReport:
    """Taken before logits are adjusted, completed when tokens are chosen.

    Args:
        logits: [rows, vocab] float32.
        wants: One a row.
    """

    def __init__(self, logits: torch.Tensor, wants: Sequence[RowSampling]) -> None:
        self._rows = [row for row, want in enumerate(wants) if want.logprobs >= 0]
        if not self._rows:
            return
        asking = logits
        if len(self._rows) < len(wants):
            asking = logits[torch.tensor(self._rows, device=logits.device)]
        self._logprobs = asking.log_softmax(1)
        self._counts = [wants[row].logprobs for row in self._rows]
        most = min(max(self._counts), logits.shape[1])
        values, ids = self._logprobs.topk(most)
        self._values = [reals(row) for row in values]
        self._ids = [integers(row) for row in ids]

    def complete(self, tokens: Sequence[int]) -> dict[int, TokenLogprobs]:
        """Say what each asking row's token had: {row: logprobs}."""
        reports: dict[int, TokenLogprobs] = {}
        for index, row in enumerate(self._rows):
            count = self._counts[index]
            reports[row] = TokenLogprobs(
                float(self._logprobs[index, tokens[row]]),
                tuple(self._ids[index][:count]),
                tuple(self._values[index][:count]),
            )
        return reports
