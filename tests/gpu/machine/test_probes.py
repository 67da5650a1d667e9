"""Each probe against what machines say, and once against this one."""

import shutil
from pathlib import Path

import pytest

from legato.gpu.machine import compiler, graphics, packages
from legato.gpu.machine.compiler import KernelFacts, find_compiler, find_kernels
from legato.gpu.machine.graphics import find_graphics
from legato.gpu.machine.inquiry import NoAnswer
from legato.gpu.machine.kernel_facts import kernel_facts
from legato.gpu.machine.packages import find_flash, find_packages, find_torch
from legato.gpu.machine.processor import find_memory, find_processor
from legato.gpu.machine.torch_facts import attempt, torch_facts
from legato.gpu.native import build

SMI = """
| NVIDIA-SMI 580.95.05    Driver Version: 580.95.05    CUDA Version: 13.0     |
"""


@pytest.mark.parametrize(
    ("flags", "there", "absent"),
    [
        ("fpu avx2 avx512f avx512_vnni amx_tile", "AVX2, AVX-512, VNNI, AMX", "BF16"),
        ("fpu avx2", "AVX2", "AVX-512, VNNI, BF16, AMX"),
    ],
)
def test_instruction_sets_are_told_by_the_names_people_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: str,
    there: str,
    absent: str,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    path = tmp_path / "cpuinfo"
    path.write_text(f"model name\t: Some CPU\nflags\t\t: {flags}\n\nflags\t: none\n")
    found = find_processor(path)
    assert found.text.startswith("Some CPU, ")
    assert f"; {there}; no {absent}" in found.text
    assert found.facts["instruction_sets"] == there.split(", ")


def test_arm_is_told_by_its_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nFeatures\t: fp asimd asimddp sve\n")
    found = find_processor(path)
    assert found.facts["instruction_sets"] == ["NEON", "DOTPROD", "SVE"]
    assert "; no I8MM" in found.text


def test_a_mac_has_dot_products_though_no_file_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    found = find_processor(tmp_path / "none")
    assert found.facts["instruction_sets"] == ["NEON", "DOTPROD"]


def test_a_processor_that_nothing_is_known_of_is_told_so(tmp_path: Path) -> None:
    assert "instruction sets unknown" in find_processor(tmp_path / "none").text


def test_memory_is_read_from_the_system(tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\nHugePages: 0\n")
    assert find_memory(path).text == "1.0 GiB free of 2.0"
    assert find_memory(tmp_path / "none").state == "missing"


def test_cards_are_told_with_their_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    table = "0, NVIDIA H200, 580.95.05, 143771, 9.0\n" * 2
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(
        graphics, "ask", lambda command, _: table if len(command) > 1 else SMI
    )
    found = find_graphics()
    card = "NVIDIA H200 (143771 MiB)"
    assert found.text == f"{card}, {card}; driver 580.95.05, CUDA up to 13.0"
    assert found.facts["cards"][1]["capability"] == "9.0"


@pytest.mark.parametrize(("tool", "table"), [(None, ""), ("/bin/smi", "\n")])
def test_no_card_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, tool: str | None, table: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: tool)
    monkeypatch.setattr(graphics, "ask", lambda *_: table)
    assert find_graphics().state == "missing"


def test_no_compiler_is_told_with_those_that_were_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert find_compiler().text == "no C++ compiler (c++, g++, clang++)"
    assert kernel_facts().fault == "no C++ compiler (c++, g++, clang++)"


def test_a_compiler_is_told_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "compiler_command", lambda: ["/bin/c++", "-O3"])
    monkeypatch.setattr(compiler, "ask", lambda *_: "c++ 12.2.0\nCopyright\n")
    assert find_compiler().text == "/bin/c++: c++ 12.2.0"


@pytest.mark.parametrize(
    ("facts", "state", "told"),
    [
        (b'{"path": "k.so"}', "ok", "not yet compiled"),
        (b'{"path": "k.so", "compiled": true}', "ok", "without this processor's"),
        (b'{"path":"k","compiled":true,"vectorised":true}', "ok", "compiled: k"),
        (b'{"fault": "LEGATO_NATIVE is 0"}', "missing", "LEGATO_NATIVE is 0"),
    ],
)
def test_kernels_are_told_as_they_are(
    monkeypatch: pytest.MonkeyPatch, facts: bytes, state: str, told: str
) -> None:
    monkeypatch.setattr(compiler, "ask_facts", lambda *_: facts)
    found = find_kernels()
    assert found.state == state
    assert told in found.text


def test_facts_that_cannot_be_read_are_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for room in (compiler, packages):
        monkeypatch.setattr(room, "ask_facts", lambda *_: b"[")
    for probe in (find_kernels, find_torch):
        with pytest.raises(NoAnswer):
            probe()


def test_kernels_that_do_not_load_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEGATO_CACHE", str(tmp_path))
    monkeypatch.delenv("LEGATO_NATIVE", raising=False)
    try:
        path, _ = build.library_path()
    except build.KernelsUnavailable as error:
        pytest.skip(str(error))
    assert kernel_facts() == KernelFacts(str(path))
    path.write_bytes(b"not a library")
    assert kernel_facts().fault.startswith("loading: ")


def test_what_is_not_installed_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda _: None)
    assert find_torch().state == "missing"
    assert find_flash("flash-attn 3").state == "missing"
    assert find_packages().facts["missing"] == list(packages.NEEDED)


def test_a_package_that_cannot_be_imported_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flash_attn.py").write_text("raise ImportError('undefined symbol: x')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NoAnswer, match="undefined symbol: x"):
        find_flash("flash-attn 2")


def test_torch_tells_the_choices_of_the_execution_room() -> None:
    facts = torch_facts()
    assert facts["devices"]["cpu"]["dtype"] in ("float32", "bfloat16")
    names = [one["name"] for one in facts["devices"]["cpu"]["attention"]]
    assert "paged" in names
    assert bool(facts["gpus"]) == ("cuda" in facts["devices"])


def test_a_part_of_torch_that_fails_leaves_the_others() -> None:
    faults: dict[str, str] = {}

    def fail() -> None:
        raise RuntimeError("no\ndriver")

    assert attempt(faults, "cuda", fail) is None
    assert attempt(faults, "cpu", lambda: 1) == 1
    assert faults == {"cuda": "RuntimeError: no driver"}
