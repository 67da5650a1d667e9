"""Text in and out: vocabularies, chat templates, byte decoding, stop strings."""

from .forms import AnswerForms
from .prompt import PromptEncoder
from .speller import Speller
from .stream import StreamText
from .template import ChatTemplate
from .tools import MarkedVocabulary, ToolParser
from .vocabulary import Vocabulary

__all__ = [
    "AnswerForms",
    "ChatTemplate",
    "MarkedVocabulary",
    "PromptEncoder",
    "Speller",
    "StreamText",
    "ToolParser",
    "Vocabulary",
]
