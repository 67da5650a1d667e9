"""A batching strategy, as written on the command line."""

from typing import Any

import click
import msgspec

from ..actors.scheduling.batching import Batching
from ..protocol.errors import InvalidSetting


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
        try:
            return msgspec.convert(options, Batching, strict=False)
        except (msgspec.ValidationError, InvalidSetting) as error:
            self.fail(
                f"{value!r}: {error}; one of continuous, dynamic, static, auto, "
                "with options as in dynamic:max_batch=16,max_delay_s=0.02",
                param,
                ctx,
            )
