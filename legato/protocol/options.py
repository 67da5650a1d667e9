"""Structs that people make by hand, with options that they may misspell."""

from typing import TYPE_CHECKING, Any

import msgspec

from .errors import UnknownOption


class OptionsMeta(msgspec.StructMeta):
    """Makes a struct say which field was probably meant."""

    # Not for type checkers, which would no longer look at the fields themselves.
    if not TYPE_CHECKING:

        def __call__(self, *values: Any, **options: Any) -> Any:
            """Make an instance.

            Raises:
                UnknownOption: A name that is not a field, with the nearest one.
            """
            try:
                return super().__call__(*values, **options)
            except TypeError:
                fields = self.__struct_fields__
                unknown = next((name for name in options if name not in fields), None)
                if unknown is None:
                    raise
                raise UnknownOption(unknown, fields) from None
