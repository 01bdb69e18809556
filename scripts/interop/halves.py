"""Write a table whose scores are all finite float16, in each way that pyarrow has. Print as one JSON
object the files' names and the expected import of every row: its list and scores, best first.

Usage: halves.py FOLDER
"""

import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

LIST = 256

PARQUET = {
    "dictionary": {},
    "v2": {"data_page_version": "2.0", "compression": "zstd", "data_page_size": 2000},
    "plain": {"use_dictionary": False, "compression": "none"},
    "split": {"use_dictionary": False, "use_byte_stream_split": ["scores"]},
    "rows": {"row_group_size": 1},
}


def scores():
    """Every finite half once, in random order, by rows."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = np.random.default_rng(1).permutation(every[np.isfinite(every)])
    return finite.reshape(-1, LIST)


def table(values):
    n = len(values)
    steps = pa.array(range(n), pa.int32())
    offsets = pa.array(range(0, values.size + 1, LIST), pa.int32())
    indices = pa.array(np.tile(np.arange(LIST, dtype=np.int32), n))
    return pa.table({
        "request_id": ["r"] * n, "layer_id": pa.array([0] * n, pa.int32()), "head": [None] * n,
        "prompt_len": pa.array([1000] * n, pa.int32()), "step": steps,
        "topk_indices": pa.ListArray.from_arrays(offsets, indices),
        "scores": pa.ListArray.from_arrays(offsets, pa.array(values.ravel())),
        "covered_mass": pa.array(np.abs(values[:, 0].astype(np.float64)) / 65504, pa.float64()).cast(pa.float16()),
    })


def main(folder):
    values = scores()
    made = table(values)
    names = []
    for name, options in PARQUET.items():
        names.append(name + ".parquet")
        pq.write_table(made, os.path.join(folder, names[-1]), write_page_checksum=True, **options)
    names.append("halves.arrow")
    feather.write_feather(made, os.path.join(folder, names[-1]))
    order = np.argsort(-values.astype(np.float64), axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1).astype(np.float32)
    covered = made["covered_mass"].to_numpy().astype(np.float32)
    json.dump({"files": names, "lists": order.tolist(), "scores": ranked.tolist(), "covered": covered.tolist()}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
