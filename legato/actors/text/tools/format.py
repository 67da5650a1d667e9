"""The ways in which models write calls, told apart by their chat templates."""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """How a model writes calls.

    Args:
        name: Of the format.
        opener: What stands before a call, or before all of them.
        closer: What stands after a call; "" where nothing does.
        arguments: The key of the arguments in a call.
        separator: Between calls of one answer.
        bare: An answer that begins with a brace is a call, without an opener.
        listed: Calls stand in one JSON list after the opener.
        named: A call is ``opener name mark arguments``; this is the mark.
        taught: The template tells the model of functions. Where it does not, they are
            described in the system message.
    """

    name: str
    opener: str
    closer: str = ""
    arguments: str = "arguments"
    separator: str = "\n"
    bare: bool = False
    listed: bool = False
    named: str = ""
    taught: bool = True

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts that may be control tokens in a vocabulary, and count as text here."""
        return tuple(mark for mark in (self.opener, self.closer, self.named) if mark)


HERMES = ToolFormat("hermes", "<tool_call>", "</tool_call>")
"""Hermes and Qwen: a JSON object between two tags."""

LLAMA = ToolFormat(
    "llama", "<|python_tag|>", arguments="parameters", separator="; ", bare=True
)
"""Llama 3: the answer is a JSON object with ``parameters``."""

MISTRAL = ToolFormat("mistral", "[TOOL_CALLS]", separator=", ", listed=True)
"""Mistral: a JSON list after a control token."""

MISTRAL_NAMED = ToolFormat("mistral", "[TOOL_CALLS]", separator="", named="[ARGS]")
"""Later Mistral models: control token, name, control token, arguments, repeated."""


def choose_format(template: str | None) -> ToolFormat:
    """Tell by a template how its model writes calls.

    A template that knows no functions gets Hermes' format, which small models learn
    from a description best.
    """
    if template is None or not re.search(r"\btools\b", template):
        return replace(HERMES, taught=False)
    if "[TOOL_CALLS]" in template:
        return MISTRAL_NAMED if "[ARGS]" in template else MISTRAL
    if "<tool_call>" in template:
        return HERMES
    if '"parameters"' in template:
        return LLAMA
    return HERMES
