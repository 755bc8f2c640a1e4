"""Vowpal Wabbit: parsed examples, text, --active, and its own driver on a file in its cache format."""

import os
import tempfile


def lines(x, y, classes):
    """The samples in its text format; labels are -1 and 1, or 1 to the number of classes."""
    label = [2 * k - 1 if classes == 2 else k + 1 for k in y.tolist()]
    return [
        f"{k} | " + " ".join(f"{i}:{value:.6g}" for i, value in enumerate(row))
        for k, row in zip(label, x.tolist(), strict=True)
    ]


def workspace(classes, more="--quiet", **options):
    """A rate that does not fall, since the stream drifts: the best of a small grid on another seed."""
    from vowpalwabbit import Workspace

    many = "" if classes == 2 else f"--oaa {classes}"
    return Workspace(f"--loss_function hinge --invariant --power_t 0 -l 0.1 {many} {more}", **options)


def reader(classes):
    """How a decision is read from an example."""
    if classes == 2:
        return lambda example: example.get_simplelabel_prediction() >= 0.0
    return lambda example: example.get_multiclass_prediction() - 1


def parsed(x, y, classes):
    """Examples are parsed beforehand; `learn` predicts on its way, so one call is test and train."""
    parser = workspace(classes)
    examples = [parser.example(line) for line in lines(x, y, classes)]
    labels, decision = y.tolist(), reader(classes)

    def fresh():
        learn = workspace(classes).learn

        def run():
            right = 0
            for example, label in zip(examples, labels, strict=True):
                learn(example)
                right += decision(example) == label
            return int(right), len(labels)

        return run

    fresh.parser = parser  # it owns the examples
    return fresh


def text(x, y, classes):
    """Every example is parsed from its line of text when it comes."""
    rows, labels, decision = lines(x, y, classes), y.tolist(), reader(classes)

    def fresh():
        model = workspace(classes)

        def run():
            right = 0
            for row, label in zip(rows, labels, strict=True):
                example = model.parse(row)
                model.learn(example)
                right += decision(example) == label
                model.finish_example(example)
            return int(right), len(labels)

        return run

    return fresh


MELLOWNESS = {3: 3e-4, 54: 2e-5}
"""By the number of features; its default, 1, asks for every label of these streams."""


def active(x, y, classes):
    """--active --simulation: it sees every label and learns from those it would have asked for.

    It counts what it has seen in `finish_example`, after which an example is gone; so they are parsed anew each time.
    """
    rows, labels, decision = lines(x, y, classes), y.tolist(), reader(classes)

    def fresh():
        model = workspace(classes, f"--active --simulation --mellowness {MELLOWNESS[x.shape[1]]}", enable_logging=True)
        examples = [model.example(row) for row in rows]

        def run():
            right = 0
            for example, label in zip(examples, labels, strict=True):
                model.learn(example)
                right += decision(example) == label
                model.finish_example(example)
            return int(right), queries(model)

        return run

    return fresh


def queries(model):
    model.finish()
    return next(int(line.split("=")[1]) for line in model.get_log() if line.startswith("total queries"))


def driver(x, y, classes):
    """Its own loop in C++ over a cache file, with a thread that reads; the constructor runs it.

    --binary (and --oaa) make its loss the number of wrong decisions.
    """
    folder = tempfile.TemporaryDirectory()
    file = os.path.join(folder.name, "stream")
    with open(file, "w") as out:
        out.writelines(line + "\n" for line in lines(x, y, classes))
    arguments = f"--quiet {'--binary' if classes == 2 else ''} -d {file} --cache_file {file}.cache"
    workspace(classes, arguments).finish()

    def fresh():
        def run():
            model = workspace(classes, arguments)
            wrong = model.get_sum_loss()
            model.finish()
            return len(y) - round(wrong), len(y)

        return run

    fresh.folder = folder  # it is removed with the last reference
    return fresh


if __name__ == "__main__":
    from common import serve

    serve({"parsed": parsed, "text": text, "active": active, "driver": driver}, ("vowpalwabbit",))
