"""How a linear learner starts: from labelled rows, from a labelled table, or from a fitted scikit-learn model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, Self

import numpy as np

from osamd.errors import InputError, reject, require_finite
from osamd.learner import source
from osamd.learner.ask_tell import AskTell
from osamd.learner.cores.preset import PresetCore
from osamd.learner.decision import known_classes
from osamd.learner.inputs import source_labels, source_rows
from osamd.paper.methods import PRESET, method_name
from osamd.tables.samples import SampleEncoder
from osamd.tables.table import Rows
from osamd.tables.table import rows as rows_of


class StartingLearner(AskTell):
    """The ways to start a linear learner. Use `osamd.OSAMD`."""

    @classmethod
    def from_source(cls, X: Any, y: Any, *, classes: Sequence[Any] | None = None, **settings: Any) -> Self:
        """A learner that starts from a logistic or softmax regression, fitted to labelled rows.

        X: rows of numbers, or a data frame, whose columns then name the features. Running statistics, of the preset
        or with `standardise`, begin with those of X. `classes` may hold more than occur in y.

        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 200)
        >>> from osamd import OSAMD
        >>> learner = OSAMD.from_source(rng.normal(size=(200, 3)) + 2.0 * y[:, None], y, budget=0.1)
        >>> learner.predict([2.0, 2.0, 2.0]), learner.classes
        (1, [0, 1])
        """
        if "start" in settings:
            raise InputError("`from_source(start=...)`: the start is fitted to X and y; leave it out.")
        rows, columns = source_rows(X)
        require_finite("from_source", "X", rows)
        labels = source_labels("from_source", y, declared=classes is not None)
        if len(labels) != len(rows):
            raise InputError(f"`from_source(X=..., y=...)`: {len(rows)} rows have {len(labels)} labels.")
        try:
            found = set(labels)
            names = sorted(found) if classes is None else known_classes(classes)
        except TypeError as error:
            raise InputError(
                f"`from_source(y=...)`: y must be one class a row, all text or numbers ({error})."
            ) from error
        if len(names) < 2:
            raise reject("from_source", "y", names, "the labels are all alike; give rows of two classes or more.")
        unknown = found - set(names)
        if unknown:
            raise reject("from_source", "y", unknown.pop(), f"it is not among the declared classes {names}.")
        learner = cls._made(features=rows.shape[1] if columns is None else columns, classes=names, **settings)
        core = learner._linear()
        if isinstance(core, PresetCore):
            with np.errstate(over="ignore", invalid="ignore"):  # it refuses what is too large to be squared
                core.gather(rows)
        elif settings.get("standardise"):
            core.gather(rows)
            rows = core.scaled(rows)
        index = {name: i for i, name in enumerate(names)}
        truth = np.array([index[label] for label in labels])
        core.start(source.fit(rows, truth, len(names)))
        if isinstance(core, PresetCore):
            core.remember(rows, truth)
        learner._source_rows = np.bincount(truth, minlength=len(names)).tolist()
        return learner

    @classmethod
    def from_table(
        cls,
        table: Any,
        label: str,
        *,
        classes: Sequence[Any] | None = None,
        drop: Collection[str] = (),
        categorical: Collection[str] = (),
        keep: Collection[str] = (),
        format: str | None = None,
        decimal: str = ".",
        encoding: str | None = None,
        **settings: Any,
    ) -> Self:
        """A learner that starts from a labelled table: pandas, polars, pyarrow, or a file as `osamd.tables` reads it.

        Missing values, categories, true and false and dates are encoded as `osamd run` does; `osamd.tables` says how.
        The encoder belongs to the learner and is saved with it: `ask` takes a dictionary with the columns of the table,
        or a frame of one row, and `predict` takes a whole frame. `settings` are those of the learner.

        >>> import pandas
        >>> sizes, colours = [1.0, None, 3.5, 4.0] * 10, ["red", "blue", None, "blue"] * 10
        >>> table = pandas.DataFrame({"size": sizes, "colour": colours, "kind": ["a", "a", "b", "b"] * 10})
        >>> from osamd import OSAMD
        >>> learner = OSAMD.from_table(table, "kind", budget=0.1)
        >>> learner.ask({"size": 1.2, "colour": "red"}).label, learner.predict(table[:3]).tolist()
        ('a', ['a', 'a', 'b'])
        """
        read = rows_of(
            table,
            label,
            warmup=None,
            classes=classes,
            drop=drop,
            categorical=categorical,
            keep=keep,
            format=format,
            decimal=decimal,
            encoding=encoding,
        )
        read.close()
        if read.unlabelled:
            raise InputError(
                f"`from_table(label={label!r})`: {read.unlabelled} rows have no label; give a class to every row, and"
                " leave out the rows that have none."
            )
        return cls.from_rows(read, **settings)

    @classmethod
    def from_rows(cls, read: Rows, **settings: Any) -> Self:
        """A learner that starts from the source rows of a table that `osamd.tables.rows` has read, with its encoder."""
        x, y = read.source
        if method_name(settings.get("method"), settings) != PRESET.name:  # the preset scales by itself
            settings = {"standardise": True} | settings
        names = read.values_of_classes
        learner = cls.from_source(x, [names[i] for i in y.tolist()], classes=names, **settings)
        learner._take_up_encoder(read.samples())
        return learner

    @classmethod
    def from_sklearn(cls, model: Any, **settings: Any) -> Self:
        """A learner that starts from a fitted scikit-learn classifier, with its classes and feature names.

        A linear classifier gives its weights to the learner; any other is its `source`, which stays as it is.
        """
        if not hasattr(model, "coef_") and hasattr(model, "classes_"):
            return cls._made(source=model, **settings)
        weights, classes, names = source.from_sklearn(model)
        return cls._made(features=names or weights.shape[-1] - 1, classes=classes, start=weights, **settings)

    @classmethod
    def _made(cls, **settings: Any) -> Self:
        make: Callable[..., Self] = cls
        return make(**settings)

    @abstractmethod
    def _linear(self) -> Any:
        """The core, which exists once the features are known."""

    @abstractmethod
    def _take_up_encoder(self, encoder: SampleEncoder) -> None:
        """Encode samples by this encoder from now on."""
