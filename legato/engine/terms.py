"""The terms of a request beside its prompt and sampling: rank, tenant, deadlines."""

from ..protocol.errors import InvalidRequest
from ..protocol.sampling import SamplingParams, whole, within

MAX_PRIORITY = 1_000_000
MAX_DEADLINE_S = 1e9


def check_terms(
    priority: object, tenant: object, ttft_deadline_s: object, total_deadline_s: object
) -> None:
    """Refuse what the core could not work with.

    Raises:
        InvalidRequest: Names the term at fault, and its range.
    """
    whole(priority, "priority", -MAX_PRIORITY, MAX_PRIORITY)
    if not isinstance(tenant, str):
        raise InvalidRequest(f"must be text, got {tenant!r}", field="tenant")
    within(ttft_deadline_s, "ttft_deadline_s", 0, MAX_DEADLINE_S)
    within(total_deadline_s, "total_deadline_s", 0, MAX_DEADLINE_S)


def check_ids(params: SamplingParams, vocab_size: int) -> None:
    """Refuse token ids that the vocabulary does not have.

    Raises:
        InvalidRequest: Names the field.
    """
    for field in ("logit_bias", "stop_token_ids"):
        for token in getattr(params, field):
            if token >= vocab_size:
                raise InvalidRequest(
                    f"token id {token} is outside the vocabulary of {vocab_size}",
                    field=field,
                )
