"""Augmentation: what it does to an image, that it is even and repeatable, and where it is used."""

import numpy as np
import pytest
import torch
from fleet_cases import convolutional
from scipy.ndimage import map_coordinates
from torch import nn

from osamd import NetworkOSAMD
from osamd.errors import InputError
from osamd.fleet import augmentation
from osamd.fleet.augmentation import AMOUNTS, Augmentation, moved, multipliers

MIDDLE = 0.5


def images(count, height=28, width=28, channels=1):
    generator = torch.Generator().manual_seed(count)
    return torch.rand(count, channels, height, width, generator=generator, dtype=torch.float64)


def amounts(count, **given):
    """Amounts that change nothing, but for those that are given by their place."""
    rows = torch.full((count, 4), MIDDLE, dtype=torch.float64)
    for place, value in given.items():
        rows[:, int(place.removeprefix("at"))] = value
    return rows


def in_light(x, *, contrast=MIDDLE, light=MIDDLE, noise=0.0, start=0.0):
    rows = torch.tensor([[contrast, light, noise, start]], dtype=torch.float64).expand(len(x), -1)
    return Augmentation(x[0].numel(), x.device, x.dtype).lit(x, rows)


def test_the_middle_of_all_amounts_changes_nothing():
    x = images(3, 28, 20, channels=2)
    torch.testing.assert_close(moved(x, amounts(3)), x, rtol=0, atol=1e-12)
    torch.testing.assert_close(in_light(x), x, rtol=0, atol=1e-12)


def test_the_largest_move_of_a_digit_is_two_pixels_and_its_edge_goes_on():
    x = images(2)
    right = moved(x, amounts(2, at2=1.0))
    torch.testing.assert_close(right[..., :-2], x[..., 2:], rtol=0, atol=1e-9)
    torch.testing.assert_close(right[..., -1], x[..., -1], rtol=0, atol=1e-9)
    torch.testing.assert_close(moved(x, amounts(2, at3=0.0))[:, :, 2:], x[:, :, :-2], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("turn", "scale"), [(1.0, MIDDLE), (0.0, MIDDLE), (MIDDLE, 1.0), (0.2, 0.1)])
@pytest.mark.parametrize("shape", [(28, 28), (20, 36)])
def test_turns_and_scales_are_those_of_scipy(turn, scale, shape):
    x = images(1, *shape)
    angle, size = augmentation.TURN * (2 * turn - 1), np.exp(augmentation.SCALE * (2 * scale - 1))
    rows, columns = np.indices(shape, dtype=float)
    middle = np.array(shape) / 2 - 0.5
    down, across = rows - middle[0], columns - middle[1]
    places = [
        middle[0] + size * (np.sin(angle) * across + np.cos(angle) * down),
        middle[1] + size * (np.cos(angle) * across - np.sin(angle) * down),
    ]
    expected = map_coordinates(x[0, 0].numpy(), places, order=1, mode="nearest")
    found = moved(x, amounts(1, at0=turn, at1=scale))[0, 0].numpy()
    assert np.allclose(found, expected, rtol=0, atol=1e-9)


def test_contrast_and_light_change_deviation_and_mean_alone():
    x = images(4, channels=3)
    deviation, mean = torch.std_mean(x.flatten(1), 1, correction=0)
    brighter = in_light(x, light=1.0).flatten(1)
    torch.testing.assert_close(brighter.mean(1), mean + augmentation.LIGHT * deviation)
    sharper = in_light(x, contrast=1.0).flatten(1)
    torch.testing.assert_close(sharper.std(1, correction=0), np.exp(augmentation.CONTRAST) * deviation)
    torch.testing.assert_close(sharper.mean(1), mean)


def test_noise_is_normal_in_deviations_of_the_image_and_differs_by_its_start():
    x = images(1, 64, 64)
    added = (in_light(x, noise=1.0) - x) / x.std(correction=0) / augmentation.NOISE
    assert abs(float(added.mean())) < 0.05
    assert float(added.std()) == pytest.approx(1.0, abs=0.05)
    other = (in_light(x, noise=1.0, start=0.37) - x).flatten()
    assert abs(float(torch.corrcoef(torch.stack([other, added.flatten()]))[0, 1])) < 0.06


def test_an_image_of_one_grey_stays_as_it_is():
    grey = torch.full((1, 2, 1, 10, 10), 0.3)
    torch.testing.assert_close(
        Augmentation(100, grey.device, grey.dtype)(grey, torch.tensor([5])), grey, rtol=0, atol=1e-6
    )


def test_the_multiples_fill_every_two_sides_of_their_cube_evenly():
    found = np.arange(4096)[:, None] * multipliers(AMOUNTS) % 1.0
    for i in range(AMOUNTS):
        for j in range(i):
            counts = np.histogram2d(found[:, i], found[:, j], bins=8, range=[[0, 1], [0, 1]])[0]
            assert counts.min() > 40 < 64 < 90 > counts.max(), "64 are expected in each of the 64 cells"


def test_variations_repeat_by_their_number_and_do_not_depend_on_the_other_models():
    x, numbers = torch.rand(3, 5, 1, 12, 10), torch.tensor([4, 4, 9])
    vary = Augmentation(120, x.device, x.dtype)
    together = vary(x, numbers)
    assert torch.equal(together, vary(x, numbers))
    for i in range(3):
        assert torch.equal(vary(x[i : i + 1], numbers[i : i + 1])[0], together[i])
    same = vary(x[:1].expand(3, -1, -1, -1, -1), numbers)
    assert torch.equal(same[0], same[1])
    assert not torch.allclose(same[0], same[2])
    alike = vary(x[:1, :1].expand(-1, 5, -1, -1, -1), numbers[:1])[0]
    assert not torch.allclose(alike[0], alike[1]), "each sample of a batch in its own way"


def tried(module, sample, **kinds):
    learner = NetworkOSAMD(module, budget=0.5, **kinds)
    for seed in range(12):
        x = torch.rand(*sample, generator=torch.Generator().manual_seed(seed))
        decision = learner.ask(x)
        learner.tell(decision, seed % 3 if decision.query else None)
    return learner


def varies(learner):
    return learner._core.fleet.augmented is not None


def test_images_in_networks_with_convolutions_are_varied_and_nothing_else_is():
    dense = nn.Sequential(nn.Flatten(), nn.Linear(81, 3))
    small = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(50, 3))
    assert varies(tried(convolutional(), (1, 9, 9)))
    assert not varies(tried(convolutional(), (1, 9, 9), augment=False))
    assert not varies(tried(convolutional(), (1, 9, 9), learn="head")), "features of a frozen body"
    assert not varies(tried(dense, (1, 9, 9)))
    assert varies(tried(dense, (1, 9, 9), augment=True))
    assert not varies(tried(small, (1, 7, 7))), "too small to be moved"


def test_variations_change_what_is_learned_in_small_dense_networks_too():
    dense = nn.Sequential(nn.Flatten(), nn.Linear(81, 3))
    learned = [tried(dense, (1, 9, 9), augment=augment)._core.fleet.networks for augment in (True, False)]
    assert not torch.equal(*learned)


def test_samples_much_longer_than_wide_are_varied_on_request_alone():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 6 * 18, 3))
    assert not varies(tried(module, (1, 8, 20)))
    assert varies(tried(module, (1, 8, 20), augment=True))


class Strict(nn.Module):
    """Takes values from 0 to 1 alone: it raises, or its logarithm is no number."""

    def __init__(self, raises):
        super().__init__()
        self.rest, self.raises = convolutional(), raises

    def forward(self, x):
        if self.raises and bool((x < 0.0).any()):
            raise ValueError("pixels must not be negative")
        return self.rest(x if self.raises else torch.log(x + 1e-3))


@pytest.mark.parametrize("raises", [False, True])
def test_a_module_that_takes_no_varied_images_learns_from_them_as_they_are(raises):
    learner = tried(Strict(raises), (1, 9, 9))
    assert not varies(learner)
    assert not torch.equal(learner._core.fleet.networks[0], learner._core.fleet.networks[2]), "it learns"
    with pytest.raises(InputError, match="leave augment out"):
        tried(Strict(raises), (1, 9, 9), augment=True)


class Scaled(nn.Module):
    """Divides by the image's own deviation, so a blank image has no finite gradient."""

    def __init__(self):
        super().__init__()
        self.rest = convolutional()

    def forward(self, x):
        return self.rest((x - x.mean((2, 3), keepdim=True)) / x.std((2, 3), keepdim=True))


def test_a_learner_is_made_again_from_its_file_without_a_trial_on_a_blank_image():
    learner = tried(Scaled(), (1, 9, 9))
    assert varies(learner)
    again = NetworkOSAMD.from_bytes(learner.to_bytes(), Scaled())
    assert varies(again)
    assert varies(learner.copy())


def test_a_blank_first_image_does_not_hide_that_a_module_takes_no_varied_ones():
    learner = NetworkOSAMD(Strict(raises=True), budget=0.9)
    learner.tell(learner.ask(torch.zeros(1, 9, 9)), 0)
    assert not varies(learner)


def test_a_module_that_fails_for_varied_images_later_names_the_remedy(monkeypatch):
    learner = tried(convolutional(), (1, 9, 9))
    monkeypatch.setattr(learner._core, "_descend", lambda x: 1 / 0)
    with pytest.raises(InputError, match=r"cannot take varied images .*augment=False"):
        learner.tell(learner.ask(torch.rand(1, 9, 9)), 0)


@pytest.mark.parametrize("augment", [None, False])
def test_a_file_says_whether_images_are_varied_and_the_learner_goes_on_as_before(augment):
    learner = tried(convolutional(), (1, 9, 9), augment=augment)
    again = NetworkOSAMD.from_bytes(learner.to_bytes(), convolutional())
    assert varies(again) == varies(learner) == (augment is None)
    for seed in range(20):
        x = torch.rand(1, 9, 9, generator=torch.Generator().manual_seed(50 + seed))
        ours, theirs = learner.ask(x), again.ask(x)
        assert ours.probabilities == theirs.probabilities
        for one, decision in ((learner, ours), (again, theirs)):
            one.tell(decision, seed % 3 if decision.query else None)


@pytest.mark.parametrize(
    ("module", "sample", "kinds", "says"),
    [
        (nn.Linear(4, 3), (4,), {"augment": True}, "shape (4,)"),
        (convolutional(), (1, 9, 9), {"augment": True, "learn": "head"}, "the body is frozen"),
        (convolutional(), (1, 9, 9), {"augment": "yes"}, "give True or False"),
        (convolutional(), (1, 9, 9), {"augment": True, "method": "osamd", "eta": 0.1, "sigma": 0.1}, "replay nothing"),
    ],
)
def test_what_cannot_be_varied_is_refused_with_the_reason(module, sample, kinds, says):
    with pytest.raises(InputError) as refused:
        tried(module, sample, **kinds)
    assert says in str(refused.value)
