"""osamd behind the interfaces of scikit-learn, River and scikit-activeml; each adapter passes that project's checks.

    from osamd.adapters.sklearn import OSAMDClassifier           pip install "osamd[sklearn]"
    from osamd.adapters.river import OSAMDActive, OSAMDClassifier      pip install "osamd[river]"
    from osamd.adapters.skactiveml import MarginQuery, OSAMDBudgetManager     pip install "osamd[skactiveml]"

They are thin: `osamd.OSAMD` and `osamd.accounting` do the work.
"""

from __future__ import annotations


def needs(project: str, extra: str) -> ImportError:
    """The error for an adapter whose project is not installed.

    >>> str(needs("River", "river"))
    '`import osamd.adapters.river`: it needs River; run pip install "osamd[river]".'
    """
    return ImportError(f'`import osamd.adapters.{extra}`: it needs {project}; run pip install "osamd[{extra}]".')
