"""What of a command may leave the machine, in a document that others read: only words that are known to be harmless.

The opposite of `secrets`: no value is shown for looking like none. A number, a boolean, an option's name, a program, a
Python module and a file's own name are; a model, a folder, a host and a text for a shell are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from gpuledger.capture.secrets import WITHHELD, looks_secret, without_secrets
from gpuledger.regex import regex

_KNOWN: Final = """
    python python3 torchrun accelerate deepspeed vllm sglang trtllm-bench trtllm-serve trtllm-build srun sbatch
    mpirun mpiexec nsys ncu rocprofv3 docker podman kubectl apptainer singularity ssh env bash sh sudo timeout
    numactl taskset nice nohup time uv uvx ray gpuledger nvidia-smi run serve launch bench exec profile throughput
    latency true false none null yes no auto on off default float32 float16 bfloat16 fp32 fp16 bf16 fp8 int8 int4
    cuda nvtx osrt cudnn cublas nccl cpu gpu all info debug warning error
""".split()
"""Programs and what they are to do, and words for precisions, devices and traces."""
_NUMBER: Final = r"[+-]?\d{1,9}(?:\.\d{1,9})?(?:[eE][+-]?\d{1,3})?(?:[num]?s|min|h|%|[kKMGTx]|[KMGT]i?B|B)?"
_NUMBERS: Final = regex(rf"{_NUMBER}(?:[,x]{_NUMBER}){{0,63}}")
_OPTION: Final = regex(r"-[A-Za-z]{1,2}|--[A-Za-z][\w.-]{0,60}|--")
_NAME: Final = regex(r"-{0,2}[A-Za-z_][\w.-]{0,60}")
_MODULE: Final = regex(r"[A-Za-z_]\w{0,40}(?:\.[A-Za-z_]\w{0,40}){0,9}")
_FILE: Final = regex(
    r"\w[\w.-]{0,60}\.(?:py|sh|jsonl?|ya?ml|toml|cfg|ipynb|csv|parquet|sqlite|nsys-rep|ncu-rep|safetensors|gguf|so|cu|cpp)"
)


def shareable_command(argv: Sequence[str]) -> list[str]:
    """A command as others may see it: what is not known to be harmless is withheld."""
    shown = list[str]()
    for before, word, private in zip(("", *argv), argv, without_secrets(argv), strict=False):
        name, sign, value = word.partition("=")
        if private != word and not (sign and private.startswith(f"{name}=")):
            shown.append(WITHHELD)
        elif sign and _NAME.fullmatch(name):
            shown.append(f"{name}={shareable_value(name, value)}")
        elif _OPTION.fullmatch(word) or (before == "-m" and _MODULE.fullmatch(word)):
            shown.append(word)
        else:
            shown.append(shareable_value(before if before.startswith("-") else "", word))
    return shown


def shareable_value(name: str, value: str) -> str:
    """A value as others may see it, the name of a file in place of its path."""
    own_name = PurePath(value).name
    is_file = _FILE.fullmatch(own_name) and without_secrets([own_name]) == [own_name]
    if looks_secret(name) or not (is_file or _NUMBERS.fullmatch(value) or own_name.lower() in _KNOWN):
        return WITHHELD
    return own_name if is_file or "/" in value else value
