"""The paper's real data sets as streams: Rotating MNIST, Portraits and Cover-Type; and Corrupted MNIST."""

from __future__ import annotations

from osamd.streams.real.corrupted_mnist import corrupted_mnist
from osamd.streams.real.cover_type import cover_type
from osamd.streams.real.mnist import rotating_mnist
from osamd.streams.real.portraits import portraits
from osamd.streams.real.recorded import RealStream

__all__ = ["RealStream", "corrupted_mnist", "cover_type", "portraits", "rotating_mnist"]
