"""The whole look: every probe apart from the others, then what follows from them."""

import platform
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from ...version import __version__
from .advice import advise
from .compiler import find_compiler, find_kernels
from .finding import Change, Finding, Outlook
from .graphics import find_graphics
from .outlook import look_ahead
from .packages import FLASH, find_flash, find_model, find_packages, find_torch
from .processor import find_memory, find_processor

Probe = Callable[[], Finding]

PROBES: dict[str, Probe] = {
    "processor": find_processor,
    "memory": find_memory,
    "gpu": find_graphics,
    "torch": find_torch,
    **{name: partial(find_flash, name) for name in FLASH},
    "compiler": find_compiler,
    "kernels": find_kernels,
    "packages": find_packages,
    "model": find_model,
}


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, as Legato sees it.

    Args:
        version: Legato's.
        python: Python's.
        system: Name and version of the operating system.
        findings: Each part, in order.
        outlooks: What would run on each device; the first is what ``auto`` takes.
        changes: What would bring more, the most needed first.
    """

    version: str
    python: str
    system: str
    findings: tuple[Finding, ...]
    outlooks: tuple[Outlook, ...]
    changes: tuple[Change, ...]

    @property
    def can_run(self) -> bool:
        """Whether any model can run: the paced ``fake`` always can."""
        needed = (f.state for f in self.findings if f.name in ("torch", "packages"))
        return bool(self.outlooks) and all(state == "ok" for state in needed)


def survey(probes: Mapping[str, Probe] = PROBES) -> Survey:
    """Look at everything; takes as long as its slowest part, some seconds.

    Args:
        probes: By name. One that raises becomes a finding that says so.
    """
    with ThreadPoolExecutor(len(probes)) as threads:
        findings = tuple(threads.map(_found, probes, probes.values()))
    found = {finding.name: finding for finding in findings}
    return Survey(
        version=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        findings=findings,
        outlooks=look_ahead(found),
        changes=advise(found, system_names()),
    )


def system_names() -> str:
    """The operating system's name, and names of those it is like."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return platform.system().lower()
    return f"{release.get('ID', '')} {release.get('ID_LIKE', '')}"


def _found(name: str, probe: Probe) -> Finding:
    try:
        return probe()
    except Exception as error:  # whatever it is, the other parts are of use
        words = str(error) or type(error).__name__
        return Finding(name=name, state="broken", text=" ".join(words.split()))
