"""Grammars of answers with calls: the calls are right, or there are none."""

import json
from collections.abc import Mapping

from ....gpu.grammar import embedded
from ....protocol.errors import InvalidRequest
from ....protocol.grammar import Grammar
from ....protocol.tools import Tool, ToolUse
from .format import ToolFormat


def answer_grammar(
    use: ToolUse,
    form: ToolFormat,
    marks: Mapping[str, int],
    other: Grammar | None = None,
) -> Grammar | None:
    """Describe the answers that a use of functions leaves.

    Args:
        use: The functions, and what the answer may be.
        form: How the model writes calls.
        marks: Control tokens of the vocabulary, by name.
        other: What an answer without calls must look like.

    Returns:
        None if anything goes.

    Raises:
        InvalidRequest: The other form does not go with calls.
    """
    if not use.binds and other is None:
        return None
    if other is not None and form.bare and use.choice == "auto":
        # Both would begin with a brace, and a lexer cannot look ahead.
        raise InvalidRequest(
            "cannot be combined with functions of which this model may call none; "
            "require a call, or give no functions",
            field="grammar",
        )
    rules = _Rules(form, marks, use)
    text = rules.calls()
    if use.choice == "required":
        return Grammar.lark("start: calls\n" + text)
    if other is not None:
        start = f"start: other | calls\nother: {_other(other)}\n"
        return Grammar.lark(start + text)
    return Grammar.lark(rules.talk() + text)


def _other(grammar: Grammar) -> str:
    if grammar.kind == "json_object":
        return embedded({"type": "object"})
    if grammar.kind == "json_schema":
        return embedded(json.loads(grammar.text))
    raise InvalidRequest(
        f"of kind {grammar.kind} cannot be combined with functions", field="grammar"
    )


class _Rules:
    """Rules of one answer.

    Args:
        form: How the model writes calls.
        marks: Control tokens, by name.
        use: The functions.
    """

    def __init__(
        self, form: ToolFormat, marks: Mapping[str, int], use: ToolUse
    ) -> None:
        self._form = form
        self._marks = marks
        self._use = use

    def calls(self) -> str:
        """``calls``: one call, or several where that is allowed."""
        form = self._form
        opener, closer = self._mark(form.opener), self._mark(form.closer)
        inner = " | ".join(f"call_{n}" for n in range(len(self._use.callable)))
        rules = [self._call(n, tool) for n, tool in enumerate(self._use.callable)]
        rules.append(f"body: {inner}")
        more = f"({_text(form.separator)} one)*" if self._use.parallel else ""
        if form.listed:
            rules.append("one: body")
            rules.append(f'calls: {opener} "[" one {more} "]"')
        else:
            if form.named:
                rules.append(f"one: {opener} body")
            elif form.bare:
                rules.append("one: body")
            else:
                rules.append(f'one: {opener} "\\n" body "\\n" {closer}')
            rules.append(f"calls: one {more}")
        return "\n".join(rules) + "\n"

    def talk(self) -> str:
        """``start``: free text, or text that goes over into calls."""
        form = self._form
        if form.bare:
            return "start: FREE? | calls\nFREE: /[^{](.|\\n)*/\n"
        rest = self._after_opener()
        if form.opener in self._marks:
            head = f"start: TEXT | TEXT {self._mark(form.opener)} {rest}\n"
            return head + "TEXT: /(.|\\n)*/\n"
        return (
            f"start: TEXT | until {rest}\n"
            f"until[lazy]: TEXT {_text(form.opener)}\n"
            "TEXT: /(.|\\n)*/\n"
        )

    def _after_opener(self) -> str:
        form = self._form
        more = f"({_text(form.separator)} one)*" if self._use.parallel else ""
        if form.listed:
            return f'"[" one {more} "]"'
        if form.named:
            return f"body {more}"
        return f'"\\n" body "\\n" {self._mark(form.closer)} {more}'

    def _call(self, number: int, tool: Tool) -> str:
        form, name = self._form, json.dumps(tool.name, ensure_ascii=False)
        if form.named:
            head, tail = f"{_text(tool.name)} {self._mark(form.named)}", ""
        else:
            head = _text(f'{{"name": {name}, "{form.arguments}": ')
            tail = _text("}")
        arguments = _text("{}")
        if tool.parameters is not None:
            arguments = embedded(tool.parameters)
        return f"call_{number}: {head} args_{number} {tail}\nargs_{number}: {arguments}"

    def _mark(self, text: str) -> str:
        """A mark: the control token of that name, or its letters."""
        if text in self._marks:
            return f"<[{self._marks[text]}]>"
        return _text(text)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""
