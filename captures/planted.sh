#!/usr/bin/env bash
# How captures/nsys/planted.tar.xz was made, on a machine with a GPU and nsys: each case of the zoo, bad and fixed, plain and profiled.
# With the argument zoo_llm it makes those of captures/nsys/zoo_llm.tar.xz.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root:$root/packages/workloads/src${PYTHONPATH:+:$PYTHONPATH}"
zoo=lab.programs.${1:-zoo}
for case in $(python3 -m "$zoo" --list | awk '{print $1}'); do
  for variant in bad fixed; do
    flag=(); [ "$variant" = fixed ] && flag=(--fixed)
    python3 -m "$zoo" "$case" "${flag[@]}" --steps 20 > "$case.$variant.plain.json"
    nsys profile --output="$case.$variant" --force-overwrite=true --sample=none --cpuctxsw=none --trace=cuda,nvtx,osrt \
      --capture-range=cudaProfilerApi --capture-range-end=stop \
      python3 -m "$zoo" "$case" "${flag[@]}" --steps 20 --cuda-profiler > "$case.$variant.nsys.json"
    nsys export --type=sqlite --force-overwrite=true --output="$case.$variant.sqlite" "$case.$variant.nsys-rep"
  done
done
