#!/usr/bin/env bash
# How the programs with one planted line are recorded, on a machine with a GPU and nsys: `lines.sh FOLDER`, within 480 s.
# The group `lines` of `lab.programs.pairs`: one round under nsys with Python's stacks sampled, as `gpuledger capture nsys` does; one under
# torch.profiler with stacks; what sampling costs. In FOLDER: lines.tar.gz with the times, logs, the samples (NAME.samples.gz) and the planted
# lines; exports.tar.N with an export per window; traces.tar.N with a trace per window. Nothing else runs while costs are timed.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
libraries="$root/src:$root:$root/packages/workloads/src${PYTHONPATH:+:$PYTHONPATH}"
out=$(realpath -m "$1")
device=${LINES_DEVICE:-cuda}
work=$(mktemp -d)
profiler=--cuda-profiler
[ "$device" = cuda ] || profiler=
mkdir -p "$out" "$work/lines" "$work/exports" "$work/traces"
cd "$work"
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false PYTHONPATH="$libraries" TORCHDYNAMO_VERBOSE=0 TORCHINDUCTOR_FORCE_DISABLE_CACHES=1

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
watched=(python3 "$root/captures/watched.py")

cuda=(nsys profile --force-overwrite=true --sample=none --cpuctxsw=none --trace=cuda,nvtx,osrt --cuda-graph-trace=node
  --capture-range=cudaProfilerApi --capture-range-end=stop)

part nsys 130 "${watched[@]}" lines/all "${cuda[@]}" --output=nsys \
  python3 -m lab.programs.pairs lines --variant=bad --rounds=1 --steps=30 --least-seconds=1.2 --seconds=90 --device="$device" $profiler --output=lines/nsys.jsonl
# without the host's name and where libraries lie
gzip -dc lines/all.samples.gz | sed -E '/^H /s/"host": "[^"]*"/"host": "host"/; /^F /s#"/[^"]*/((site|dist)-packages|lib/python[0-9.]+)/#"/\1/#' |
  gzip -6 > lines/nsys.samples.gz
rm lines/all.samples.gz
(
  [ -s nsys.nsys-rep ] || exit
  nsys export --type=sqlite --force-overwrite=true --output=nsys.sqlite nsys.nsys-rep > lines/export.log 2>&1
  python3 "$root/captures/cut_windows.py" nsys.sqlite exports >> lines/export.log 2>&1
  find exports -name '*.sqlite' -print0 | xargs -0 -P 8 -n 1 xz -6
  tar cf - exports | split -b 15000000 -d -a 1 - "$out/exports.tar."
  echo "exports: $(ls exports | wc -l), $(du -sh exports | cut -f1); $SECONDS s in all"
) &
stacked=(python3 -m lab.programs.pairs lines --variant=bad --rounds=1 --device="$device" --traces=traces --with-stack)
chatty=json_dump,tokenizer,known_time,generator # whose every iteration is a call of Python that torch records
left_out=recompile_kernels # Inductor makes a million calls
calm=$(cut -f1 lines/planted.txt | grep -vxE "${chatty//,/|}|$left_out" | paste -sd,)
part traces 80 "${stacked[@]}" --only="$calm" --steps=8 --seconds=55 --output=lines/traces.jsonl
part chatty 45 "${stacked[@]}" --only="$chatty" --steps=2 --seconds=35 --output=lines/chatty.jsonl
wait
find traces -size +20M -delete
tar cf - traces | split -b 15000000 -d -a 1 - "$out/traces.tar."
tar czf "$out/lines.tar.gz" lines # so far, should time run out

part python 40 "${watched[@]}" python python3 -m lab.programs.sampler_cost python --rounds=25 --output=lines/python.jsonl
# not of programs that have as many steps as they have things to compile, nor of workers, which are started once
costs=(python3 -m lab.programs.sampler_cost lines --device="$device" --fixed=item_deep,to_list,launch_loop
  --not=recompile_kernels,recompile_shape,recompile_constant,recompile_dtype,loader_workers)
part plain 60 "${costs[@]}" --rounds=4 --seconds=50 --output=lines/cost.plain.jsonl
part cost 170 "${watched[@]}" cost "${cuda[@]}" --output=cost \
  "${costs[@]}" --seconds=150 $profiler --output=lines/cost.nsys.jsonl
tar czf "$out/lines.tar.gz" lines
cat lines/python.log
tail -n 30 lines/cost.log | cut -c1-160
ls -l "$out"
