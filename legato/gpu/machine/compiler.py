"""The C++ compiler, and the kernels that it makes."""

import msgspec

from ..native.build import KernelsUnavailable, compiler_command
from .finding import Finding
from .inquiry import NoAnswer, ask, ask_facts

TIMEOUT_S = 20.0


class KernelFacts(msgspec.Struct, frozen=True):
    """What a child found out about the kernels.

    Args:
        path: The library, or where it will be.
        compiled: It is there.
        vectorised: It is, and is made for this processor's vectors.
        fault: Why there can be none, or "".
    """

    path: str = ""
    compiled: bool = False
    vectorised: bool = False
    fault: str = ""


def find_compiler() -> Finding:
    """Look for the compiler and ask its version.

    Raises:
        NoAnswer: It does not run.
    """
    try:
        path = compiler_command()[0]
    except KernelsUnavailable as error:
        return Finding(name="compiler", state="missing", text=str(error))
    first = (ask([path, "--version"], TIMEOUT_S).splitlines() or ["?"])[0]
    facts = {"path": path, "version": first}
    return Finding(name="compiler", state="ok", text=f"{path}: {first}", facts=facts)


def find_kernels() -> Finding:
    """Look whether the kernels are compiled, and load them if they are.

    Raises:
        NoAnswer: Loading them kills the process that tries.
    """
    module = f"{__package__}.kernel_facts"
    try:
        facts = msgspec.json.decode(ask_facts(module, TIMEOUT_S), type=KernelFacts)
    except msgspec.MsgspecError as error:
        raise NoAnswer(str(error)) from error
    as_dict = msgspec.to_builtins(facts)
    if facts.fault:
        return Finding(name="kernels", state="missing", text=facts.fault, facts=as_dict)
    if not facts.compiled:
        text = "not yet compiled: that takes some seconds, at the first start"
    elif facts.vectorised:
        text = f"compiled: {facts.path}"
    else:
        text = f"compiled, but without this processor's vectors: {facts.path}"
    return Finding(name="kernels", state="ok", text=text, facts=as_dict)
