"""A table of one's own as a stream: how right would osamd have been, with how few labels, and the other methods?

python examples/own_table.py            (`osamd run TABLE --label COLUMN` does the same without a program)
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

from osamd import OSAMD
from osamd.prequential import run
from osamd.tables import rows

rng = np.random.default_rng(0)
path = Path(tempfile.mkdtemp()) / "mail.csv"  # a stand-in for yours: a header, one row a sample, in the order of time
with path.open("w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["links", "capitals", "client", "kind"])
    for age in np.linspace(0.0, 1.0, 6000):  # spam learns to look like mail used to, and mail gets more links
        spam = rng.random() < 0.5
        links, capitals = rng.normal([6.0 + 4.0 * age, 3.0 - 4.0 * age] if spam else [2.0 + 4.0 * age, 3.0], 1.2)
        table.writerow([f"{links:.2f}", f"{capitals:.2f}", rng.choice(["web", "app", ""]), "spam" if spam else "mail"])

# A model that is trained on the first 1000 rows and then left alone, with the features that `run` makes of the columns.
data = rows(path, "kind", warmup=1000)
once = OSAMD.from_source(*data.source, standardise=True)
alone = np.mean([once.predict(x) == y for block in data.blocks() for x, y in zip(*block, strict=True)])

outcome = run(path, "kind", warmup=1000, budget="5%", delay="random:50", compare=True)
print(f"left alone: {alone:.1%} right; osamd: {outcome.run.accuracy:.1%} right")
for method, found in outcome.runs.items():
    print(f"{method:26}{found.accuracy:7.1%} with {found.labels:6.1%} of the labels")
