"""One thread for the libraries of linear algebra: small matrices gain nothing from more, and two workers lose much."""

import os

# Read when numpy and torch are first imported, here and in the processes that tests start.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
