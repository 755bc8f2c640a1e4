"""What the adapters play is compiled once, even where two workers begin with them at the same time."""

import fcntl

import pytest

from osamd import OSAMD


@pytest.fixture(scope="session")
def compiled_learners(tmp_path_factory):
    """The first worker compiles while others wait; they find the code on disk instead of compiling it again."""
    with (tmp_path_factory.getbasetemp().parent / "compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for settings in ({}, {"method": "osamd"}, {"method": "osamd", "classes": 3}):
            learner = OSAMD(features=2, **settings)
            learner.tell(learner.ask([1.0, 2.0]), 1)
