"""What is built and shipped."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as an installer would."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    build.append("--no-build-isolation")  # nothing is fetched in a test
    subprocess.run([*build, "--wheel-dir", str(out), str(ROOT)], check=True)
    (built,) = out.glob("legato*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"legato"}


def test_the_wheel_holds_every_file_of_the_package(wheel: Path):
    kept = {".py", ".html", ".css", ".js", ".ts", ".h", ".cpp"}
    files = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.joinpath("legato").rglob("*")
        if path.suffix in kept
    }
    assert "legato/serve/playground/page/page.html" in files
    with zipfile.ZipFile(wheel) as archive:
        assert files <= set(archive.namelist())


def test_the_wheel_runs_in_an_environment_of_its_own(wheel: Path, tmp_path: Path):
    """It sees this environment's dependencies, and not the checkout."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    site = next((home / "lib").glob("python*")) / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    here = Path(sys.prefix) / "lib" / site.parent.name / "site-packages"
    (site / "dependencies.pth").write_text(f"{here}\n")
    code = (
        "import asyncio, legato\n"
        f"assert legato.__file__.startswith({str(site)!r}), legato.__file__\n"
        "async def main():\n"
        "    async with legato.Engine('fake') as engine:\n"
        "        params = legato.SamplingParams(max_tokens=3, ignore_eos=True)\n"
        "        answer = await engine.generate('hi', params)\n"
        "        print(len(answer.token_ids))\n"
        "asyncio.run(main())\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    ran = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert ran.stderr == ""
    assert ran.stdout == "3\n"
