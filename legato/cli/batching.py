"""A batching strategy, as written on the command line."""

from typing import Any

import click
import msgspec

from ..actors.scheduling.batching import STRATEGIES, Batching
from ..protocol.errors import InvalidSetting, UnknownOption


class BatchingType(click.ParamType[Batching]):
    """``continuous``, or a strategy with options: ``dynamic:max_batch=16``."""

    name = "STRATEGY"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Batching:
        """Read a strategy."""
        kind, _, rest = str(value).partition(":")
        options: dict[str, str] = {"type": kind}
        for pair in filter(None, rest.split(",")):
            name, equals, number = pair.partition("=")
            if not equals:
                self.fail(f"{pair!r} is no option: write name=value", param, ctx)
            options[name.strip()] = number.strip()
        strategy = STRATEGIES.get(kind)
        for name in options:
            if strategy and name not in ("type", *strategy.__struct_fields__):
                unknown = UnknownOption(name, strategy.__struct_fields__)
                self.fail(f"{value!r}: {unknown}", param, ctx)
        try:
            return msgspec.convert(options, Batching, strict=False)
        except (msgspec.ValidationError, InvalidSetting) as error:
            self.fail(
                f"{value!r}: {error}; one of continuous, dynamic, static, auto, "
                "with options as in dynamic:max_batch=16,max_delay_s=0.02",
                param,
                ctx,
            )
