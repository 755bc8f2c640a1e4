"""The benchmark of large networks, on small ones."""

import pytest

torch = pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")

from torch import nn  # noqa: E402

from benchmarks import backbone_modules, backbones  # noqa: E402


def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 224 * 224, 16), nn.ReLU(), nn.Linear(16, 10))


@pytest.mark.parametrize("learn", ["head", "low-rank"])
def test_what_a_learner_holds_beside_its_module_is_counted_without_the_module(learn):
    case = backbones.Case("small", small, learn, backbones.image, 10)
    row = backbones.measure(case, torch.device("cpu"), 2)
    assert row.module_mib == pytest.approx((3 * 224 * 224 * 16 + 16 + 170) * 4 / 2**20)
    width = 16 if learn == "head" else 3 * 224 * 224
    assert row.remembered_mib == pytest.approx(768 * width * 4 / 2**20)
    if learn == "head":
        assert row.learns_mib == pytest.approx(170 * 4 / 2**20)
        assert row.besides_mib < 0.01 * row.module_mib
    else:
        assert row.besides_mib > row.module_mib, "the weights that get factors are the learner's own"


def test_the_networks_have_the_sizes_that_they_are_named_for():
    made = (backbone_modules.resnet18(1000), backbone_modules.ViTSmall(1000))
    assert [sum(p.numel() for p in module.parameters()) for module in made] == [11_689_512, 22_050_664]
