"""A page's own files: read from the package once, served as they are.

They tell nothing that a key protects, and the policy lets the page load nothing but
what this server serves.
"""

import hashlib
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from .exchange import Exchange, Header
from .router import Handler

TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".ts": b"text/plain; charset=utf-8",
}
# Its own scripts, styles and figures, and nothing else from anywhere. Trusted types
# without a single policy: what is not a text node cannot be made from text.
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: list[Header] = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
]


class Page:
    """Some files.

    Args:
        folder: Where they are.
        paths: URL path to file name.
    """

    def __init__(self, folder: Traversable, paths: Mapping[str, str]) -> None:
        self._folder = folder
        self._paths = paths

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Path and method to handler."""
        return {(path, "GET"): self._file(name) for path, name in self._paths.items()}

    def _file(self, name: str) -> Handler:
        body = self._folder.joinpath(name).read_bytes()
        content_type = TYPES[PurePosixPath(name).suffix]
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        headers = [*HEADERS, (b"etag", tag.encode())]

        async def serve(exchange: Exchange) -> None:
            if exchange.headers.get("if-none-match") == tag:
                await exchange.start(304, headers)
                await exchange.finish()
                return
            await exchange.respond(
                200, body, content_type=content_type, headers=headers
            )

        return serve
