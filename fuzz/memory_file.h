/* A file that lies in memory, as btree.c reads files; shared by the harnesses. */
#ifndef GPULEDGER_MEMORY_FILE_H
#define GPULEDGER_MEMORY_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/gpuledger/trace/native/btree.h"

struct memory_file {
    const uint8_t *bytes;
    size_t size;
};

static inline int read_memory(void *file, uint64_t offset, void *into, size_t size) {
    const struct memory_file *memory = file;
    if (offset > memory->size || size > memory->size - offset) return 1;
    memcpy(into, memory->bytes + offset, size);
    return 0;
}

/* Ends the run where something that must hold does not. */
static inline void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

#endif
