"""Functions in a model's own words: how it is told of them, and how it calls them."""

from .format import ToolFormat, choose_format
from .grammar import answer_grammar
from .marks import MarkedVocabulary
from .parser import ToolParser
from .turns import described, model_turns, taught

__all__ = [
    "MarkedVocabulary",
    "ToolFormat",
    "ToolParser",
    "answer_grammar",
    "choose_format",
    "described",
    "model_turns",
    "taught",
]
