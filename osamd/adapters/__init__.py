"""osamd behind the interfaces of scikit-learn, River and scikit-activeml; each adapter passes that project's checks.
And ways out: a frozen learner for ONNX runtimes, runs and models for MLflow, and a folder for a model hub.

    from osamd.adapters.sklearn import OSAMDClassifier           pip install "osamd[sklearn]"
    from osamd.adapters.river import OSAMDActive, OSAMDClassifier      pip install "osamd[river]"
    from osamd.adapters.skactiveml import MarginQuery, OSAMDBudgetManager     pip install "osamd[skactiveml]"

    from osamd.adapters.onnx import export           pip install "osamd[onnx]"
    from osamd.adapters.mlflow import log_model, log_run           pip install "osamd[mlflow]"
    from osamd.adapters.hub import load_folder, save_folder

They are thin: `osamd.OSAMD` and `osamd.accounting` do the work.
"""

from __future__ import annotations


def needs(project: str, extra: str) -> ImportError:
    """The error for an adapter whose project is not installed.

    >>> str(needs("River", "river"))
    '`import osamd.adapters.river`: it needs River; run pip install "osamd[river]".'
    """
    return ImportError(f'`import osamd.adapters.{extra}`: it needs {project}; run pip install "osamd[{extra}]".')
