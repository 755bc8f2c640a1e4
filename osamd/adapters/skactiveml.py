"""The margin query and its budget for the stream loops of scikit-activeml.

    clf = SklearnClassifier(OSAMDClassifier(), classes=[0, 1], include_unlabeled_samples=True)
    strategy = MarginQuery(budget=0.1)
    for x in stream:
        asked, utilities = strategy.query(candidates=[x], clf=clf, return_utilities=True)
        strategy.update([x], asked, budget_manager_param_dict={"utilities": utilities})
        clf.partial_fit([x], [label_of(x) if len(asked) else nan])       # it learns from unlabelled rounds, too

`query` changes nothing: it draws the same uniforms until `update` has counted its candidates.
"""

from __future__ import annotations

import numbers
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from osamd.accounting import book as books
from osamd.accounting import budget as budgets
from osamd.accounting import steering
from osamd.adapters import needs
from osamd.errors import InputError
from osamd.numerics import Array
from osamd.paper.queries import query_probability
from osamd.streams.base import query_generator

try:
    from skactiveml.base import BudgetManager  # type: ignore[import-untyped]
    from skactiveml.stream import UncertaintyZliobaite  # type: ignore[import-untyped]
    from sklearn.utils import check_random_state  # type: ignore[import-untyped]
except ImportError:
    raise needs("scikit-activeml", "skactiveml") from None

Indices = NDArray[np.int64]

WORTHLESS = 1e-6
"""The least utility: a margin of a million, which is asked for with the budget's floor, whatever sigma is."""


def utility_of(margin: Array) -> Array:
    """1 / (1 + margin): the probability of the query if sigma is 1, so the least sure sample is worth most.

    >>> utility_of(np.array([0.0, 1.0, 3.0])).tolist()
    [1.0, 0.5, 0.25]
    """
    return 1.0 / (1.0 + margin)


def margin_of(utility: Array) -> Array:
    """The margin from its utility. A utility above 1 is a margin of 0; one below 0, or nan, is worth nothing.

    >>> margin_of(np.array([2.0, 1.0, 0.5, 0.25])).tolist()
    [0.0, 0.0, 1.0, 3.0]
    """
    return 1.0 / np.clip(np.nan_to_num(utility, nan=0.0), WORTHLESS, 1.0) - 1.0


class OSAMDBudgetManager(BudgetManager):  # type: ignore[misc]
    """osamd's budget (`osamd.accounting.budget`): never exceeded, and spent by steering sigma from round to round.

    `budget` is the largest share of samples whose label is asked for, 0.1 if it is None, over the whole stream or over
    any `window` consecutive samples. `max_labels` is the largest number, `floor` the least probability of asking while
    the budget allows it, and `sigma` the start of the steering. `random_state` seeds the draws: a number draws as the
    `seed` of `osamd.OSAMD` does. Utilities lie between 0 and 1, so other strategies than `MarginQuery` can use it.

    >>> manager = OSAMDBudgetManager(budget=0.5, random_state=0)
    >>> utilities = np.array([0.9, 0.1] * 50)
    >>> queried = manager.query_by_utility(utilities)
    >>> len(queried) <= 50, np.mean(utilities[queried]) > 0.5
    (True, np.True_)
    """

    def __init__(
        self,
        budget: float | None = None,
        window: int | None = None,
        max_labels: int | None = None,
        floor: float | None = None,
        sigma: float = 1.0,
        random_state: Any = None,
    ) -> None:
        super().__init__(budget)
        self.window = window
        self.max_labels = max_labels
        self.floor = floor
        self.sigma = sigma
        self.random_state = random_state

    def query_by_utility(self, utilities: Array) -> Indices:
        """Which of these samples, coming in this order, would be asked for; nothing is counted.

        A sample whose utility is nan is not asked for.
        """
        utilities = self._validate_data(utilities)
        book, generator = self.book_.copy(), deepcopy(self.generator_)
        uniforms = np.where(np.isnan(utilities), 1.0, generator.random(len(utilities)))
        asked = np.zeros(len(utilities), dtype=bool)
        for i, margin in enumerate(margin_of(utilities)):
            probability = probability_of(book, margin)
            asked[i] = uniforms[i] < probability
            steering.enter(book, margin, probability, asked[i])
        return np.flatnonzero(asked)

    def update(self, candidates: Any, queried_indices: Any, utilities: Any = None) -> Self:
        """Count the candidates and those asked for, and steer sigma by their utilities."""
        asked = np.zeros(len(candidates), dtype=bool)
        asked[queried_indices] = True
        if utilities is None or len(utilities) != len(asked):
            raise InputError(
                f"`update(utilities={utilities!r})`: sigma is steered by the utilities that query(...,"
                " return_utilities=True) gave, one per candidate; pass them to the strategy as"
                ' budget_manager_param_dict={"utilities": utilities}.'
            )
        margins = margin_of(self._validate_data(np.asarray(utilities)))
        self.generator_.random(len(margins))
        for margin, query in zip(margins, asked, strict=True):
            steering.enter(self.book_, margin, probability_of(self.book_, margin), query)
        return self

    def _validate_data(self, utilities: Any, *args: Any, **kwargs: Any) -> Array:
        checked: Array = super()._validate_data(utilities)
        if not hasattr(self, "book_"):
            limits = budgets.budget(self.budget_, self.window, self.max_labels, self.floor)
            self.book_ = steering.open_book(limits, self.sigma, "margin")
            seed = self.random_state
            if not isinstance(seed, numbers.Integral):
                seed = check_random_state(deepcopy(seed)).randint(2**31 - 1)
            self.generator_ = query_generator(int(seed))
        return checked


def probability_of(book: Array, margin: float) -> float:
    """The probability of asking in the next round of the book."""
    sigma, floor, _ = books.terms(book)
    return query_probability(margin, sigma, floor)


class MarginQuery(UncertaintyZliobaite):  # type: ignore[misc]
    """Ask with probability sigma / (sigma + margin), with sigma steered to the budget.

    If the classifier is an `OSAMDClassifier` of `osamd.adapters.sklearn`, in scikit-activeml's SklearnClassifier, the
    margin is the one that `osamd.OSAMD` uses. For others it is the probability of the most likely class minus that of
    the next one.

    `budget_manager`: if None, an `OSAMDBudgetManager` with `budget`. The other parameters, the checks and `update` are
    those of scikit-activeml's uncertainty strategies.
    """

    def query(
        self,
        candidates: Any,
        clf: Any,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        fit_clf: bool = False,
        return_utilities: bool = False,
    ) -> Any:
        """Which candidates to ask for, and with `return_utilities` the utility of each; nothing is counted."""
        candidates, clf, *_ = self._validate_data(candidates, clf, X, y, sample_weight, fit_clf, return_utilities)
        utilities = utility_of(margins(clf, candidates))
        queried = self.budget_manager_.query_by_utility(utilities)
        return (queried, utilities) if return_utilities else queried

    def _get_default_budget_manager(self) -> type[OSAMDBudgetManager]:
        return OSAMDBudgetManager


def margins(clf: Any, candidates: Any) -> Array:
    """How sure the classifier is about every candidate."""
    if getattr(clf, "is_fitted_", True) and hasattr(clf, "margin"):
        return np.asarray(clf.margin(candidates))
    shares = np.sort(clf.predict_proba(candidates), axis=1)
    return np.asarray(shares[:, -1] - shares[:, -2])
