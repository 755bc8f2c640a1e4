"""OSAMD as a River classifier, on dictionaries; new features and classes may appear at any time.

    model = OSAMDClassifier()
    model.learn_one(x, y)                            # y=None: an unlabelled round, where the pseudolabel stands in

    model = OSAMDActive(OSAMDClassifier(budget=0.1))
    y_pred, ask = model.predict_one(x)               # River's protocol for active learning
    if ask:
        model.learn_one(x, y)

A feature that a sample lacks is 0, as in River's own linear models, and a new feature starts with weight 0.

River declares no classes, so the model grows. It begins with two classes without names: the first label names the one
it decides on at first, the second label the other. The default learner accepts further classes by itself. With the
paper's methods, a third class turns the model into one of several classes (Algorithm 2): w becomes the two rows -w/2
and +w/2, which score the old classes against each other as before, and every further class begins with a row of zeros.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from osamd.accounting import meter
from osamd.adapters import needs
from osamd.errors import InputError, reject
from osamd.learner.decision import Decision
from osamd.learner.linear import OSAMD, REACH
from osamd.learner.saving import Saved
from osamd.numerics import Array
from osamd.paper.methods import PRESET, method_name
from osamd.preset.state import parts_of, widened
from osamd.preset.views import named

try:
    from river import base, compose
    from river.active.base import ActiveLearningClassifier
except ImportError:
    raise needs("River", "river") from None

FeatureDict = dict[Hashable, Any]

FEWEST = 8
"""The least number of columns that a model starts with; when they do not suffice, they are doubled."""


class OSAMDClassifier(base.Classifier):
    """A linear classifier that learns from labels and, round by round, from samples without one.

    The parameters are those of `osamd.OSAMD`, and none is needed. Without any it is the preset; if a setting of the
    paper's methods is given, it is the paper's OSAMD, where `eta` is 0.3 / (features of the first sample + 1) by
    default. It asks for labels only inside `OSAMDActive`, which uses sigma and the budget. `predict_one` and
    `predict_proba_one` never change the model. `learner` is the learner inside, whose classes are 0, 1, ...; it
    estimates its accuracy.

    >>> model = OSAMDClassifier()
    >>> for x, y in [({"a": 1.0}, "yes"), ({"b": 2.0}, "no"), ({"a": 1.5, "b": 0.5}, None)] * 5:
    ...     model.learn_one(x, y)
    >>> model.predict_one({"a": 2.0}), model.predict_one({"b": 1.0, "c": 5.0})
    ('yes', 'no')
    """

    def __init__(
        self,
        *,
        method: str | None = None,
        eta: float | None = None,
        sigma: float | None = None,
        loss: str | None = None,
        l2: float | None = None,
        label_rate: float | None = None,
        budget: float | None = None,
        budget_window: int | None = None,
        max_labels: int | None = None,
        floor: float | None = None,
        window: int = 1000,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.eta = eta
        self.sigma = sigma
        self.loss = loss
        self.l2 = l2
        self.label_rate = label_rate
        self.budget = budget
        self.budget_window = budget_window
        self.max_labels = max_labels
        self.floor = floor
        self.window = window
        self.seed = seed
        self.learner: OSAMD | None = None
        self._width = 0
        self._columns: dict[Hashable, int] = {}
        self._classes: dict[Hashable, int] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: FeatureDict, y: Any = None, *, decision: Decision | int | None = None) -> None:
        """Play a round with the label y, or without a label if y is None or nan.

        `decision` ends a round that `ask_one` began: give what `ask_one` returned, or the id of a query.
        """
        y = None if y != y else y
        if isinstance(y, float) and not y.is_integer():
            rule = "a class is text, true or false, or a whole number; cut a measured number into ranges first."
            raise reject("learn_one", "y", y, rule)
        before = self.learner
        learner = self._ready(x, y) if decision is None else self._named(y)
        if isinstance(decision, Decision) and learner is not before:  # the model has grown by the label's own class
            decision = decision.id if decision.query else None
        learner.tell(learner.ask(self._row(x)) if decision is None else decision, self._classes.get(y))

    def ask_one(self, x: FeatureDict) -> Decision:
        """The first half of a round: decide, and draw whether to ask for the label. The model stays as it is."""
        return self._ready(x, None).ask(self._row(x))

    def predict_proba_one(self, x: FeatureDict, **kwargs: Any) -> dict[Any, float]:
        """The probability of each class that has had a label; with the paper's methods it is calibrated only where the
        loss is a likelihood."""
        if self.learner is None or len(self._classes) < 2:
            return dict.fromkeys(self._classes, 1.0)
        shares = self.learner.predict_proba(self._row(x))
        return {name: shares.get(index, 0.0) for name, index in self._classes.items()}

    def _ready(self, x: FeatureDict, y: Any) -> OSAMD:
        """The learner, with a column for every feature of x and a place for the class y."""
        for name in sorted(x.keys() - self._columns.keys(), key=repr):  # independent of the order in the dictionary
            self._columns[name] = len(self._columns)
        needed = len(self._columns)
        if self.learner is None:
            settings = self._get_params()
            settings["method"] = method_name(self.method, settings)
            if self.eta is None and settings["method"] != PRESET.name:
                settings["eta"] = REACH / (len(x) + 1)
            self._width = max(FEWEST, needed)
            self.learner = OSAMD(features=self._width, classes=2, **settings)
        elif needed > self._width:
            self._width = max(needed, 2 * self._width)
            self.learner = grown(self.learner, self._width, len(self.learner.classes))
        return self._named(y)

    def _named(self, y: Any) -> OSAMD:
        """The learner, with a place for the class y."""
        if self.learner is None:
            raise InputError("`learn_one(decision=...)`: this model has made no decision yet; call ask_one first.")
        if y is not None and y not in self._classes:
            known = len(self._classes)
            if known >= 2 and self.learner.method != PRESET.name:  # the preset adds classes by itself
                self.learner = grown(self.learner, self._width, known + 1)
            # A model that knows nothing decides on the second of its two classes.
            self._classes[y] = 1 - known if known < 2 else known
        return self.learner

    def _row(self, x: FeatureDict) -> Array:
        """The sample as a vector; features without a column have weight 0 and are left out."""
        row = np.zeros(self._width)
        for name, value in x.items():
            column = self._columns.get(name)
            if isinstance(value, str):
                raise InputError(
                    f"`learn_one(x=...)`: feature {name!r} holds the text {value!r}; make it numbers first, as"
                    " river.preprocessing.OneHotEncoder does."
                )
            if column is not None:
                row[column] = value
        return row


def grown(learner: OSAMD, features: int, classes: int) -> OSAMD:
    """The learner with more columns, whose weights are zero, and more classes, whose scores are zero.

    Rounds, budget, draws, pending queries and accuracy continue. Its classes are 0, 1, ...
    """
    arrays, content = learner._saved()
    had = int(content["features"])
    if learner.method == PRESET.name:
        parts = named(parts_of(widened(learner._core._state, features)))
        arrays |= {name: part.copy() for name, part in parts.items()}
    else:
        arrays["meter"] = meter.widened(arrays["meter"], classes)
        for name in ("teacher", "student"):
            arrays[name] = _grown_rows(arrays[name], features, classes)
    if "pending.samples" in arrays:
        arrays["pending.samples"] = np.pad(arrays["pending.samples"], ((0, 0), (0, features - had)))
    return OSAMD._revive(Saved(arrays, content | {"features": features, "classes": list(range(classes))}))


def _grown_rows(rows: Array, features: int, classes: int) -> Array:
    """The weights, one row per class or one row for two, with more columns before the bias, and more classes."""
    if classes > 2 and len(rows) == 1:
        rows = np.concatenate([-0.5 * rows, 0.5 * rows])
    had = rows.shape[1] - 1
    wider = np.zeros((1 if classes == 2 else classes, features + 1))
    wider[: len(rows), :had], wider[: len(rows), -1] = rows[:, :had], rows[:, -1]
    return wider


class ActivePrediction(tuple[Any, bool]):
    """A predicted label, and whether to ask for the true one: the pair of River's protocol for active learning.

    Compared with a label it is the predicted label. So River's metrics count it rightly, too, where nothing takes the
    pair apart, as in a loop of one's own.

    >>> label, ask = ActivePrediction("spam", True)
    >>> label, ActivePrediction("spam", True) == "spam", ActivePrediction("spam", True) == ("spam", True)
    ('spam', True, True)
    """

    __slots__ = ()

    def __new__(cls, label: Any, ask: bool) -> ActivePrediction:
        return super().__new__(cls, (label, ask))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == other if isinstance(other, tuple) else bool(self[0] == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[0])

    def __getnewargs__(self) -> tuple[Any, bool]:
        return self[0], self[1]


class OSAMDActive(ActiveLearningClassifier):
    """River's active learning around an `OSAMDClassifier`, or a pipeline that ends in one, with its sigma and budget.

    `predict_one` and `predict_proba_one` return the prediction and whether to ask for the label, and each call is a
    round. If they do not ask, the round ends at once: River does not present the sample again, so the model learns
    from its pseudolabel. If they ask, `learn_one` ends the round when the label comes, soon or late; learn_one(x, None)
    says that none will come. Labels of samples that were not asked for are welcome, and are rounds too.

    Put transformers inside, where they learn from every sample. Outside, River lets them learn only from the samples
    asked for, and by the time a label comes they transform the sample differently, so it is not recognised.

    >>> from river import preprocessing
    >>> model = OSAMDActive(preprocessing.StandardScaler() | OSAMDClassifier(budget=0.5))
    >>> asked = 0
    >>> for x, y in [({"a": 0.0}, "no"), ({"a": 1.0}, "yes")] * 20:
    ...     _, ask = model.predict_one(x)
    ...     if ask:
    ...         asked += 1
    ...         model.learn_one(x, y)
    >>> asked <= 20, model.predict_one({"a": 1.0})[0]
    (True, 'yes')
    """

    def __init__(self, classifier: base.Classifier) -> None:
        super().__init__(classifier, seed=None)  # the classifier makes the draws
        last = classifier._last_step if isinstance(classifier, compose.Pipeline) else classifier
        if not isinstance(last, OSAMDClassifier):
            rule = "classifier must be an OSAMDClassifier of osamd.adapters.river, or a pipeline that ends in one."
            raise reject("OSAMDActive", "classifier", classifier, rule)
        self._asked: dict[int, Hashable] = {}

    def predict_one(self, x: FeatureDict, **kwargs: Any) -> ActivePrediction:  # type: ignore[override]
        """The predicted label, None before the first one, and whether to ask for the true one."""
        shares = self.classifier.predict_proba_one(x, **kwargs)
        ask = self._ask_for_label(x, shares)
        return ActivePrediction(max(shares, key=lambda name: shares[name]) if shares else None, ask)

    def learn_one(self, x: FeatureDict, y: Any = None, **kwargs: Any) -> None:
        """Give the label of a sample, or None if none will come."""
        sample = frozenset(x.items())
        number = next((number for number, asked in self._asked.items() if asked == sample), None)
        if number is not None:
            del self._asked[number]
        self._learn(x, y, number)

    def _ask_for_label(self, x: FeatureDict, y_pred: Any) -> bool:
        inside, last = x, self.classifier
        if isinstance(last, compose.Pipeline):
            inside, last = last._transform_one(x)
        assert isinstance(last, OSAMDClassifier)
        decision = last.ask_one(inside)
        if decision.query:
            self._asked[decision.id] = frozenset(x.items())
        else:
            self._learn(x, None, decision)
        return decision.query

    def _learn(self, x: FeatureDict, y: Any, decision: Decision | int | None) -> None:
        inside: Any = self.classifier  # a pipeline hands `decision` on to its last step
        inside.learn_one(x, y, decision=decision)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": OSAMDClassifier()}
