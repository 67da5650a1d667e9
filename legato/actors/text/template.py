"""A model's chat template: a conversation to the text the model was trained on.

Knows Jinja; nothing of tokens. Threads may share it.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from jinja2 import TemplateSyntaxError
from msgspec import structs

from ...protocol.errors import InvalidModel, InvalidRequest
from ...protocol.models import TextSource
from ...protocol.requests import ChatMessage
from ...protocol.tools import Tool
from .sandbox import Sandbox, TemplateBound, TemplateRefusal
from .tools import choose_format, described, model_turns, taught

# "developer" is a newer word for "system"; few templates know it.
ROLES = ("system", "developer", "user", "assistant", "tool")
# A template writes each content about once, and some text of its own.
MAX_GROWTH = 8
MAX_OWN_CHARACTERS = 1_000_000


class ChatTemplate:
    """Render conversations. ``form`` is how the model writes calls.

    Args:
        source: Its ``chat_template``, ``bos_token`` and ``eos_token`` are used.

    Raises:
        InvalidModel: There is no template, or it is not valid Jinja.
    """

    def __init__(self, source: TextSource) -> None:
        if source.chat_template is None:
            raise InvalidModel("the model has no chat template")
        self.form = choose_format(source.chat_template)
        self._sandbox = Sandbox()
        self._names = {"bos_token": source.bos_token, "eos_token": source.eos_token}
        self._knows_developer = "developer" in source.chat_template
        try:
            self._template = self._sandbox.from_string(source.chat_template)
        except TemplateSyntaxError as error:
            raise InvalidModel(
                f"the model's chat template is broken: line {error.lineno}: {error}"
            ) from error
        except RecursionError as error:
            raise InvalidModel("the model's chat template nests too deeply") from error

    def render(
        self,
        messages: Sequence[ChatMessage],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Tool] = (),
        guard: Callable[[str], str] = str,
    ) -> str:
        """Write a conversation as text.

        Args:
            messages: At least one.
            add_generation_prompt: End where the assistant's answer begins.
            tools: Functions at hand. A template that knows of none has them described
                in the system message.
            guard: Applied to every text that is not the template's own.

        Raises:
            InvalidRequest: No message, an unknown role, arguments or parameters that
                nest too deeply, or a conversation that the template refuses, breaks
                on, or makes too much of.
        """
        messages = self._checked(messages)
        if not self.form.taught:
            messages, tools = taught(messages, tools), ()
        try:
            turns = guarded(model_turns(messages, self.form), guard)
            functions = guarded([described(tool) for tool in tools], guard)
            given = [[t["content"], t.get("tool_calls", [])] for t in turns]
            limit = MAX_OWN_CHARACTERS + MAX_GROWTH * measure([given, functions])
        except RecursionError:
            raise InvalidRequest(
                "arguments or parameters nest too deeply", field="messages"
            ) from None
        self._sandbox.refill()
        try:
            return self._bounded_text(
                limit,
                messages=turns,
                add_generation_prompt=add_generation_prompt,
                tools=functions or None,
                **self._names,
            )
        except TemplateRefusal as error:
            raise InvalidRequest(
                f"the model's chat template refuses this: {error}", field="messages"
            ) from error
        except Exception as error:
            # A template is a program of the model's maker: whatever it breaks on, it
            # breaks on these messages, and fails this request alone.
            raise InvalidRequest(
                f"the model's chat template fails on these messages: {error}",
                field="messages",
            ) from error

    def _bounded_text(self, limit: int, **names: Any) -> str:
        pieces: list[str] = []
        size = 0
        for piece in self._template.generate(**names):
            size += len(piece)
            if size > limit:
                raise TemplateBound(f"it writes more than {limit} characters")
            pieces.append(piece)
        return "".join(pieces)

    def _checked(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        if not messages:
            raise InvalidRequest("at least one message is needed", field="messages")
        checked: list[ChatMessage] = []
        for index, message in enumerate(messages):
            role = message.role
            if role not in ROLES:
                raise InvalidRequest(
                    f"unknown role {role!r}; known are {', '.join(ROLES)}",
                    field=f"messages[{index}].role",
                )
            if role == "developer" and not self._knows_developer:
                message = structs.replace(message, role="system")
            checked.append(message)
        return checked


def guarded(value: Any, guard: Callable[[str], str]) -> Any:
    """Apply a guard to every text in a JSON value, names of fields included."""
    if isinstance(value, str):
        return guard(value)
    if isinstance(value, list):
        items = cast(list[Any], value)
        return [guarded(item, guard) for item in items]
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {guard(name): guarded(item, guard) for name, item in fields.items()}
    return value


def measure(value: Any) -> int:
    """Count the characters in a JSON value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        items = cast(list[Any], value)
        return sum(map(measure, items))
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return sum(len(name) + measure(item) for name, item in fields.items())
    return 0
