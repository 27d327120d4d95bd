"""Commands around a command: shells, schedulers, containers, profilers."""
from __future__ import annotations

from casegen.base import Part, Rng, Text, script

ARGV_WRAPPERS: dict[str, list[str]] = {
    "sudo": ["sudo"], "sudo-E": ["sudo", "-E", "-u", "svc4127"], "torchrun": ["torchrun", "--nproc-per-node", "8", "--rdzv-endpoint=h4127:29500", "--no-python"], "nsys": ["nsys", "profile", "-o", "rep4127", "--trace=cuda,nvtx", "--force-overwrite", "true"],
    "ncu": ["ncu", "--set", "full", "-o", "rep4127", "--target-processes", "all"], "srun": ["srun", "-N", "2", "--gres=gpu:8", "--container-image=nvcr.io/nvidia/pytorch:24.05-py3"], "docker-exec": ["docker", "exec", "-it", "c4127"],
    "docker-run": ["docker", "run", "--rm", "--gpus", "all", "-v", "/data:/data", "img4127:24.05"], "kubectl-exec": ["kubectl", "exec", "-it", "pod4127", "-n", "team-ml7", "--"], "nohup": ["nohup"], "timeout": ["timeout", "-k", "30", "3600"], "env": ["env", "NCCL_DEBUG=INFO"],
    "mpirun": ["mpirun", "-np", "8", "--bind-to", "none", "-x", "NCCL_DEBUG=INFO"], "numactl": ["numactl", "--cpunodebind=0", "--membind=0"], "uv": ["uv", "run"], "conda": ["conda", "run", "-n", "env4127"], "apptainer": ["apptainer", "exec", "--nv", "img4127.sif"],
    "time": ["/usr/bin/time", "-v"], "stdbuf": ["stdbuf", "-oL"], "ssh-words": ["ssh", "-p", "2222", "ml@h4127"], "poetry": ["poetry", "run"], "nice": ["nice", "-n", "10"], "compute-sanitizer": ["compute-sanitizer", "--tool", "memcheck"], "gdb": ["gdb", "--args"], "sky": ["sky", "exec", "cl4127"],
}
SHELLS: dict[str, list[str]] = {
    "bash-c": ["bash", "-c"], "bash-lc": ["bash", "-lc"], "sh-c": ["sh", "-c"], "zsh-ic": ["zsh", "-ic"], "bash-euxo": ["bash", "-euxo", "pipefail", "-c"], "abs-bash": ["/bin/bash", "-c"], "ssh": ["ssh", "ml@h4127"], "ssh-opts": ["ssh", "-o", "StrictHostKeyChecking=no", "-i", "/home/user/.ssh/id4127", "ml@10.0.0.4"],
    "tmux": ["tmux", "new-session", "-d", "-s", "s4127"], "screen": ["screen", "-dmS", "s4127", "bash", "-c"], "sbatch-wrap": ["sbatch", "--gres=gpu:8", "--wrap"], "su": ["su", "-", "svc4127", "-c"], "srun-bash": ["srun", "--gres=gpu:8", "bash", "-c"], "docker-exec-bash": ["docker", "exec", "c4127", "bash", "-c"],
    "docker-run-bash": ["docker", "run", "--rm", "img4127", "/bin/sh", "-c"], "kubectl-bash": ["kubectl", "exec", "pod4127", "--", "sh", "-c"], "sudo-bash": ["sudo", "bash", "-c"], "watch": ["watch", "-n", "5"], "script": ["script", "-q", "log4127", "-c"], "xargs": ["xargs", "-I{}", "bash", "-c"], "gcloud-ssh": ["gcloud", "compute", "ssh", "vm4127", "--command"],
    "parallel-ssh": ["pdsh", "-w", "node[1-8]"], "nsys-bash": ["nsys", "profile", "-o", "rep4127", "bash", "-c"], "entrypoint": ["docker", "run", "--entrypoint", "bash", "img4127", "-c"], "conda-bash": ["conda", "run", "-n", "env4127", "bash", "-c"], "flock": ["flock", "/tmp/l4127", "-c"], "hyperfine": ["hyperfine", "--runs", "3"],
}


def wrapped(part: Part, rng: Rng) -> tuple[Part, str]:
    """The command as words of another."""
    name = rng.choice(list(ARGV_WRAPPERS))
    around = ARGV_WRAPPERS[name]
    return Part([*around, *part.words], part.secrets, [*around, *part.harmless], part.kind), name


def in_shell(text: Text, rng: Rng) -> tuple[Part, str]:
    """A script as the last word of a shell's command."""
    name = rng.choice(list(SHELLS))
    around = SHELLS[name]
    return Part([*around, text.text], text.secrets, [*around, *text.harmless], text.kind), name


def as_script(part: Part, rng: Rng) -> Text:
    """A command as script text, now and then with other commands beside it."""
    text = script(part, rng)
    before = rng.choice(["", "", "", "cd /opt/lab && ", "set -e; ", "source /opt/venv/bin/activate && ", "ulimit -n 65536\n"])
    after = rng.choice(["", "", "", " | tee run.log", " > out.log 2>&1", " && echo finished", "; nvidia-smi", " &"])
    if "\n" in text.text:
        after = after.replace(" &", "") if after == " &" else after
    return Text(before + text.text + after, text.secrets, text.harmless, text.kind)
