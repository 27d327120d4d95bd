#!/usr/bin/env bash
# How the programs with one planted line are recorded, on a machine with a GPU and nsys: `lines.sh FOLDER`, within 240 s.
# The group `lines` of `lab.programs.pairs`: what sampling costs; one round under nsys with Python's stacks sampled, as `gpuledger capture nsys`
# does; one under torch.profiler with stacks. In FOLDER: lines.tar.gz with the times, logs, the samples (NAME.samples.gz) and the planted
# lines; exports.tar.N with an export per window; traces.tar.N with a trace per window.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
injected="$root/src/gpuledger/capture/injected"
libraries="$root/src:$root:$root/packages/workloads/src${PYTHONPATH:+:$PYTHONPATH}"
out=$(realpath -m "$1")
device=${LINES_DEVICE:-cuda}
work=$(mktemp -d)
profiler=--cuda-profiler
[ "$device" = cuda ] || profiler=
mkdir -p "$out" "$work/lines" "$work/exports" "$work/traces" "$work/samples" "$work/cost"
cd "$work"
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false PYTHONPATH="$libraries" TORCHDYNAMO_VERBOSE=0

part() { # NAME SECONDS COMMAND...
  local name=$1 seconds=$2 began=$SECONDS
  shift 2
  timeout -s INT -k 10 "$seconds" "$@" > "lines/$name.log" 2>&1
  echo "$name: exit $?, $((SECONDS - began)) s; $SECONDS s in all"
  grep -a 'Error: ' "lines/$name.log" | cut -c1-220 | sort -u | head -8
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
python3 -m lab.programs.paired.lines > lines/planted.txt
python3 -c 'import sys, torch; print(sys.version, torch.__version__)'
sampled=(env "PYTHONPATH=$injected:$libraries")

part nsys 100 "${sampled[@]}" "GPULEDGER_SAMPLES=$work/samples" nsys profile --output=nsys --force-overwrite=true --sample=none --cpuctxsw=none \
  --trace=cuda,nvtx,osrt --cuda-graph-trace=node --capture-range=cudaProfilerApi --capture-range-end=stop \
  python3 -m lab.programs.pairs lines --variant=bad --rounds=1 --steps=30 --seconds=60 --device="$device" $profiler --output=lines/nsys.jsonl
# without the host's name and where libraries lie
cat samples/* | sed -E '/^H /s/"host": "[^"]*"/"host": "host"/; /^F /s#"/[^"]*/((site|dist)-packages|lib/python[0-9.]+)/#"/\1/#' |
  gzip -6 > lines/nsys.samples.gz
(
  [ -s nsys.nsys-rep ] || exit
  nsys export --type=sqlite --force-overwrite=true --output=nsys.sqlite nsys.nsys-rep > lines/export.log 2>&1
  python3 "$root/captures/cut_windows.py" nsys.sqlite exports >> lines/export.log 2>&1
  find exports -name '*.sqlite' -print0 | xargs -0 -P 4 -n 1 xz -6
  tar cf - exports | split -b 15000000 -d -a 1 - "$out/exports.tar."
  echo "exports: $(ls exports | wc -l), $(du -sh exports | cut -f1); $SECONDS s in all"
) &
part traces 75 python3 -m lab.programs.pairs lines --variant=bad --rounds=1 --steps=8 --seconds=50 --device="$device" --traces=traces \
  --with-stack --output=lines/traces.jsonl
tar cf - traces | split -b 15000000 -d -a 1 - "$out/traces.tar."
part cost 60 "${sampled[@]}" "GPULEDGER_SAMPLES=$work/cost" python3 -m lab.programs.sampler_cost lines --device="$device" --variant=bad,fixed \
  --not=recompile_shape,recompile_constant,loader_workers,collate,pin_each_step,alloc_loop --rounds=5 --steps=20 --seconds=45 --output=lines/cost.jsonl
wait
tar czf "$out/lines.tar.gz" lines
cat lines/cost.log
ls -l "$out"
