"""Which store there is: in memory, or in a file."""

from ..settings import ServeSettings
from .store import MemoryStore, ResponseStore, StoreLimits
from .store_file import FileStore


def make_store(settings: ServeSettings) -> ResponseStore:
    """Make the store that the settings ask for.

    Raises:
        InvalidSetting: Its file cannot be used.
    """
    limits = StoreLimits(
        entries=settings.store_entries,
        max_bytes=settings.store_bytes,
        ttl_s=settings.store_ttl_s,
    )
    if settings.state_store:
        return FileStore(settings.state_store, limits)
    return MemoryStore(limits)
