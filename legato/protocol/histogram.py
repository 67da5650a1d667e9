"""How a duration was spread: counts in fixed buckets, the same everywhere.

Ten buckets a decade, from 10 µs to 1000 s, at the preferred numbers R10: fine enough
to read a percentile off within an eighth, and with 1, 2.5 and 5 of every decade among
their bounds for exports that want fewer.
"""

import msgspec

PREFERRED = (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)

BOUNDS_S = tuple(
    mantissa * 10**power / 10**5 for power in range(8) for mantissa in PREFERRED
)
"""Upper bounds of the buckets, in seconds; one bucket more lies above the last."""

NUM_BUCKETS = len(BOUNDS_S) + 1


class HistogramReading(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A histogram at one moment.

    Args:
        counts: One for each bucket, or none if nothing was ever counted.
        total_s: The sum of all that was counted.
    """

    counts: tuple[int, ...] = ()
    total_s: float = 0.0

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.counts)

    @property
    def mean_s(self) -> float:
        """Their mean, or 0 of nothing."""
        count = self.count
        return self.total_s / count if count else 0.0

    def quantile(self, share: float) -> float:
        """The value below which a share of all lie, in seconds; 0 of nothing.

        Interpolated inside its bucket. Beyond the last bound, that bound.
        """
        rank = share * self.count
        below = 0
        for bucket, count in enumerate(self.counts):
            if count and below + count >= rank:
                if bucket == len(BOUNDS_S):
                    return BOUNDS_S[-1]
                low = BOUNDS_S[bucket - 1] if bucket else 0.0
                part = max(0.0, rank - below) / count
                return low + (BOUNDS_S[bucket] - low) * part
            below += count
        return 0.0

    def since(self, earlier: "HistogramReading") -> "HistogramReading":
        """What was counted after an earlier reading of the same histogram."""
        if not earlier.counts:
            return self
        counts = tuple(
            now - then for now, then in zip(self.counts, earlier.counts, strict=True)
        )
        if min(counts, default=0) < 0:
            return self  # counted anew since, by a core that was started again
        return HistogramReading(counts, self.total_s - earlier.total_s)
