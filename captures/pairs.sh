#!/usr/bin/env bash
# How captures of the programs of `lab.programs.pairs` are made, on a machine with a GPU and nsys: `pairs.sh FOLDER`.
# Three rounds of every program in every variant, plain and profiled, the profiled ones in one report per group; then
# `python captures/cut_windows.py GROUP.sqlite FOLDER` makes an export per window. PAIRS_SECONDS bounds it all (default 570).
# In FOLDER: pairs.tar.gz with the times (NAME.plain.jsonl, NAME.nsys.jsonl), the logs and the small exports, and NAME.sqlite.xz
# for the others, in parts of 16 MB.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root:$root/packages/workloads/src${PYTHONPATH:+:$PYTHONPATH}" # lab.programs, and what they import
out=$(realpath -m "$1")
work=$(mktemp -d)
total=${PAIRS_SECONDS:-570}
mkdir -p "$out" "$work/texts"
cd "$work"
export PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
reserve=60 # for the exports

# part NAME LIMIT COMMAND...: at most LIMIT seconds, and none that the exports need
part() {
  local name=$1 limit=$2 left=$((total - reserve - SECONDS)) began=$SECONDS
  shift 2
  [ "$left" -lt "$limit" ] && limit=$left
  if [ "$limit" -lt 20 ]; then echo "$name: left out, $left s left"; return; fi
  timeout -s INT -k 20 "$limit" "$@" > "texts/$name.log" 2>&1
  echo "$name: exit $?, $((SECONDS - began)) s, $(grep -c ' ms a step' "texts/$name.log") windows," \
    "$(grep -c 'Error: ' "texts/$name.log") failed; $SECONDS s in all"
  grep 'Error: ' "texts/$name.log" | cut -c1-220 | sort -u | head -8
}
least() { if [ "$1" -lt "$2" ]; then echo "$1"; else echo "$2"; fi; }
programs() { # NAME SECONDS GROUPS AND OPTIONS...
  local name=$1 seconds=$2
  shift 2
  seconds=$(least "$seconds" $((total - reserve - SECONDS - 25)))
  part "$name.plain" $((seconds + 30)) python3 -m lab.programs.pairs "$@" --seconds="$seconds" --output="texts/$name.plain.jsonl"
  seconds=$(least $((seconds * 5 / 4)) $((total - reserve - SECONDS - 45)))
  part "$name.nsys" $((seconds + 50)) nsys profile --output="$name" --force-overwrite=true --sample=none --cpuctxsw=none \
    --trace=cuda,nvtx,osrt --cuda-graph-trace=node --capture-range=cudaProfilerApi --capture-range-end=stop \
    python3 -m lab.programs.pairs "$@" --seconds="$seconds" --cuda-profiler --output="texts/$name.nsys.jsonl"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
programs planted 95 planted together structures
part neighbours.nsys 60 nsys profile --output=neighbours --force-overwrite=true --sample=none --cpuctxsw=none \
  --trace=cuda,nvtx,osrt python3 -m lab.programs.pairs planted --only=device_sync --rounds=1 --steps=6 --processes=2 \
  --output=texts/neighbours.jsonl
programs jax 20 jax
programs library 75 library --keep --steps=10
# the host limits these, and differs from run to run: more rounds of them
programs unsteady 30 planted together --only=tiny_kernels,nonzero,optimizer,moe_loop,read_tiny --first-round=4

for report in *.nsys-rep; do
  {
    name=${report%.nsys-rep}
    timeout -k 5 120 nsys export --type=sqlite --force-overwrite=true --output="$name.sqlite" "$report" > "texts/$name.export.log" 2>&1 ||
      echo "$name: not exported, the report itself comes back"
    if [ -s "$name.sqlite" ]; then xz -6 -T16 -k "$name.sqlite"; else xz -1 -T16 -k "$report"; fi
    for packed in "$name".*.xz; do
      if [ "$(stat -c %s "$packed")" -gt 3000000 ]; then split -b 16000000 -d -a 2 "$packed" "$out/$packed.part"; else cp "$packed" texts/; fi
    done
    echo "$name: $(stat -c %s "$name.sqlite" 2>/dev/null) bytes; $SECONDS s in all"
  } &
done
wait
mv texts pairs && tar czf "$out/pairs.tar.gz" pairs
ls -l "$out"
