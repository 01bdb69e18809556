"""Print, as one JSON object, the content of a Parquet file in pyarrow, pandas and DuckDB.

Usage: dump.py FILE K
"""

import json
import math
import sys

import duckdb
import pandas
import pyarrow.parquet as pq


def plain(value):
    """A value as JSON has it. pandas writes a null number as NaN."""
    if value is None or isinstance(value, float) and math.isnan(value):
        return None
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [plain(v) for v in value] if isinstance(value, list) else value


def rows(records):
    return [{name: plain(value) for name, value in record.items()} for record in records]


def main(path, k):
    table = pq.read_table(path)
    frame = pandas.read_parquet(path)
    duck = duckdb.sql(f"SELECT * FROM '{path}'")
    sliced = duckdb.sql(f"SELECT topk_indices[1:{k}], list_sum(topk_indices), len(topk_indices) FROM '{path}'")
    json.dump({
        "schema": [[f.name, str(f.type), f.nullable] for f in table.schema],
        "duckdb_schema": [[n, str(t)] for n, t in zip(duck.columns, duck.types)],
        "pyarrow": rows(table.to_pylist()),
        "pandas": rows(frame.to_dict("records")),
        "duckdb": rows(dict(zip(duck.columns, row)) for row in duck.fetchall()),
        "sliced": [list(row) for row in sliced.fetchall()],
    }, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
