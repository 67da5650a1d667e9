"""Text in and out: vocabularies, chat templates, byte decoding, stop strings."""

from .prompt import PromptEncoder
from .stream import StreamText
from .template import ChatTemplate
from .vocabulary import Vocabulary

__all__ = ["ChatTemplate", "PromptEncoder", "StreamText", "Vocabulary"]
