"""The playground's files: strict about what they load, open, and switchable."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import legato.serve.playground
from legato.serve.playground import OPEN_PATHS

SCRIPTS = Path(legato.serve.playground.__file__).parent
UNITS = sorted(Path(__file__).parent.glob("*.test.mjs"))
UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function"
    r"|setAttribute\(\"on|srcdoc|DOMParser|createContextualFragment"
)


@pytest.mark.anyio
@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
async def test_every_file_is_served_without_a_key_under_a_strict_policy(
    make_app, call, path
):
    answer = await call("GET", path, app=make_app(api_keys=("secret",)))
    assert answer.status == 200
    assert len(answer.body) > 100
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy


@pytest.mark.anyio
async def test_a_file_that_the_browser_has_is_not_sent_again(call):
    first = await call("GET", "/legato.js")
    tag = {"if-none-match": first.headers["etag"]}
    again = await call("GET", "/legato.js", headers=tag)
    assert (again.status, again.body) == (304, b"")
    assert again.headers["content-security-policy"]
    other = await call("GET", "/legato.js", headers={"if-none-match": '"x"'})
    assert other.status == 200


@pytest.mark.anyio
async def test_it_can_be_switched_off(make_app, call):
    app = make_app(playground=False)
    for path in OPEN_PATHS:
        assert (await call("GET", path, app=app)).status == 404
    hint = (await call("GET", "/", app=app)).json["error"]["message"]
    assert "switched off" in hint
    described = (await call("GET", "/openapi.json", app=app)).json["paths"]
    assert not OPEN_PATHS & set(described)


@pytest.mark.anyio
async def test_the_page_loads_nothing_but_files_that_are_served(call):
    page = (await call("GET", "/")).body.decode()
    linked = re.findall(r'\b(?:src|href)="([^"#]+)"', page)
    own = {link for link in linked if not link.startswith("data:")}
    assert own
    assert {f"/{link}" for link in own} <= OPEN_PATHS
    assert not re.search(r"<style|<script>|\bstyle=|\bon\w+=", page)
    for path in sorted(OPEN_PATHS):
        if path.endswith(".js"):
            script = (await call("GET", path)).body.decode()
            for name in re.findall(r'^import .* from "(.*)";$', script, re.MULTILINE):
                assert served(path, name) in OPEN_PATHS


def served(importer: str, name: str) -> str:
    folder = importer.rsplit("/", 1)[0]
    if name.startswith("../"):
        return folder.rsplit("/", 1)[0] + name[2:]
    assert name.startswith("./")
    return folder + name[1:]


@pytest.mark.anyio
async def test_every_element_the_script_asks_for_is_in_the_page(call):
    page = (await call("GET", "/")).body.decode()
    script = (await call("GET", "/playground/app.js")).body.decode()
    wanted = set(re.findall(r'\$\("([\w-]+)"\)', script))
    assert wanted
    assert wanted <= set(re.findall(r'id="([\w-]+)"', page))


def test_no_script_makes_a_document_from_text():
    scripts = sorted(SCRIPTS.rglob("*.js"))
    assert len(scripts) > 10
    assert [file.name for file in scripts if UNSAFE.search(file.read_text())] == []


def test_every_module_but_the_client_fits_in_a_room():
    modules = sorted(SCRIPTS.joinpath("page").glob("*.js"))
    long = [m.name for m in modules if len(m.read_text().splitlines()) > 300]
    assert not long


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_scripts_pass_their_own_tests(unit: Path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node (>= 20)")
    ran = subprocess.run(
        [node, "--test", "--test-reporter=tap", "--test-timeout=30000", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "# pass 0" not in ran.stdout
