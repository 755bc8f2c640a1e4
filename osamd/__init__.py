"""osamd: keep a classifier right on a drifting stream while asking for very few labels.

Online Self-Adaptive Mirror Descent, from the paper "Online Continual Adaptation with Active Self-Training".
`osamd.OSAMD` is the object to hold (ask, tell); `osamd.NetworkOSAMD` is the same around a network. To run experiments
start with `osamd.paper.methods` (what to run), `osamd.streams` (what to run it on) and `osamd.paper.play` (running it).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osamd.errors import InputError as InputError
    from osamd.learner.decision import Decision as Decision
    from osamd.learner.linear import OSAMD as OSAMD
    from osamd.learner.network import NetworkOSAMD as NetworkOSAMD
    from osamd.prequential.sweeps import sweep as sweep

__version__ = "0.1.0"

__all__ = ["OSAMD", "Decision", "InputError", "NetworkOSAMD", "__version__", "sweep"]

_STANDS_IN = {
    "OSAMD": "osamd.learner.linear",
    "NetworkOSAMD": "osamd.learner.network",
    "Decision": "osamd.learner.decision",
    "InputError": "osamd.errors",
    "sweep": "osamd.prequential.sweeps",
}


def __getattr__(name: str) -> Any:
    # The compiler behind a learner takes a second to import, which `import osamd` need not.
    if name in _STANDS_IN:
        from importlib import import_module

        return getattr(import_module(_STANDS_IN[name]), name)
    raise AttributeError(f"module 'osamd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
