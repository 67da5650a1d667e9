"""``/tokenize`` and ``/detokenize``: bodies in, and what they come down to.

Field names are those other engines use.
"""

from .errors import InvalidRequest
from .openai.document import Wire, read
from .openai.messages import Message, conversation
from .requests import Prompt


class TokenizeBody(Wire, kw_only=True):
    """A text, or a conversation for the chat template."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None


class DetokenizeBody(Wire, kw_only=True):
    """Token ids."""

    tokens: list[int]
    model: str | None = None


class Tokenized(Wire, kw_only=True):
    """The ids of a prompt."""

    count: int
    max_model_len: int
    tokens: tuple[int, ...]


class Detokenized(Wire, kw_only=True):
    """The text of ids, special tokens hidden."""

    prompt: str


def read_tokenize(body: bytes) -> tuple[Prompt, str]:
    """Read what to encode, and the model's name or "".

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(body, TokenizeBody)
    if (request.prompt is None) == (request.messages is None):
        raise InvalidRequest("give one of prompt and messages", field="prompt")
    if request.messages is not None:
        return conversation(request.messages), request.model or ""
    return request.prompt or "", request.model or ""


def read_detokenize(body: bytes, vocab_size: int) -> tuple[tuple[int, ...], str]:
    """Read which ids to decode, and the model's name or "".

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(body, DetokenizeBody)
    for odd in (min(request.tokens, default=0), max(request.tokens, default=0)):
        if not 0 <= odd < vocab_size:
            raise InvalidRequest(
                f"{odd} is outside the vocabulary of {vocab_size}",
                field=f"tokens[{request.tokens.index(odd)}]",
            )
    return tuple(request.tokens), request.model or ""
