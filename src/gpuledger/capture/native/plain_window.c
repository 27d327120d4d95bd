/* How long the window of a program takes that nobody profiles. Loaded with LD_PRELOAD; knows nothing of Python.

   The program's own calls of cudaProfilerStart and cudaProfilerStop (or the driver's) come here first and go on to where
   they were going. The device is waited for at both ends, so that what was launched inside belongs to the window, as it
   does to a recording. Of each process the first window counts: it is the one that is recorded. The file that
   GPULEDGER_PLAIN_WINDOW names gets "PID START" when it opens and "PID START END" when it closes, in nanoseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OURS __attribute__((visibility("default")))

typedef int (*call)(void); /* cudaError_t or CUresult: 0 is success */

enum { NOT_OPENED, OPENING, OPEN, CLOSED };

static atomic_int state = NOT_OPENED;
static int64_t opened_ns;
static pid_t opened_by; /* a child that was forked inside the window has not opened one of its own */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* One write of one line: the processes of a program share the file. */
static void note(const char *line, int length) {
    const char *path = getenv("GPULEDGER_PLAIN_WINDOW");
    if (!path || !*path) return;
    int before = errno, file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) {
        ssize_t written = write(file, line, (size_t)length);
        (void)written; /* a line that is not there is a window that was not seen */
        close(file);
    }
    errno = before;
}

/* What a library that is loaded already has under this name, itself or by what it was linked with; not ourselves. */
static void *look_in(const char *path, const char *name, const void *own) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return NULL;
    void *symbol = dlsym(library, name);
    dlclose(library); /* it stays loaded: we only borrowed it */
    return symbol == own ? NULL : symbol;
}

struct cuda_library {
    const char *begins; /* how its file is called */
    char path[4096];
};

/* dlopen must wait until the list of libraries is let go: another thread may be inside it, and want that list. */
static int is_cuda_library(struct dl_phdr_info *loaded, size_t size, void *wanted) {
    (void)size;
    struct cuda_library *library = wanted;
    const char *slash = strrchr(loaded->dlpi_name, '/'), *file = slash ? slash + 1 : loaded->dlpi_name;
    if (strncmp(file, library->begins, strlen(library->begins))) return 0;
    return snprintf(library->path, sizeof library->path, "%s", loaded->dlpi_name) < (int)sizeof library->path;
}

/* Where a call would have gone without us: what the caller's library was linked with, which may be loaded for it alone,
   as Python loads modules; else the next of that name; else CUDA's own library, however it came here. */
static call real(const char *name, const void *own, const void *caller) {
    Dl_info from;
    void *symbol = dladdr(caller, &from) && from.dli_fname ? look_in(from.dli_fname, name, own) : NULL;
    if (!symbol) symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) {
        struct cuda_library library = {strncmp(name, "cuda", 4) ? "libcuda.so" : "libcudart.so", ""};
        if (dl_iterate_phdr(is_cuda_library, &library)) symbol = look_in(library.path, name, own);
    }
    return (call)symbol;
}

static void wait_for_device(const char *name, const void *caller) {
    call synchronize = real(name, NULL, caller);
    if (synchronize) synchronize();
}

static int start(const char *name, const void *own, const char *synchronize, const void *caller) {
    int expected = NOT_OPENED, is_first = atomic_compare_exchange_strong(&state, &expected, OPENING);
    if (is_first) wait_for_device(synchronize, caller);
    call passed_on = real(name, own, caller);
    int result = passed_on ? passed_on() : 0;
    if (is_first) {
        char line[64];
        opened_by = getpid();
        opened_ns = now_ns();
        note(line, snprintf(line, sizeof line, "%ld %" PRId64 "\n", (long)opened_by, opened_ns));
        opened_ns = now_ns(); /* the note is not part of the window */
        atomic_store(&state, OPEN);
    }
    return result;
}

static int stop(const char *name, const void *own, const char *synchronize, const void *caller) {
    if (atomic_load(&state) == OPEN && opened_by == getpid()) {
        wait_for_device(synchronize, caller);
        int64_t closed_ns = now_ns();
        int expected = OPEN;
        if (atomic_compare_exchange_strong(&state, &expected, CLOSED)) {
            char line[96];
            int length = snprintf(
                line, sizeof line, "%ld %" PRId64 " %" PRId64 "\n", (long)opened_by, opened_ns, closed_ns);
            note(line, length);
        }
    }
    call passed_on = real(name, own, caller);
    return passed_on ? passed_on() : 0;
}

OURS int cudaProfilerStart(void) {
    return start("cudaProfilerStart", (void *)cudaProfilerStart, "cudaDeviceSynchronize", __builtin_return_address(0));
}

OURS int cudaProfilerStop(void) {
    return stop("cudaProfilerStop", (void *)cudaProfilerStop, "cudaDeviceSynchronize", __builtin_return_address(0));
}

OURS int cuProfilerStart(void) {
    return start("cuProfilerStart", (void *)cuProfilerStart, "cuCtxSynchronize", __builtin_return_address(0));
}

OURS int cuProfilerStop(void) {
    return stop("cuProfilerStop", (void *)cuProfilerStop, "cuCtxSynchronize", __builtin_return_address(0));
}
