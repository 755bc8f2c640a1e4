"""River: dictionaries of features, one sample at a time."""

RATES = {3: 0.1, 54: 0.03, 784: 0.01}
"""SGD's rate by the number of features: the best of 0.003 to 1 on another seed, for the active learner."""


def dictionaries(x, y):
    return [dict(enumerate(row)) for row in x.tolist()], y.tolist()


def supervised(make):
    """Predict, then learn from every label."""

    def prepare(x, y, classes):
        rows, labels = dictionaries(x, y)

        def fresh():
            model = make(x.shape[1], classes)

            def run():
                right = 0
                for row, label in zip(rows, labels, strict=True):
                    right += model.predict_one(row) == label
                    model.learn_one(row, label)
                return right, len(labels)

            return run

        return fresh

    return prepare


def active(x, y, classes):
    """EntropySampler: learn only from the labels it asks for."""
    from river.active import EntropySampler

    rows, labels = dictionaries(x, y)

    def fresh():
        model = EntropySampler(regression(x.shape[1], classes), seed=0)
        # Of a class it has not met it knows nothing, and does not ask; it starts from a row of each.
        first = [int((y == k).argmax()) for k in range(classes)] if classes > 2 else []
        for t in first:
            model.learn_one(rows[t], labels[t])

        def run():
            right, asked = 0, len(first)
            for row, label in zip(rows, labels, strict=True):
                decision, ask = model.predict_one(row)
                right += decision == label
                if ask:
                    model.learn_one(row, label)
                    asked += 1
            return right, asked

        return run

    return fresh


def forest(x, y, classes):
    """An adaptive random forest of ten trees that learns from one label in twenty."""
    from river.forest import ARFClassifier

    rows, labels = dictionaries(x, y)

    def fresh():
        model = ARFClassifier(n_models=10, seed=0)

        def run():
            right = asked = 0
            for t, (row, label) in enumerate(zip(rows, labels, strict=True)):
                right += model.predict_one(row) == label
                if t % 20 == 0:
                    model.learn_one(row, label)
                    asked += 1
            return right, asked

        return run

    return fresh


def regression(features, classes):
    from river.linear_model import LogisticRegression, SoftmaxRegression
    from river.optim import SGD

    return (LogisticRegression if classes == 2 else SoftmaxRegression)(SGD(RATES[features]))


def passive_aggressive(features, classes):
    from river.linear_model import PAClassifier
    from river.multiclass import OneVsRestClassifier

    return PAClassifier() if classes == 2 else OneVsRestClassifier(PAClassifier())


if __name__ == "__main__":
    from common import serve

    variants = {
        "regression": supervised(regression),
        "pa": supervised(passive_aggressive),
        "active": active,
        "forest": forest,
    }
    serve(variants, ("river", "numpy"))
