"""``metadata``: a client's own labels, which its responses repeat."""

from ..errors import InvalidRequest

MAX_METADATA = 16
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 512


def check_metadata(metadata: dict[str, str] | None) -> None:
    """Refuse metadata beyond the specification's bounds.

    Raises:
        InvalidRequest: With the bound.
    """
    if not metadata:
        return
    for key, value in metadata.items():
        if len(key) > MAX_METADATA_KEY or len(value) > MAX_METADATA_VALUE:
            raise InvalidRequest(
                f"a key has at most {MAX_METADATA_KEY} characters and a value "
                f"{MAX_METADATA_VALUE}",
                field="metadata",
            )
    if len(metadata) > MAX_METADATA:
        raise InvalidRequest(
            f"has at most {MAX_METADATA} keys, got {len(metadata)}", field="metadata"
        )
