"""Write a trace again with pyarrow, once for each variant, and print their names.

Usage: rewrite.py TRACE FOLDER
"""

import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

PLAIN = {"write_page_checksum": True}
SMALL = {"data_page_size": 2000, "write_batch_size": 64}

# name: (options of the writer, schema as our writer's or as pyarrow makes it, keys of the metadata)
VARIANTS = {
    "default": (PLAIN, "own", ["kvreplay"]),
    "v1_snappy_pages": (PLAIN | SMALL | {"compression": "snappy"}, "own", ["kvreplay"]),
    "v1_index": (PLAIN | SMALL | {"write_page_index": True}, "own", ["kvreplay"]),
    "v2_zstd_pages": (PLAIN | SMALL | {"data_page_version": "2.0", "compression": "zstd", "write_page_index": True}, "own", ["kvreplay"]),
    "v2_none_plain": (PLAIN | SMALL | {"data_page_version": "2.0", "compression": "none", "use_dictionary": False}, "own", ["kvreplay"]),
    "v2_dictionary_index": (PLAIN | SMALL | {"data_page_version": "2.0", "write_page_index": True}, "own", ["kvreplay"]),
    "gzip": (PLAIN | {"compression": "gzip"}, "own", ["kvreplay"]),
    "brotli": (PLAIN | {"compression": "brotli"}, "own", ["kvreplay"]),
    "nullable": (PLAIN, "nullable", ["kvreplay"]),
    "nullable_v2": (PLAIN | SMALL | {"data_page_version": "2.0", "write_page_index": True}, "nullable", ["kvreplay"]),
    "large": (PLAIN, "large", ["kvreplay"]),
    "unchecked_with_digest": ({}, "own", ["kvreplay", "kvreplay.digest", "kvreplay.seal"]),
    "unchecked": ({}, "own", ["kvreplay"]),
    "lz4": (PLAIN | {"compression": "lz4"}, "own", ["kvreplay"]),
    "int64": (PLAIN, "int64", ["kvreplay"]),
}


def retyped(schema, kind):
    """The schema as other producers would declare it."""
    def field(f):
        t, nullable = f.type, True
        if pa.types.is_list(t):
            t = {"large": pa.large_list, "int64": pa.list_}.get(kind, pa.list_)(
                pa.int64() if kind == "int64" and pa.types.is_int32(t.value_type) else t.value_type)
        if kind == "large" and pa.types.is_string(t):
            t = pa.large_string()
        return pa.field(f.name, t, nullable)
    return schema if kind == "own" else pa.schema([field(f) for f in schema])


def main(path, folder):
    table = pq.read_table(path)
    stated = table.schema.metadata
    for name, (options, kind, keys) in VARIANTS.items():
        schema = retyped(table.schema.remove_metadata(), kind)
        again = pa.Table.from_pylist(table.to_pylist(), schema)
        again = again.replace_schema_metadata({k: stated[k.encode()] for k in keys})
        pq.write_table(again, os.path.join(folder, name + ".parquet"), row_group_size=len(again), **options)
        print(name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
