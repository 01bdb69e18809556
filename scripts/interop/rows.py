"""Print, as one JSON object, the rows that pyarrow, pandas and DuckDB see in a rows.parquet.

Usage: rows.py FILE
"""

import json
import math
import sys

import duckdb
import pandas
import pyarrow.parquet as pq


def plain(value):
    """A value as JSON has it. pandas writes no value as NaN or NA, and lists as arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or value is pandas.NA or isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def rows(records):
    return [{name: plain(value) for name, value in record.items()} for record in records]


def main(path):
    duck = duckdb.sql(f"SELECT * FROM '{path}'")
    json.dump({
        "pyarrow": rows(pq.read_table(path).to_pylist()),
        "pandas": rows(pandas.read_parquet(path).to_dict("records")),
        "duckdb": rows(dict(zip(duck.columns, row)) for row in duck.fetchall()),
    }, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
