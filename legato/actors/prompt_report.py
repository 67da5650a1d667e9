"""Log-probabilities of a prompt, gathered until they are told, once."""

from msgspec import structs

from ..protocol.requests import Delta, PromptLogprobs
from ..protocol.steps import TokenLogprobs


class PromptReport:
    """Of one stream.

    Args:
        is_due: Whether anything is to be told.
    """

    def __init__(self, is_due: bool) -> None:
        self.is_due = is_due
        self.prompt: tuple[int, ...] = ()
        self.scores: list[TokenLogprobs] = []

    def on(self, delta: Delta) -> Delta:
        """Put it on a delta, if it is due and whole: an answer may be cut before."""
        if not self.is_due or not self.prompt:
            return delta
        if len(self.scores) < len(self.prompt) - 1:
            return delta
        self.is_due = False
        told = PromptLogprobs(self.prompt, (None, *self.scores))
        return structs.replace(delta, prompt=told)
