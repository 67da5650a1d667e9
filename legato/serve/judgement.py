"""What a request is refused for, and what of it is written to the log."""

import logging

from ..protocol.errors import ContextOverflow, LegatoError
from ..protocol.openai.generation import Generation
from ..protocol.openai.refusal import Refusal
from ..protocol.requests import Prompt

logger = logging.getLogger("legato.serve")


def refusal_of(error: Exception, request: Generation | None = None) -> Refusal:
    """Describe an error to the client; log the cause of one that is ours.

    Args:
        error: What was raised.
        request: Whose field names to use.
    """
    refusal = Refusal.of(error, request.names if request else None)
    if refusal.status == 500 and error is not refusal:
        # One of ours says why itself: a failed engine would fill the log with where.
        ours = isinstance(error, LegatoError) and error.__cause__ is None
        why = f": {error}" if ours else ""
        logger.error("a request failed%s", why, exc_info=None if ours else error)
    return refusal


def check_length(prompt: Prompt, max_context: int) -> None:
    """Refuse token ids that can never fit, before anybody walks over them.

    Raises:
        ContextOverflow: With the numbers.
    """
    if not isinstance(prompt, tuple) or not isinstance(prompt[0], int):
        return
    if len(prompt) >= max_context:
        why = f"the model's context of {max_context} tokens"
        raise ContextOverflow(len(prompt), max_context - 1, why)


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
