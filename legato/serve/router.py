"""Which path is served by whom.

A table, not a framework: the paths are few, known, and without patterns but for one.
"""

from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches

from starlette.types import Scope

from ..protocol.openai.refusal import Refusal
from .exchange import Exchange

Handler = Callable[[Exchange], Awaitable[None]]


HINTS = {
    "/": "the API is under /v1; see also /health, /metrics and /debug",
    "/v1": "nothing here itself; see /v1/models, /v1/chat/completions",
    "/v1/responses": "responses are served over WebSocket only, at this path",
    "/v1/embeddings": "embeddings are not served",
}


class Router:
    """Finds the handler of a request.

    Args:
        routes: (path, method) to handler.
        models: Serves ``/v1/models/{name}``; names may hold slashes.
    """

    MODELS = "/v1/models/"

    def __init__(
        self,
        routes: Mapping[tuple[str, str], Handler],
        models: Callable[[Exchange, str], Awaitable[None]],
    ) -> None:
        self._models = models
        self._by_path: dict[str, dict[str, Handler]] = {}
        for (path, method), handler in routes.items():
            self._by_path.setdefault(path, {})[method] = handler

    def find(self, path: str, method: str) -> tuple[str, Handler]:
        """Return the route's name and its handler.

        Raises:
            Refusal: 404 for a path nobody knows, 405 for a method it does not have.
        """
        # A HEAD is a GET whose body is not sent.
        method = "GET" if method == "HEAD" else method
        if path.startswith(self.MODELS) and len(path) > len(self.MODELS):
            name = path.removeprefix(self.MODELS)
            handlers: dict[str, Handler] = {"GET": lambda e: self._models(e, name)}
            path = f"{self.MODELS}{{name}}"
        elif path in self._by_path:
            handlers = self._by_path[path]
        else:
            if path in HINTS:
                raise Refusal(404, "not_found", f"{path}: {HINTS[path]}")
            near = get_close_matches(path, self._by_path, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise Refusal(404, "not_found", f"there is nothing at {path}{hint}")
        if method not in handlers:
            allowed = ", ".join(sorted(handlers))
            raise Refusal(
                405, "method_not_allowed", f"{path} takes {allowed}, not {method}"
            )
        return path, handlers[method]

    def routes(self) -> frozenset[tuple[str, str]]:
        """Every path and method there is, patterns as such."""
        pairs = {(path, m) for path, ms in self._by_path.items() for m in ms}
        return frozenset(pairs | {(f"{self.MODELS}{{name}}", "GET")})

    def methods(self, path: str) -> str:
        """The methods of a path, for the ``Allow`` header."""
        handlers = self._by_path.get(path, {"GET": None})
        return ", ".join(sorted(handlers))


def path_of(scope: Scope) -> str:
    """The path below the place where the application is mounted.

    Servers and frameworks differ on whether ``path`` includes ``root_path``.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return path or "/"
