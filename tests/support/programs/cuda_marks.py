"""Stand-ins for CUDA's runtime and for programs that mark their window with it, compiled where they are used.

The runtime writes down its calls into the file that CALLS names. `marked` is a program that is linked with it; the
module is linked with it too and loaded for itself alone, as Python loads the modules of torch.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

RUNTIME = """
#include <stdio.h>
#include <stdlib.h>
static int called(const char *name) {
    const char *path = getenv("CALLS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) { fprintf(file, "%s\\n", name); fclose(file); }
    return 0;
}
int cudaProfilerStart(void) { called("start"); return 7; }
int cudaProfilerStop(void) { called("stop"); return 8; }
int cudaDeviceSynchronize(void) { return called("wait"); }
"""
MARKED = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int cudaProfilerStart(void);
int cudaProfilerStop(void);
int marked(const char *how) {
    int first = cudaProfilerStart();
    if (!strcmp(how, "fork")) {
        if (fork() == 0) { cudaProfilerStop(); _exit(0); }
        wait(NULL);
    }
    usleep(3000);
    if (!strcmp(how, "unclosed")) return 0;
    int last = cudaProfilerStop();
    cudaProfilerStart();
    cudaProfilerStop();
    printf("%d %d\\n", first, last);
    fflush(stdout);
    return !strcmp(how, "fails") && getenv("GPULEDGER_PLAIN_WINDOW") ? 3 : 0;
}
"""
MAIN = 'int marked(const char *); int main(int count, char **words) { return marked(count > 1 ? words[1] : ""); }\n'


@dataclass(frozen=True)
class MarkedPrograms:
    program: Path
    module: Path


def marked_programs(folder: Path) -> MarkedPrograms:
    """Compile them into this folder."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    for name, code in (("runtime.c", RUNTIME), ("marked.c", MARKED), ("main.c", MAIN)):
        (folder / name).write_text(code)
    linked = ("-L.", "-lcudart", f"-Wl,-rpath,{folder}")
    for words in (
        ("-shared", "-fPIC", "-o", "libcudart.so", "runtime.c"),
        ("-shared", "-fPIC", "-o", "module.so", "marked.c", *linked),
        ("-o", "marked", "main.c", "marked.c", *linked),
    ):
        subprocess.run(["cc", *words], cwd=folder, check=True)
    return MarkedPrograms(folder / "marked", folder / "module.so")
