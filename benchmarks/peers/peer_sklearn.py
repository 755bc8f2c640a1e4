"""scikit-learn: predict and partial_fit on one row."""


def one_row_at_a_time(make):
    def prepare(x, y, classes):
        import numpy as np

        known = np.arange(classes)
        rows = [(x[t : t + 1], y[t : t + 1]) for t in range(len(y))]

        def fresh():
            model = make().partial_fit(x[:1], y[:1], known)  # before its first partial_fit it cannot predict

            def run():
                right = 0
                for row, label in rows:
                    right += model.predict(row)[0] == label[0]
                    model.partial_fit(row, label)
                return int(right), len(rows)

            return run

        return fresh

    return prepare


def logistic():
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.01, random_state=0)


def passive_aggressive():
    """PA-I: a learning rate of SGDClassifier since 1.8, a class of its own before."""
    from sklearn.linear_model import SGDClassifier

    if any("pa1" in rule.options for rule in SGDClassifier._parameter_constraints["learning_rate"]):
        return SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=1.0, random_state=0)
    from sklearn.linear_model import PassiveAggressiveClassifier

    return PassiveAggressiveClassifier(random_state=0)


if __name__ == "__main__":
    from common import serve

    variants = {"logistic": one_row_at_a_time(logistic), "pa": one_row_at_a_time(passive_aggressive)}
    serve(variants, ("scikit-learn", "numpy"))
