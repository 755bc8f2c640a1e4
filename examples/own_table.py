"""A table of one's own as a stream: how right would osamd have been, with how few labels, and the other methods?

python examples/own_table.py            (`osamd run TABLE --label COLUMN` does the same without a program)
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

from osamd.prequential import run

rng = np.random.default_rng(0)
path = Path(tempfile.mkdtemp()) / "mail.csv"  # a stand-in for yours: a header, one row a sample, in the order of time
with path.open("w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["links", "capitals", "client", "kind"])
    for age in np.linspace(0.0, 1.0, 3000):  # spam learns to look like mail used to, and mail gets more links
        spam = rng.random() < 0.5
        links, capitals = rng.normal([6.0 + 4.0 * age, 3.0 - 4.0 * age] if spam else [2.0 + 4.0 * age, 3.0], 1.2)
        table.writerow([f"{links:.2f}", f"{capitals:.2f}", rng.choice(["web", "app", ""]), "spam" if spam else "mail"])

# Five seeds of the queries; beside the methods, the model of the first 1000 rows left alone.
outcome = run(path, "kind", warmup=1000, budget="5%", delay="random:50", compare=True)
print(f"left alone: {outcome.baselines['left-alone'].accuracy:.1%} right; the preset: {outcome.run.accuracy:.1%} right")
for method, found in outcome.repeats.items():
    accuracy, labels = np.mean([(one.accuracy, one.labels) for one in found], axis=0)
    print(f"{method:26}{accuracy:7.1%} with {labels:6.1%} of the labels")
