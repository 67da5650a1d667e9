"""What form an answer must have, found out and checked before the core hears of it."""

from collections.abc import Sequence

from ...gpu.grammar import check_grammar
from ...protocol.errors import InvalidRequest
from ...protocol.grammar import Grammar
from ...protocol.models import TextSource
from ...protocol.requests import Conversation, Prompt
from ...protocol.sampling import SamplingParams
from ...protocol.tools import Tool
from .tools import ToolParser, answer_grammar, choose_format
from .vocabulary import Vocabulary


class AnswerForms:
    """The forms of a model's answers. Threads may share it.

    Args:
        vocabulary: The model's.
        source: What the checkpoint says of its text.
    """

    def __init__(self, vocabulary: Vocabulary, source: TextSource) -> None:
        self._ends = source.stop_ids
        self._tools = choose_format(source.chat_template)
        self._marks = {name: token for token, name in vocabulary.hidden.items()}

    def parser(self) -> ToolParser:
        """Make a reader of one answer's calls."""
        return ToolParser(self._tools)

    def choose(self, prompt: Prompt, params: SamplingParams) -> Grammar | None:
        """Find the grammar of the answer to a prompt; None leaves it free.

        Blocks for as long as it takes to compile it.

        Raises:
            InvalidRequest: It cannot be compiled; fails this request alone.
        """
        grammar = params.grammar
        if grammar is not None:
            check_grammar(grammar)
        if isinstance(prompt, Conversation):
            use = prompt.use
            bound = answer_grammar(use, self._tools, self._marks, grammar)
            if bound is not None:
                check_tools(use.callable)
                self._check_freedom(params)
                check_grammar(bound)
            grammar = bound
        if grammar is not None and not self._ends:
            raise InvalidRequest(
                "the model has no end token, which an answer of a set form needs",
                field="grammar",
            )
        return grammar

    def _check_freedom(self, params: SamplingParams) -> None:
        for field in ("min_tokens", "ignore_eos"):
            if getattr(params, field):
                raise InvalidRequest(
                    "cannot be combined with calls that must have their form",
                    field=field,
                )


def check_tools(tools: Sequence[Tool]) -> None:
    """Find out whether every function's arguments can be described.

    Raises:
        InvalidRequest: Names the function.
    """
    for tool in tools:
        if tool.parameters is None:
            continue
        try:
            check_grammar(Grammar.json_schema(tool.parameters))
        except InvalidRequest as error:
            raise InvalidRequest(
                f"the parameters of {tool.name!r}: {error.message}", field="tools"
            ) from error
