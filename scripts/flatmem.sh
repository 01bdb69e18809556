#!/usr/bin/env bash
# Shows that replay's memory does not grow with the trace. It makes a synthetic trace of
# the given size, replays it, and reports the largest resident set.
#   scripts/flatmem.sh GIGABYTES
set -euo pipefail
cd "$(dirname "$0")/.."
gigabytes=${1:?usage: scripts/flatmem.sh GIGABYTES}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/kvreplay" ./cmd/kvreplay
# A request is 61 layers × 512 rows × 2560 indices, at 2.06 bytes per index.
"$dir/kvreplay" datasets make synthetic --preset deepseek-v3.2-32k --steps 480 --requests "$(((gigabytes * 1000 + 164) / 165))" -o "$dir/big.parquet"
ls -l "$dir/big.parquet" | awk '{printf "trace: %.2f GB\n", $5 / 1e9}'
python3 - "$dir/kvreplay" "$dir/big.parquet" <<'PY'
import resource, subprocess, sys
kvreplay, trace = sys.argv[1:]
subprocess.run([kvreplay, "replay", trace, "--policy", "lru", "--policy", "opt", "--capacity", "1.5x,2x"], check=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(f"largest resident set: {peak / 1024:.0f} MiB")
sys.exit(peak > 1 << 20)
PY
