"""A table with dates: the report says when the stream changed, by the table's own calendar."""

import datetime

import numpy as np
import pytest

from osamd.prequential import run
from osamd.prequential.page import page
from osamd.tables import rows


def table(path, dated, rounds=1400, change=900):
    """Two features whose margin falls at row `change`, with a date each hour, or none."""
    generator = np.random.default_rng(0)
    start = datetime.datetime(2024, 1, 1)
    lines = ["when,x,z,y"] if dated else ["x,z,y"]
    for t in range(rounds):
        y = int(generator.integers(0, 2))
        x = (2.0 * y - 1.0) * (3.0 if t < change else 0.2) + generator.normal() * 0.5
        when = f"{start + datetime.timedelta(hours=t):%Y-%m-%d %H:%M}," if dated else ""
        lines.append(f"{when}{x:.4f},{generator.normal():.4f},{y}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("dated", [True, False])
def test_changes_have_the_date_of_their_row(tmp_path, dated):
    outcome = run(str(table(tmp_path / "t.csv", dated)), "y", warmup=200, budget="10%")
    (change, *_) = outcome.changes
    assert change.round == pytest.approx(700, abs=60)
    expected = datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=200 + change.round)
    written = f"{expected:%Y-%m-%d %H:%M}"
    if dated:
        assert outcome.date(change.round) == written
        assert outcome.summary["changes"][0]["date"] == written
        assert "<th>date</th>" in page(outcome).replace(' scope="col"', "")
        assert f"round {change.round:,} ({written})" in page(outcome)
    else:
        assert outcome.date(change.round) == ""
        assert "date" not in outcome.summary["changes"][0]
        assert written[:10] not in page(outcome)


def test_days_are_those_of_the_labelled_rows_and_bad_dates_of_unused_columns_are_unknown(tmp_path):
    lines = ["when,x,y"] + [f"2024-01-01,{i},{i % 2}" for i in range(30)]
    lines += ["2024-01-02,1,", "2024-01-02,2,1"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found = rows(tmp_path / "t.csv", "y", warmup=20, keep=["x"])
    assert [column.kind for column in found.columns if column.name == "when"] == ["left out"]
    assert sum(len(y) for _, y in found.blocks()) == 11
    first = datetime.date(2024, 1, 1).toordinal()
    assert found.days.tolist() == [first] * 10 + [first + 1]
