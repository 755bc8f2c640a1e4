"""Users' tables as rows of features: CSV, JSON lines, Parquet, standard input; pandas, polars and pyarrow tables.

    table = rows("sensor.csv", label="state", warmup=1000)
    x, y = table.source                  # the warm-up rows: features, and indices into table.classes
    for x, y in table.blocks(): ...      # the others, block by block, in flat memory

What is made of a table, in every format alike:

- **Files**: .csv and .tsv with a header, and a comma, semicolon, tab or bar between values (that most frequent in the
  header, outside of quotes); .jsonl and .ndjson, an object a line; .parquet and .pq. Text may be packed (.gz), and is
  UTF-8 unless `encoding=` says otherwise. Blank lines are no rows.
- **Kinds**: the first 1000 rows decide, or the warm-up rows where they are more. A column is boolean if all its values
  are true or false, numeric if all parse as numbers, dates if all are dates or times, and categorical else. Types
  of a data frame decide first. `categorical=` names columns of codes that only look like numbers.
- **Numbers** stay as they are (the learner standardises them); true and false become 1 and 0. A later value that is
  neither number nor missing is refused with its line. Numbers with decimal commas need `decimal=","`.
- **Categories** become a feature each, at most 100 a column, the commonest. A category that turns up later gives zeros.
- **Missing** are an empty value, ?, NA, N/A, #N/A, <NA>, NaN, NaT, null and None, whatever their capitals, and in a
  column of numbers those that are not finite. A missing number becomes the mean of those before it (in the warm-up
  rows: of the warm-up rows); a missing category is a category of its own.
- **Dates** give the hour, the weekday and the season, each as sine and cosine; those that do not come round in the
  first rows are left out, since they would be a trend.
- **Left out**: columns without a name or without any value among the first rows, those in `drop=`; and, unless `keep=`
  names them, numbers that go one way only, as ids and counters do, and text that hardly ever repeats.
- **Labels**: the classes are those of the warm-up rows, sorted, or `classes=`; ints where all are whole numbers, text
  else. Rows without a label are left out and counted.
"""

from osamd.tables.columns import Column, remarks
from osamd.tables.table import Rows, rows
from osamd.tables.values import MISSING

__all__ = ["MISSING", "Column", "Rows", "remarks", "rows"]
