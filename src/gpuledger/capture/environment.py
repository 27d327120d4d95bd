"""What a run depended on besides its command: environment variables and the commit.

Of the environment only the names of a list are kept, and those that the user adds. What looks like a secret is never
kept, whoever asks for it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpuledger.capture.secret_names import looks_secret
from gpuledger.capture.withheld import shown_value
from gpuledger.errors import GpuledgerError, ToolFailed
from gpuledger.system.processes import run

KEPT: Final = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_ORDER"),
    *("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_CACHE_DISABLE"),
    *("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "NVIDIA_TF32_OVERRIDE", "CUDNN_*"),
    *("NCCL_*", "GLOO_SOCKET_IFNAME", "NVSHMEM_*", "UCX_*"),
    *("TORCH_*", "TORCHINDUCTOR_*", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "TRITON_*"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TOKENIZERS_PARALLELISM"),
    *("VLLM_ATTENTION_BACKEND", "VLLM_USE_V1", "SGLANG_*", "XLA_FLAGS", "JAX_PLATFORMS"),
)
"""Names of variables that change what a GPU does; a star stands for any letters."""

_NAME: Final = re.compile(r"[A-Za-z_*][\w*]*", re.ASCII)
_GIT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Commit:
    """The state of a folder that git knows."""

    commit: str
    is_dirty: bool
    """Whether files differ from it."""


@dataclass(frozen=True, slots=True)
class EnvironmentWishes:
    """What --env asks for."""

    noted: tuple[str, ...] = ()
    """Names for the manifest, besides those of the list; a star stands for any letters."""
    given: Mapping[str, str] = field(default_factory=dict)
    """What the program is to have."""

    def carried(self, here: Mapping[str, str]) -> dict[str, str]:
        """What a program elsewhere is to have: what was given, and what the names that were not given have here.

        A secret goes only where it was given: on a command line, others can read it.
        """
        named = {name: here[name] for name in sorted(here) if _matches(name, self.noted) and not looks_secret(name)}
        return named | dict(self.given)

    def withheld(self, here: Mapping[str, str]) -> tuple[str, ...]:
        """The secrets that are named, and not carried."""
        return tuple(name for name in self.noted if name in here and looks_secret(name) and name not in self.given)


def environment_wishes(words: Iterable[str]) -> EnvironmentWishes:
    """NAME or NAME=VALUE, each as --env was given."""
    noted, given = list[str](), dict[str, str]()
    for word in words:
        name, equals, value = word.partition("=")
        if _NAME.fullmatch(name) is None or (equals and not name.isidentifier()):
            raise GpuledgerError(f"--env={word}: expected NAME or NAME=VALUE, e.g. --env=NCCL_DEBUG=INFO")
        noted.append(name)
        if equals:
            given[name] = value
    return EnvironmentWishes(tuple(noted), given)


def kept_names(more: Iterable[str] = ()) -> tuple[str, ...]:
    """The names of variables that may be kept, with those that the user adds."""
    return tuple(dict.fromkeys((*KEPT, *more)))


def environment(variables: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """The variables that may be kept, by name; the values of secrets are withheld."""
    wanted = kept_names(more)
    kept = {name: value for name, value in variables.items() if _matches(name, wanted)}
    return {name: shown_value(name, value) for name, value in sorted(kept.items())}


def _matches(name: str, wanted: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)


def commit_of(folder: Path) -> Commit | None:
    """The commit that a folder is at; None where git or a repository is missing."""
    try:
        head = run(["git", "-C", folder, "rev-parse", "--verify", "HEAD"], seconds=_GIT_S)
        if head.exit_code != 0:
            return None
        changes = run(["git", "-C", folder, "status", "--porcelain"], seconds=_GIT_S)
    except ToolFailed:
        return None  # it is a remark about the run, not a condition of it
    if not re.fullmatch(r"[0-9a-f]{40,64}", head.last_line):
        return None
    return Commit(head.last_line, changes.exit_code == 0 and bool(changes.output.strip()))
