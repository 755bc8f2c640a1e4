"""scikit-activeml: two of its stream strategies, with a budget of one label in ten."""

from collections import deque

BUDGET = 0.1
WINDOW = 100


def stream(make_strategy, make_classifier, remember):
    def prepare(x, y, classes):
        rows = [(x[t : t + 1], y[t : t + 1]) for t in range(len(y))]

        def fresh():
            strategy, model = make_strategy(), make_classifier(classes)
            # A classifier that has seen nothing cannot be asked; it starts from a row of each class.
            first = [int((y == k).argmax()) for k in range(classes)]
            model.fit(x[first], y[first])
            window = deque([(x[t], y[t]) for t in first], maxlen=WINDOW)

            def run():
                right = asked = 0
                for row, label in rows:
                    right += model.predict(row)[0] == label[0]
                    chosen, utilities = strategy.query(candidates=row, clf=model, return_utilities=True)
                    strategy.update(candidates=row, queried_indices=chosen, **told(strategy, utilities))
                    if len(chosen):
                        asked += 1
                        remember(model, window, row, label)
                return int(right), asked

            return run

        return fresh

    return prepare


def told(strategy, utilities):
    """What the budget manager of StreamProbabilisticAL must know."""
    from skactiveml.stream import StreamProbabilisticAL

    return (
        {"budget_manager_param_dict": {"utilities": utilities}} if isinstance(strategy, StreamProbabilisticAL) else {}
    )


def split():
    from skactiveml.stream import Split

    return Split(budget=BUDGET, random_state=0)


def probabilistic():
    from skactiveml.stream import StreamProbabilisticAL

    return StreamProbabilisticAL(budget=BUDGET, random_state=0)


def naive_bayes(classes):
    from skactiveml.classifier import SklearnClassifier
    from sklearn.naive_bayes import GaussianNB

    return SklearnClassifier(GaussianNB(), classes=list(range(classes)), random_state=0)


def parzen_window(classes):
    from skactiveml.classifier import ParzenWindowClassifier

    return ParzenWindowClassifier(classes=list(range(classes)), random_state=0)


def partially_fit(model, window, row, label):
    model.partial_fit(row, label)


def fit_window(model, window, row, label):
    import numpy as np

    window.append((row[0], label[0]))
    model.fit(np.array([row for row, _ in window]), np.array([label for _, label in window]))


if __name__ == "__main__":
    from common import serve

    variants = {
        "split": stream(split, naive_bayes, partially_fit),
        "probabilistic": stream(probabilistic, parzen_window, fit_window),
    }
    serve(variants, ("scikit-activeml", "scikit-learn", "numpy"))
