"""osamd: keep a classifier right on a drifting stream while asking for very few labels.

Online Self-Adaptive Mirror Descent, from the paper "Online Continual Adaptation with Active Self-Training".
`osamd.OSAMD` is the object to hold (ask, tell); `osamd.learner.network.OSAMD` is the same around a network. To run
experiments start with `osamd.paper.methods` (what to run), `osamd.streams` (what to run it on) and `osamd.paper.play`
(running it).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osamd.learner.linear import OSAMD as OSAMD

__version__ = "0.1.0"

__all__ = ["OSAMD", "__version__"]


def __getattr__(name: str) -> Any:
    # The compiler behind a learner takes a second to import, which `import osamd` need not.
    if name == "OSAMD":
        from osamd.learner.linear import OSAMD

        return OSAMD
    raise AttributeError(f"module 'osamd' has no attribute {name!r}")
