#!/usr/bin/env bash
# How use of the GPU from samples is held against Nsight Compute, on a machine with a GPU, nsys and ncu: `use.sh FOLDER`.
# Every program of `lab.programs.sampled`: plain, under nsys, under nsys with GPU metrics at 20 kHz (three rounds
# each), and its first launches under ncu, replayed as little as can be, with clocks and caches as they are.
# In FOLDER: use.tar.gz with times and logs, GROUP.csv.xz of ncu, GROUP_flushed.csv.xz with caches emptied before each
# launch, and exports.tar.N with an export per window of the sampled run; exports_fast of runs that are sampled at 200 kHz.
# USE_RUNS, USE_PROGRAMS and GROUPS_COUNTED name some of the runs, of the programs and of the groups (dense_flushed, ...).
# Then: `python benchmarks/use_against_ncu.py FOLDER`.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root:$root/packages/workloads/src${PYTHONPATH:+:$PYTHONPATH}" # lab.programs, and what they import
out=$(realpath -m "$1")
work=$(mktemp -d)
mkdir -p "$out" "$work/use"
cd "$work"
export PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
metrics=gpu__time_duration.sum
for counter in sm__cycles_active.avg sm__inst_issued.avg sm__pipe_tensor_cycles_active.avg sm__warps_active.avg \
  dram__bytes_read.sum dram__bytes_write.sum; do
  metrics=$metrics,$counter.pct_of_peak_sustained_elapsed
done
metrics=$metrics,sm__maximum_warps_per_active_cycle_pct,sm__warps_active.avg.pct_of_peak_sustained_active

part() { # NAME LIMIT COMMAND...
  local name=$1 limit=$2 began=$SECONDS
  shift 2
  timeout -s INT -k 20 "$limit" "$@" > "use/$name.log" 2>&1
  echo "$name: exit $?, $((SECONDS - began)) s; $SECONDS s in all"
  grep -h 'Error: ' "use/$name.log" | cut -c1-220 | sort -u | head -8
}
nsys_run() { # NAME PROGRAMS OPTIONS...
  local name=$1 programs=$2
  shift 2
  part "$name" 110 nsys profile --output="$name" --force-overwrite=true --sample=none --cpuctxsw=none --trace=cuda,nvtx \
    --cuda-graph-trace=node --capture-range=cudaProfilerApi --capture-range-end=stop "$@" \
    python3 -m lab.programs.sampled $programs --record=windows --rounds=3 --output="use/$name.jsonl"
}
cut_windows() { # NAME FOLDER
  [ -e "$1.nsys-rep" ] || return
  nsys export --type=sqlite --force-overwrite=true --output="$1.sqlite" "$1.nsys-rep" > "use/$1.export.log" 2>&1
  python3 "$root/captures/cut_windows.py" "$1.sqlite" "$2" >> "use/$1.export.log" 2>&1
}
chosen() { # NAME NAMES
  case " $2 " in *" $1 "*) ;; *) return 1 ;; esac
}
counted() { # NAME PROGRAMS...
  count_as "$1" none "${@:2}"
  count_as "$1_flushed" all "${@:2}"
}
count_as() { # NAME CACHES PROGRAMS...
  local name=$1 caches=$2
  shift 2
  chosen "$name" "$groups" || return
  part "$name" "${COUNT_SECONDS:-100}" ncu --profile-from-start off --clock-control none --cache-control "$caches" \
    --metrics "$metrics" --force-overwrite --export "$name" \
    python3 -m lab.programs.sampled "$@" --record=steps --output="use/$name.jsonl"
  ncu --import "$name.ncu-rep" --page raw --csv --print-kernel-base demangled > "$name.csv" 2>> "use/$name.log"
  xz -6 -c "$name.csv" > "$out/$name.csv.xz"
}

runs=${USE_RUNS:-"plain traced sampled sampled_jax"}
programs=${USE_PROGRAMS:-"llama_bf16 llama_fp32 training training_loop resnet_nchw eager_attention experts_loop graph_decode \
  elementwise irregular triton"}
groups=${GROUPS_COUNTED:-"dense small triton training jax"}
sampling="--gpu-metrics-devices=all --gpu-metrics-frequency"
nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
for asked in --gpu-metrics-devices=help --gpu-metrics-set=help; do nsys profile $asked; done > use/nsys_help.txt 2>&1
chosen plain "$runs" && part plain 100 python3 -m lab.programs.sampled $programs --rounds=3 --output=use/plain.jsonl
chosen traced "$runs" && nsys_run traced "$programs"
chosen sampled "$runs" && nsys_run sampled "$programs" $sampling=20000
chosen sampled_jax "$runs" && nsys_run sampled_jax jax $sampling=20000 # by itself: JAX and torch each take the memory that they want
chosen sampled_fast "$runs" && nsys_run sampled_fast "graph_decode decode_batch" $sampling=200000
(
  cut_windows sampled exports
  cut_windows sampled_jax exports
  cut_windows sampled_fast exports_fast
  ls exports*/*.sqlite | xargs -P 8 -n 1 xz -6
  echo "exports: $(du -sh exports | cut -f1); $SECONDS s in all"
) &
counted dense llama_bf16 llama_fp32 resnet_nchw eager_attention
counted small graph_decode experts_loop elementwise irregular
counted triton triton
counted training training
counted unseen bert unet vit decode_batch numerical small_products
counted graphs graph_decode decode_batch
counted jax jax
wait
tar cf - exports* | split -b 15000000 -d -a 1 - "$out/exports.tar."
tar czf "$out/use.tar.gz" use
ls -l "$out"
