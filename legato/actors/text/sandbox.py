"""A place for templates to run in: they come with models, and are not trusted.

Jinja's sandbox keeps them from the machine; this one also bounds their work. A loop
takes steps from a budget, and so does a call; strings and numbers cannot be multiplied
beyond a size. What is left are single built-in methods with absurd arguments, such as
a field width of a gigabyte.
"""

import json
import threading
from collections.abc import Iterable, Sized
from datetime import datetime
from typing import Any, cast

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_STEPS = 1_000_000
MAX_CHARACTERS = 1 << 26
MAX_BITS = 4096
COUNTED = "legato.counted"
BOUNDED = "legato.bounded"


class TemplateRefusal(TemplateError):
    """The template itself refuses the conversation (``raise_exception``)."""


class TemplateBound(TemplateError):
    """The template works too long or builds something too large."""


class GenerationBlock(Extension):
    """``{% generation %}``: training marks the answer with it; here it is its body."""

    tags = {"generation"}  # noqa: RUF012 - declared so by the base class

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body in place of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Counters(NodeTransformer):
    """Put counters into a parsed template."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Count what is looped over."""
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, COUNTED, [], [], None, None)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - likewise
        """Bound what ``~`` joins."""
        self.generic_visit(node)
        return nodes.Filter(node, BOUNDED, [], [], None, None)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment chat templates are written for, with bounds.

    Set up as Hugging Face's is, whose templates all models carry: block tags take their
    line with them, ``tojson`` escapes nothing, and ``raise_exception`` and
    ``strftime_now`` exist. Threads may share it: each has its own budget.

    Args:
        max_steps: Loop passes and calls of one rendering.
        max_characters: Of any text that a template builds.
    """

    intercepted_binops = frozenset({"*", "**", "+"})

    def __init__(
        self, *, max_steps: int = MAX_STEPS, max_characters: int = MAX_CHARACTERS
    ) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[LoopControlExtension, GenerationBlock],
        )
        self._max_steps = max_steps
        self._max_characters = max_characters
        self._local = threading.local()
        # Jinja's types admit nothing but its own filters and globals.
        filters = cast(dict[str, Any], self.filters)
        filters |= {"tojson": to_json, COUNTED: self._counted, BOUNDED: self._bounded}
        names = cast(dict[str, Any], self.globals)
        names |= {"raise_exception": refuse, "strftime_now": now}

    def refill(self) -> None:
        """Give the calling thread a new budget."""
        self._local.steps = self._max_steps

    def call(
        __self,  # noqa: N805 - the base class's names, so that keywords are free
        __context: Context,
        __obj: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Call, for one step."""
        __self._spend(1)
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute, unless the result would be too large."""
        if isinstance(left, int) and isinstance(right, int):
            factor = right if operator == "**" else 1
            if max(left.bit_length(), right.bit_length()) * factor > MAX_BITS:
                raise TemplateBound("a number has too many digits")
        elif operator == "*" and repeated_size(left, right) > self._max_characters:
            raise TemplateBound("a repeated text is too long")
        return self._bounded(super().call_binop(context, operator, left, right))

    def _parse(
        self, source: str, name: str | None, filename: str | None
    ) -> nodes.Template:
        """Parse, and put the counters in."""
        tree = super()._parse(source, name, filename)
        Counters().visit(tree)
        return tree

    def _counted(self, iterable: Iterable[Any]) -> Iterable[Any]:
        if isinstance(iterable, Sized):
            self._spend(len(iterable))
            return iterable
        return self._each(iterable)

    def _each(self, iterable: Iterable[Any]) -> Iterable[Any]:
        for item in iterable:
            self._spend(1)
            yield item

    def _bounded(self, value: Any) -> Any:
        if isinstance(value, Sized) and len(value) > self._max_characters:
            raise TemplateBound(f"a text is over {self._max_characters} characters")
        return value

    def _spend(self, steps: int) -> None:
        self._local.steps -= steps
        if self._local.steps < 0:
            raise TemplateBound(f"it takes more than {self._max_steps} steps")


def repeated_size(left: Any, right: Any) -> int:
    """Foretell the size of a sequence times a number."""
    size, times = (left, right) if isinstance(left, Sized) else (right, left)
    if isinstance(size, Sized) and isinstance(times, int):
        return len(size) * times
    return 0


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON without HTML escapes."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def refuse(message: str) -> None:
    """Refuse the conversation, from within a template."""
    raise TemplateRefusal(message)


def now(form: str) -> str:
    """Write the local time, from within a template."""
    return datetime.now().strftime(form)
