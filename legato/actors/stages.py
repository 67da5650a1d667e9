"""The stages a request went through, with the clock at each.

    created ─▶ encoding ─▶ encoded ─▶ admitted ─▶ started ─▶ first token ─▶ ended
       queued      tokenized   handed over   waiting      prefill        decode

Written by the front end as a request passes; the core's two marks arrive with its
terminal event. A mark of 0 was never reached.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Stages:
    """Readings of ``time.perf_counter()``.

    Args:
        created_s: At the engine's door.
        encoding_s: The tokenizer took it up.
        encoded_s: And was done with it.
        admitted_s: The scheduler had it.
        started_s: It got a slot, for its first step.
        first_token_s: Its first token reached the front end.
        ended_s: Its terminal event did.
    """

    created_s: float
    encoding_s: float = 0.0
    encoded_s: float = 0.0
    admitted_s: float = 0.0
    started_s: float = 0.0
    first_token_s: float = 0.0
    ended_s: float = 0.0

    def durations(self) -> dict[str, float]:
        """Seconds of each stage that was reached and left, by its metric's name."""
        ends = (
            ("request_tokenize_queue_time", self.created_s, self.encoding_s),
            ("request_tokenize_time", self.encoding_s, self.encoded_s),
            ("request_admit_time", self.encoded_s, self.admitted_s),
            ("request_queue_time", self.admitted_s, self.started_s),
            ("request_prefill_time", self.started_s, self.first_token_s),
            ("request_decode_time", self.first_token_s, self.ended_s),
            ("request_inference_time", self.started_s, self.ended_s),
            ("e2e_request_latency", self.created_s, self.ended_s),
        )
        return {
            name: max(0.0, until_s - since_s)
            for name, since_s, until_s in ends
            if since_s and until_s
        }
