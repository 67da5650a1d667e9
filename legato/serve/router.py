"""Which path is served by whom.

A table, not a framework: the paths are few and known; in some, one part is a name.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec
from starlette.types import Scope

from ..protocol.errors import nearest
from ..protocol.openai.refusal import Refusal
from .exchange import Exchange

Handler = Callable[[Exchange], Awaitable[None]]
NamedHandler = Callable[[Exchange, str], Awaitable[None]]


HINTS = {
    "/": "the playground is switched off here; the API is under /v1; see also /health, "
    "/metrics and /debug",
    "/v1": "nothing here itself; see /v1/models, /v1/chat/completions",
    "/v1/embeddings": "embeddings are not served",
}


class Pattern(msgspec.Struct, frozen=True):
    """A path with a name in it, which may hold slashes but is never empty.

    Args:
        path: Such as ``/v1/models/{name}``.
        before: What stands before the name.
        after: What stands after it.
        handlers: By method.
    """

    path: str
    before: str
    after: str
    handlers: dict[str, NamedHandler]

    def name_in(self, path: str) -> str:
        """The name in a path, or "" if it does not fit."""
        if not (path.startswith(self.before) and path.endswith(self.after)):
            return ""
        return path[len(self.before) : len(path) - len(self.after)]


class Router:
    """Finds the handler of a request.

    Args:
        routes: (path, method) to handler.
        named: The same for paths with a name in them, which the handler is given.
    """

    def __init__(
        self,
        routes: Mapping[tuple[str, str], Handler],
        named: Mapping[tuple[str, str], NamedHandler],
    ) -> None:
        self._by_path: dict[str, dict[str, Handler]] = {}
        for (path, method), handler in routes.items():
            self._by_path.setdefault(path, {})[method] = handler
        patterns: dict[str, Pattern] = {}
        for (path, method), named_handler in named.items():
            if path not in patterns:
                before, _, rest = path.partition("{")
                patterns[path] = Pattern(path, before, rest.partition("}")[2], {})
            patterns[path].handlers[method] = named_handler
        # What is more closely described is looked at first.
        self._patterns = sorted(patterns.values(), key=lambda one: -len(one.path))

    def find(self, path: str, method: str) -> tuple[str, Handler]:
        """Return the route's name and its handler.

        Raises:
            Refusal: 404 for a path nobody knows, 405 for a method it does not have.
        """
        # A HEAD is a GET whose body is not sent.
        method = "GET" if method == "HEAD" else method
        route, handlers = self._look_up(path)
        if not handlers:
            if path in HINTS:
                raise Refusal(404, "not_found", f"{path}: {HINTS[path]}")
            near = nearest(path, self._by_path, 0.6)
            hint = f"; did you mean {near}?" if near else ""
            raise Refusal(404, "not_found", f"there is nothing at {path}{hint}")
        if method not in handlers:
            allowed = ", ".join(sorted(handlers))
            raise Refusal(
                405, "method_not_allowed", f"{path} takes {allowed}, not {method}"
            )
        return route, handlers[method]

    def _look_up(self, path: str) -> tuple[str, Mapping[str, Handler]]:
        if path in self._by_path:
            return path, self._by_path[path]
        for pattern in self._patterns:
            if name := pattern.name_in(path):
                return pattern.path, {
                    method: partial(with_name, handler, name)
                    for method, handler in pattern.handlers.items()
                }
        return path, {}

    def routes(self) -> frozenset[tuple[str, str]]:
        """Every path and method there is, patterns as such."""
        pairs = {(path, m) for path, ms in self._by_path.items() for m in ms}
        named = {(one.path, m) for one in self._patterns for m in one.handlers}
        return frozenset(pairs | named)

    def methods(self, path: str) -> str:
        """The methods of a path, for the ``Allow`` header."""
        return ", ".join(sorted(self._look_up(path)[1]))


def with_name(handler: NamedHandler, name: str, exchange: Exchange) -> Awaitable[None]:
    """Serve a request whose path names something."""
    return handler(exchange, name)


def path_of(scope: Scope) -> str:
    """The path below the place where the application is mounted.

    Servers and frameworks differ on whether ``path`` includes ``root_path``.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return path or "/"
