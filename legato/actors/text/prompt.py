"""Prompts to token ids: the one place where text and control tokens meet.

Whatever a user wrote is encoded as text. A template's own control tokens are encoded as
themselves, and nothing that a content holds can become one.
"""

from collections.abc import Sequence

from ...protocol.errors import InvalidRequest
from ...protocol.models import TextSource
from ...protocol.requests import ChatMessage, Conversation, Prompt
from ...protocol.tools import Tool
from .control import MARK, ControlTexts, unguarded
from .template import ChatTemplate
from .vocabulary import Vocabulary


class PromptEncoder:
    """Encode prompts of every kind. Threads may share it.

    Args:
        vocabulary: The model's.
        template: None: the model cannot chat.
    """

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate | None) -> None:
        self._vocabulary = vocabulary
        self._template = template
        self._controls = ControlTexts(vocabulary.control_texts)

    @classmethod
    def of(cls, vocabulary: Vocabulary, source: TextSource) -> "PromptEncoder":
        """Build with the checkpoint's own template, if it has one.

        Raises:
            InvalidModel: The template is broken.
        """
        template = None if source.chat_template is None else ChatTemplate(source)
        return cls(vocabulary, template)

    @property
    def max_token_bytes(self) -> int:
        """The most bytes that one token stands for; costs nothing to ask."""
        return self._vocabulary.max_token_bytes

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Encode text, check ids, or render and encode a conversation.

        Raises:
            InvalidRequest: The prompt is empty, or an id, a role or the conversation
                is not acceptable; the field at fault is named.
        """
        if isinstance(prompt, str):
            ids = self._vocabulary.encode(prompt) if prompt else ()
        elif isinstance(prompt, Conversation):
            ids = self._conversation(prompt.messages, prompt.use.tools)
        elif isinstance(prompt[0] if prompt else None, ChatMessage):
            ids = self._conversation(prompt)
        else:
            ids = self._checked(prompt)
        if not ids:
            raise InvalidRequest("the prompt is empty", field="prompt")
        return ids

    def _checked(self, prompt: Sequence[object]) -> tuple[int, ...]:
        ids: list[int] = []
        size = self._vocabulary.size
        for index, token in enumerate(prompt):
            field = f"prompt[{index}]"
            if not isinstance(token, int) or isinstance(token, bool):
                raise InvalidRequest(f"{token!r} is not a token id", field=field)
            if not 0 <= token < size:
                raise InvalidRequest(
                    f"token id {token} is outside the vocabulary of {size}", field=field
                )
            ids.append(token)
        return tuple(ids)

    def _conversation(
        self, prompt: Sequence[object], tools: Sequence[Tool] = ()
    ) -> tuple[int, ...]:
        messages: list[ChatMessage] = []
        for index, message in enumerate(prompt):
            if not isinstance(message, ChatMessage):
                raise InvalidRequest(
                    f"{message!r} is not a message", field=f"messages[{index}]"
                )
            messages.append(message)
        if self._template is None:
            raise InvalidRequest(
                "the model has no chat template; send text as prompt", field="messages"
            )
        text = self._template.render(
            messages, tools=tools, guard=self._controls.guarded
        )
        if not text:
            raise InvalidRequest(
                "the model's chat template makes no text of these messages",
                field="messages",
            )
        ids = self._rendered(text)
        bos = self._vocabulary.begin_id
        # Some templates write the begin token and some leave it to the tokenizer.
        return ids if bos is None or ids[:1] == (bos,) else (bos, *ids)

    def _rendered(self, text: str) -> tuple[int, ...]:
        """Encode what a template wrote; marked stretches hold no control token."""
        if MARK not in text:
            return self._vocabulary.encode(text, add_bos=False, special=True)
        ids: list[int] = []
        trusted: list[str] = []
        # Only a stretch with a mark in it is encoded apart: the tokenizer itself cuts
        # text at control tokens, so that makes no other ids.
        for segment, is_control in self._controls.segments(text):
            if is_control or MARK not in segment:
                trusted.append(segment)
                continue
            ids += self._trusted(trusted)
            ids += self._vocabulary.encode(unguarded(segment), add_bos=False)
            trusted.clear()
        ids += self._trusted(trusted)
        return tuple(ids)

    def _trusted(self, segments: Sequence[str]) -> tuple[int, ...]:
        text = "".join(segments)
        return self._vocabulary.encode(text, add_bos=False, special=True)
