"""The words the rooms speak: messages, errors, wire formats.

Knows only the standard library and msgspec. Owns no state.
"""
