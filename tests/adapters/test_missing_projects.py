"""Without its project an adapter says in one sentence what to install."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("adapter", "module", "project"),
    [
        ("sklearn", "sklearn.base", "scikit-learn"),
        ("river", "river.active.base", "River"),
        ("skactiveml", "skactiveml.base", "scikit-activeml"),
    ],
)
def test_a_missing_project_is_named_with_the_extra_to_install(monkeypatch, adapter, module, project):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"osamd.adapters.{adapter}", raising=False)
    with pytest.raises(ImportError) as refused:
        importlib.import_module(f"osamd.adapters.{adapter}")
    said = f'`import osamd.adapters.{adapter}`: it needs {project}; run pip install "osamd[{adapter}]".'
    assert str(refused.value) == said


def test_an_export_without_onnx_is_refused_likewise(monkeypatch, tmp_path):
    import osamd
    from osamd.adapters import onnx

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'it needs onnx; run pip install "osamd\[onnx\]"'):
        onnx.export(osamd.OSAMD(features=2), tmp_path / "learner.onnx")
