"""What form an answer must have, found out and checked before the core hears of it."""

from collections.abc import Sequence

from ...gpu.grammar import check_grammar
from ...protocol.errors import InvalidRequest
from ...protocol.grammar import Grammar
from ...protocol.requests import Prompt
from ...protocol.sampling import SamplingParams


class AnswerForms:
    """The forms of a model's answers. Threads may share it.

    Args:
        ends: Tokens that end the model's answers.
    """

    def __init__(self, ends: Sequence[int]) -> None:
        self._ends = ends

    def choose(self, prompt: Prompt, params: SamplingParams) -> Grammar | None:
        """Find the grammar of the answer to a prompt; None leaves it free.

        Blocks for as long as it takes to compile it.

        Raises:
            InvalidRequest: It cannot be compiled; fails this request alone.
        """
        grammar = params.grammar
        if grammar is None:
            return None
        if not self._ends:
            raise InvalidRequest(
                "the model has no end token, which an answer of a set form needs",
                field="grammar",
            )
        check_grammar(grammar)
        return grammar
