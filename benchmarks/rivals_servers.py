"""How each rival is started, and where it is looked for."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

HERE = Path(__file__).parent
EXACT = {"ignore_eos": True}


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAI-compatible server, or a script that runs the workloads by itself.

    Args:
        name: In the table.
        command: To start it; of a server, with its port.
        needs: Must exist, or it is not installed.
        install: What to run then.
        model: What it calls its model.
        extras: Fields of a request beyond the common ones.
        environment: Beside this process's own.
        serves: Whether it is a server.
    """

    name: str
    command: Callable[[int], Sequence[str]]
    needs: Path
    install: str
    model: str = "model"
    extras: dict[str, Any] = {}
    environment: dict[str, str] = {}
    serves: bool = True


def known(home: Path, threads: int) -> list[Server]:
    """All that can be compared, Legato first.

    Args:
        home: Where ``rivals_setup.sh`` put them.
        threads: Of each.
    """
    return [
        _legato(threads),
        *_llamacpp(home, threads),
        *_openvino(home, threads),
        _vllm(home, threads),
        _transformers(home, threads),
    ]


def _install(home: Path, name: str) -> str:
    return f"benchmarks/rivals_setup.sh {home} {name}"


def _legato(threads: int) -> Server:
    def command(port: int) -> Sequence[str]:
        of = (sys.executable, "-m", "legato", "serve", "--model", "smollm2")
        return (*of, "--port", str(port), "--threads", str(threads))

    return Server(
        name="legato",
        command=command,
        needs=Path(sys.executable),
        install="",
        model="smollm2",
        extras=EXACT,
    )


def _llamacpp(home: Path, threads: int) -> list[Server]:
    # No one setting is best everywhere: quantized keys and flash attention gain with
    # many streams, plain attention with long prompts.
    settings = {
        "llama.cpp": ("-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"),
        "llama.cpp plain": ("-fa", "off"),
    }

    def starter(more: Sequence[str]) -> Callable[[int], Sequence[str]]:
        def command(port: int) -> Sequence[str]:
            count = str(threads)
            return (
                str(home / "llamacpp" / "server"),
                *("-m", str(home / "model.gguf"), "--alias", "model"),
                *("--port", str(port), "-t", count, "-tb", count),
                *("--parallel", "32", "-cb", "-c", "65536", "--cache-ram", "0"),
                *("--no-webui", "--samplers", "temperature", *more),
            )

        return command

    return [
        Server(
            name=name,
            command=starter(more),
            needs=home / "llamacpp" / "server",
            install=_install(home, "llamacpp"),
            extras=EXACT,
        )
        for name, more in settings.items()
    ]


def _openvino(home: Path, threads: int) -> list[Server]:
    def starter(model: Path) -> Callable[[int], Sequence[str]]:
        def command(_port: int) -> Sequence[str]:
            python = home / "openvino" / "bin" / "python"
            script = HERE / "rivals_openvino.py"
            return (str(python), str(script), str(model), str(threads))

        return command

    return [
        Server(
            name=f"openvino {kind}",
            command=starter(home / f"model-openvino-{kind}"),
            needs=home / f"model-openvino-{kind}" / "openvino_model.xml",
            install=_install(home, "transformers openvino"),
            serves=False,
        )
        for kind in ("fp16", "int8")
    ]


def _vllm(home: Path, threads: int) -> Server:
    def command(port: int) -> Sequence[str]:
        return (
            *(str(home / "vllm" / "bin" / "vllm"), "serve", str(home / "model-hf")),
            *("--served-model-name", "model", "--port", str(port)),
            *("--dtype", "bfloat16", "--max-model-len", "2048", "--max-num-seqs", "64"),
        )

    return Server(
        name="vllm",
        command=command,
        needs=home / "vllm" / "bin" / "vllm",
        install=_install(home, "transformers vllm"),
        extras=EXACT,
        environment={
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "4",
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",
            "PATH": f"{home / 'vllm' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        },
    )


def _transformers(home: Path, threads: int) -> Server:
    model = str(home / "model-hf")

    def command(port: int) -> Sequence[str]:
        return (
            str(home / "transformers" / "bin" / "transformers"),
            *("serve", model, "--host", "127.0.0.1", "--port", str(port)),
            *("--device", "cpu", "--dtype", "bfloat16", "--continuous-batching"),
            *("--cb-max-memory-percent", "0.25"),
        )

    return Server(
        name="transformers",
        command=command,
        needs=home / "transformers" / "bin" / "transformers",
        install=_install(home, "transformers"),
        model=model,
        environment={"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(threads)},
    )
