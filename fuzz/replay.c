/* Runs a harness on files instead of in libFuzzer, so that any compiler with sanitizers will do: replay FILE... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int main(int count, char **names) {
    for (int at = 1; at < count; at++) {
        FILE *file = fopen(names[at], "rb");
        if (file == NULL || fseek(file, 0, SEEK_END)) return 2;
        long size = ftell(file);
        uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1);
        rewind(file);
        if (size < 0 || bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size) return 2;
        fclose(file);
        LLVMFuzzerTestOneInput(bytes, (size_t)size);
        free(bytes);
    }
    return 0;
}
