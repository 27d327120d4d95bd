/* A harness for libFuzzer: any bytes as an LZ4 block, and as the events of one, through report_events.c.
 *
 * In: a byte for how large the block says that it is, then the block. The same bytes once more as the plain events of a
 * block, packed as literals, so that messages are reached without guessing LZ4. Checked beside what the sanitizers see:
 * a row's parent is a row, texts are as long as their rows say, a damaged event leaves no row.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/gpuledger/trace/native/report_events.h"

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

enum { EVENTS, PARTS, GENERIC, TABLES };
enum { EVENT, INLINE, PART, ANY, NODES };

static const uint16_t WIDTHS[TABLES] = {6, 4, 2};
static const uint16_t TEXT_AT[TABLES] = {4, 3, 1}; /* the column of each table that holds lengths of texts */

/* An event with numbers, a text, a message of the same row, and messages that are rows of their own and hold themselves. */
static void fill(struct report_plan *plan, struct report_node nodes[NODES]) {
    memset(nodes, 0, NODES * sizeof *nodes);
    nodes[EVENT].table = EVENTS, nodes[INLINE].table = -1, nodes[PART].table = PARTS, nodes[ANY].table = GENERIC;
    nodes[EVENT].fields[1] = (struct report_field){REPORT_NUMBER, 1};
    nodes[EVENT].fields[2] = (struct report_field){REPORT_NUMBER, 2};
    nodes[EVENT].fields[3] = (struct report_field){REPORT_TEXT, 4};
    nodes[EVENT].fields[4] = (struct report_field){REPORT_MESSAGE, INLINE};
    nodes[EVENT].fields[5] = nodes[INLINE].fields[3] = (struct report_field){REPORT_MESSAGE, PART};
    nodes[INLINE].fields[1] = (struct report_field){REPORT_NUMBER, 3};
    nodes[INLINE].fields[200] = (struct report_field){REPORT_NUMBER, 5};
    nodes[PART].fields[1] = (struct report_field){REPORT_NUMBER, 1};
    nodes[PART].fields[2] = (struct report_field){REPORT_TEXT, 3};
    nodes[PART].fields[3] = (struct report_field){REPORT_MESSAGE, PART};
    nodes[ANY].fields[1] = (struct report_field){REPORT_TEXT, 1};
    *plan = (struct report_plan){.nodes = nodes, .node_count = NODES, .table_count = TABLES, .generic = ANY};
    memcpy(plan->widths, WIDTHS, sizeof WIDTHS);
    for (size_t number = 0; number < REPORT_CLASSES; number++) plan->of_class[number] = number % 3 ? EVENT : -1;
}

static void check(const struct report_rows *rows) {
    for (int number = 0; number < TABLES; number++) {
        const struct report_table *table = &rows->tables[number];
        uint64_t texts = 0;
        for (size_t row = 0; row < table->count; row++) {
            const int64_t *values = table->rows + row * WIDTHS[number];
            int64_t length = values[TEXT_AT[number]];
            must(length == INT64_MIN || length >= 0, "a text has a length or is not there");
            if (length > 0) texts += (uint64_t)length;
            size_t parents = rows->tables[EVENTS].count;
            if (rows->tables[PARTS].count > parents) parents = rows->tables[PARTS].count;
            must(number != PARTS || (values[0] >= 0 && (size_t)values[0] < parents), "a parent is a row");
        }
        must(texts == table->text_size, "the texts of a table are those of its rows");
    }
}

static void decode(const uint8_t *packed, size_t size, size_t plain_size, uint64_t most_rows) {
    struct report_node nodes[NODES];
    struct report_plan plan;
    struct report_block blocks[2] = {{packed, size, plain_size}, {packed, size / 2, plain_size}};
    struct report_rows *rows = calloc(1, sizeof *rows);
    must(rows != NULL, "there is memory");
    fill(&plan, nodes);
    if (report_decode(&plan, blocks, 2, most_rows, NULL, rows) == REPORT_OK) check(rows);
    report_free(rows);
    free(rows);
}

/* The bytes as one run of literals, behind how long they are. */
static size_t as_literals(const uint8_t *bytes, size_t size, uint8_t *into, size_t *plain_size) {
    uint8_t length[10];
    size_t digits = 0, at = 0;
    for (size_t left = size; digits == 0 || left; left >>= 7) length[digits++] = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
    size_t literals = *plain_size = digits + size;
    into[at++] = (uint8_t)((literals < 15 ? literals : 15) << 4);
    if (literals >= 15) {
        size_t left = literals - 15;
        for (; left >= 255; left -= 255) into[at++] = 255;
        into[at++] = (uint8_t)left;
    }
    memcpy(into + at, length, digits);
    memcpy(into + at + digits, bytes, size);
    return at + literals;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 2) return 0;
    size_t most = size + size / 255 + 32, plain_size;
    uint8_t *exact = malloc(size - 1), *packed = malloc(most), *fitting; /* so that one byte beyond is seen */
    must(exact && packed, "there is memory");
    memcpy(exact, bytes + 1, size - 1);
    decode(exact, size - 1, (size - 1) * bytes[0] / 8, 1000);
    const uint8_t *at = exact, *text;
    size_t length;
    while (report_next_text(&at, exact + size - 1, bytes[0] % 4, &text, &length))
        must(text >= exact && text + length <= exact + size - 1 && at > exact, "a text lies in the bytes");
    size_t used = as_literals(exact, size - 1, packed, &plain_size);
    must((fitting = realloc(packed, used)) != NULL, "there is memory");
    decode(fitting, used, plain_size, bytes[0] < 128 ? 1000 : 3);
    free(exact), free(fitting);
    return 0;
}
