"""What a request is refused for, and what of it is written to the log."""

import logging

from ..protocol.openai.generation import Generation
from ..protocol.openai.refusal import Refusal

logger = logging.getLogger("legato.serve")


def refusal_of(error: Exception, request: Generation | None = None) -> Refusal:
    """Describe an error to the client; log the cause of one that is ours.

    Args:
        error: What was raised.
        request: Whose field names to use.
    """
    refusal = Refusal.of(error, request.names if request else None)
    if refusal.status == 500 and error is not refusal:
        logger.error("a request failed", exc_info=error)
    return refusal


def check_model(asked: str, name: str) -> None:
    """Refuse a model that is not here.

    Args:
        asked: The model the client names, or "" for whichever there is.
        name: The model that is here.

    Raises:
        Refusal: 404, with the name of the one that is.
    """
    if asked not in ("", name):
        raise Refusal(
            404,
            "model_not_found",
            f"the model {asked!r} is not here; this server has {name!r}",
            param="model",
        )
