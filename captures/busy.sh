#!/usr/bin/env bash
# How the programs that keep a GPU busy and use it badly are measured, on a machine with a GPU and nsys: `busy.sh FOLDER`.
# The group `busy` of `lab.programs.pairs` (BUSY_GROUP names another): three rounds plain, three under nsys, one under nsys with GPU metrics at
# 20 kHz. BUSY_SECONDS bounds it all (default 240); plain runs come first, then the sampled round, which says the most.
# In FOLDER: busy.tar.gz with times (NAME.jsonl) and logs, and exports.tar.N with an export per window, traced/ and sampled/.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root:$root/packages/workloads/src${PYTHONPATH:+:$PYTHONPATH}" # lab.programs, and what they import
out=$(realpath -m "$1")
work=$(mktemp -d)
total=${BUSY_SECONDS:-240}
reserve=45 # for the exports
mkdir -p "$out" "$work/busy" "$work/exports"
cd "$work"
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

# part NAME SHARE ROUNDS COMMAND...: starts no window after SHARE percent of what is left, and is stopped soon after
part() {
  local name=$1 share=$2 rounds=$3 began=$SECONDS seconds
  shift 3
  seconds=$(((total - reserve - SECONDS) * share / 100))
  if [ "$seconds" -lt 15 ]; then echo "$name: left out, $seconds s for it"; return; fi
  timeout -s INT -k 20 $((seconds + 20)) "$@" python3 -m lab.programs.pairs ${BUSY_GROUP:-busy} --keep --rounds="$rounds" \
    --seconds="$seconds" --output="busy/$name.jsonl" $profiler > "busy/$name.log" 2>&1
  echo "$name: exit $?, $((SECONDS - began)) s, $(grep -c ' ms a step' "busy/$name.log") windows; $SECONDS s in all"
  grep 'Error: ' "busy/$name.log" | cut -c1-220 | sort -u | head -8
}
nsys_part() { # NAME SHARE ROUNDS OPTIONS...
  local name=$1 share=$2 rounds=$3
  shift 3
  part "$name" "$share" "$rounds" nsys profile --output="$name" --force-overwrite=true --sample=none --cpuctxsw=none \
    --trace=cuda,nvtx,osrt --cuda-graph-trace=node --capture-range=cudaProfilerApi --capture-range-end=stop "$@"
}
exported() { # NAME
  [ -s "$1.nsys-rep" ] || return
  nsys export --type=sqlite --force-overwrite=true --output="$1.sqlite" "$1.nsys-rep" > "busy/$1.export.log" 2>&1
  mkdir -p "exports/$1"
  python3 "$root/captures/cut_windows.py" "$1.sqlite" "exports/$1" >> "busy/$1.export.log" 2>&1
  find "exports/$1" -name '*.sqlite' -print0 | xargs -0 -P 8 -n 1 xz -6
  echo "$1: $(find "exports/$1" -name '*.xz' | wc -l) exports, $(du -sh "exports/$1" | cut -f1); $SECONDS s in all"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
profiler=
part plain 30 3
profiler=--cuda-profiler
nsys_part sampled 40 1 --gpu-metrics-devices=all --gpu-metrics-frequency=20000
exported sampled &
nsys_part traced 90 3
exported traced
wait
tar cf - exports | split -b 15000000 -d -a 1 - "$out/exports.tar."
tar czf "$out/busy.tar.gz" busy
ls -l "$out"
