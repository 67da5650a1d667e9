"""Draws tokens from logits: temperature, top-k, top-p, min-p, one number a row.

Kept tokens are always walked in the order of their ids, so that a last-bit difference
between two likely tokens' logits cannot swap them under the same random number.
"""

from collections.abc import Sequence

import torch

from ...protocol.steps import RowSampling

# Likeliest tokens to look at, few first: sorting 49,152 logits takes 2.3 ms a row on a
# CPU core, finding the top 64 takes 0.1 ms, and is nearly always enough.
WIDTHS = (64, 1024)
# Keeps a random number inside the last kept token, whatever the rounding of sums.
_BELOW_ONE = 1 - 2.0**-40


def draw(
    logits: torch.Tensor, wants: Sequence[RowSampling], uniforms: torch.Tensor
) -> torch.Tensor:
    """Draw one token a row.

    Args:
        logits: [rows, vocab] float32; made to weights in place.
        wants: One a row; temperatures above 0.
        uniforms: [rows] float64 in [0, 1).

    Returns:
        [rows] int64. Rows without a finite likeliest logit get any token.
    """
    weights = relative_weights(logits, _column(wants, "temperature", logits), logits)
    if any(want.min_p > 0 for want in wants):
        weights.masked_fill_(weights < _column(wants, "min_p", logits), 0.0)
    filtered = [
        index
        for index, want in enumerate(wants)
        if 0 < want.top_k < logits.shape[1] or want.top_p < 1
    ]
    if not filtered:
        return draw_wide(weights, uniforms)
    if len(filtered) == len(wants):
        return _draw_filtered(weights, wants, uniforms)
    rows = torch.tensor(filtered, device=logits.device)
    some = [wants[index] for index in filtered]
    tokens = _draw_filtered(weights[rows], some, uniforms[rows])
    return draw_wide(weights, uniforms).index_copy_(0, rows, tokens)


def relative_weights(
    logits: torch.Tensor, temperature: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Unnormalized probabilities, the likeliest token's being 1.

    Args:
        logits: [rows, vocab] float32.
        temperature: [rows, 1].
        out: Where to put them; may be the logits themselves. On a CPU the pages of a
            new tensor of this size take longer than the arithmetic.
    """
    peak = logits.amax(1, keepdim=True)
    return torch.sub(logits, peak, out=out).div_(temperature).exp_()


def _column(
    wants: Sequence[RowSampling], name: str, like: torch.Tensor
) -> torch.Tensor:
    values = [getattr(want, name) for want in wants]
    return torch.tensor(values, dtype=torch.float32, device=like.device)[:, None]


def _top_k(wants: Sequence[RowSampling], like: torch.Tensor) -> torch.Tensor:
    vocab_size = like.shape[1]
    # Cut down before they are a tensor: an int64 does not hold every int.
    most = [min(want.top_k, vocab_size) for want in wants]
    values = [k if k > 0 else vocab_size for k in most]
    return torch.tensor(values, device=like.device)[:, None]


def draw_wide(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Draw over the whole vocabulary: first a block of it, then within the block."""
    width = block_width(weights.shape[1])
    blocks = weights.view(len(weights), -1, width)
    block, rest = _pick(blocks.sum(-1).double(), uniforms)
    inside = blocks.gather(1, block[:, None, None].expand(-1, 1, width))[:, 0]
    token, _ = _pick(inside.double(), rest)
    return block * width + token


def _draw_filtered(
    weights: torch.Tensor, wants: Sequence[RowSampling], uniforms: torch.Tensor
) -> torch.Tensor:
    """Draw with top-k and top-p, looking at ever more tokens until they suffice."""
    top_k = _top_k(wants, weights)
    top_p = _column(wants, "top_p", weights)
    tokens = torch.zeros(len(weights), dtype=torch.int64, device=weights.device)
    totals = total(weights)
    left = torch.arange(len(weights), device=weights.device)
    for width in (*WIDTHS, weights.shape[1]):
        if width > weights.shape[1]:
            continue
        seen = weights if len(left) == len(weights) else weights[left]
        values, ids = seen.topk(width)
        k, p = top_k[left], top_p[left]
        values = torch.where(torch.arange(width, device=k.device) < k, values, 0.0)
        sums = values.double().cumsum(1)
        mass = torch.where(k <= width, sums[:, -1:], totals[left]) * p
        kept = torch.where(sums - values < mass, values, 0.0)
        # A share of the k likeliest is known only once all k are seen.
        reached = (k == weights.shape[1]) & (sums[:, -1:] >= mass)
        enough = ((k <= width) | reached)[:, 0]
        enough |= width == weights.shape[1]
        ids, order = ids.sort(1)
        index, _ = _pick(kept.gather(1, order).double(), uniforms[left])
        found = ids.gather(1, index[:, None])[:, 0]
        tokens[left[enough]] = found[enough]
        left = left[~enough]
        if not len(left):
            break
    return tokens


def total(weights: torch.Tensor) -> torch.Tensor:
    """Sum each row, [rows, 1] float64; by blocks, since converting all takes longer."""
    blocks = weights.view(len(weights), -1, block_width(weights.shape[1]))
    return blocks.sum(-1).sum(1, keepdim=True, dtype=torch.float64)


def _pick(
    weights: torch.Tensor, uniforms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose an index in proportion to weights.

    Returns:
        The index, [rows]; what of the random number is left over within it, [rows] in
        [0, 1).
    """
    sums = weights.cumsum(1)
    target = uniforms.clamp(max=_BELOW_ONE) * sums[:, -1]
    index = torch.searchsorted(sums, target[:, None], right=True)
    index = index.clamp(max=weights.shape[1] - 1)
    chosen = weights.gather(1, index)
    before = sums.gather(1, index) - chosen
    left_over = (target[:, None] - before) / chosen
    return index[:, 0], left_over[:, 0].clamp(0, 1)


def block_width(vocab_size: int) -> int:
    """The widest power of two, up to 256, that divides a vocabulary."""
    return min(256, vocab_size & -vocab_size)
