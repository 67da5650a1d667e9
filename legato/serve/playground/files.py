"""Which files the playground has, and where they are served."""

from importlib.resources import files

from ..page import Page
from ..router import Handler

FOLDER = files(__package__ or __name__)

PATHS = {
    "/": "page/page.html",
    "/legato.js": "legato.js",
    "/legato.d.ts": "legato.d.ts",
    **{
        f"/playground/{file.name}": f"page/{file.name}"
        for file in FOLDER.joinpath("page").iterdir()
        if file.name.endswith((".js", ".css"))
    },
}
OPEN_PATHS = frozenset(PATHS)


def playground() -> dict[tuple[str, str], Handler]:
    """Path and method to handler."""
    return Page(FOLDER, PATHS).routes()
