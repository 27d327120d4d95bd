/* A harness for libFuzzer: any bytes as a SQLite file, through btree.c.
 *
 * In: 8 bytes that say how to look at the file, then the file (see `struct look`). Checked beside what the sanitizers
 * check: a tree decoded in two parts gives what it gives in one, a column decoded alone what it gives among others, one
 * of 32 bits what it gives in 64 or a refusal, texts are as long as they say, and every value of an answer was written.
 * Says how many inputs were decoded to the end when it is done, as a fuzzer that only meets refusals tests nothing.
 */
#include "memory_file.h"

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define MUST_BE_WRITTEN(at, size) __msan_check_mem_is_initialized(at, size)
#endif
#endif
#ifndef MUST_BE_WRITTEN
#define MUST_BE_WRITTEN(at, size) ((void)(at), (void)(size))
#endif

#define LOOK_BYTES 8
#define MOST_COLUMNS 16
#define LIES_ABOUT_PAGES 1

struct look { /* the first bytes of an input */
    uint8_t page_exponent, reserved, root, columns_low, columns_high, alias, text_column, flags;
};

static unsigned long runs, trees_found, trees_decoded, texts_decoded;

static void say_how_many(void) {
    fprintf(stderr, "runs %lu, trees found %lu, integers decoded %lu, texts decoded %lu\n", runs, trees_found,
            trees_decoded, texts_decoded);
}

struct answer {
    enum btree_status status;
    uint64_t rows, bad[MOST_COLUMNS], short_records;
    int64_t *columns[MOST_COLUMNS];
    struct btree_summary summaries[MOST_COLUMNS];
};

static uint64_t count_rows(const struct btree_leaves *leaves, size_t from, size_t to) {
    uint64_t rows = 0;
    for (size_t at = from; at < to; at++) rows += leaves->rows[at];
    return rows;
}

static void check_summary(const int64_t *values, uint64_t rows, struct btree_summary said) {
    struct btree_summary found = {INT64_MAX, INT64_MIN, 0};
    for (uint64_t row = 0; row < rows; row++) {
        if (values[row] == INT64_MIN) {
            found.nulls++;
            continue;
        }
        if (values[row] < found.least) found.least = values[row];
        if (values[row] > found.most) found.most = values[row];
    }
    must(found.least == said.least && found.most == said.most && found.nulls == said.nulls, "a summary is of its column");
}

static struct answer decoded(
    const struct btree_file *file, const struct btree_leaves *leaves, size_t from, size_t to,
    const struct btree_wanted *wanted) {
    struct answer answer = {.rows = count_rows(leaves, from, to)};
    for (size_t at = 0; at < wanted->count; at++) answer.columns[at] = malloc(answer.rows * sizeof(int64_t) + 1);
    answer.status = btree_decode(file, leaves->pages + from, leaves->rows + from, to - from, wanted, answer.columns,
                                 answer.rows, answer.bad, answer.summaries, &answer.short_records);
    for (size_t at = 0; at < wanted->count && answer.status == BTREE_OK; at++) {
        MUST_BE_WRITTEN(answer.columns[at], answer.rows * sizeof(int64_t));
        check_summary(answer.columns[at], answer.rows, answer.summaries[at]);
    }
    return answer;
}

static void forget(struct answer *answer) {
    for (size_t at = 0; at < MOST_COLUMNS; at++) free(answer->columns[at]);
}

/* Both parts together are the whole. What the whole refuses, one of the parts may still give. */
static void compare_parts(
    const struct btree_file *file, const struct btree_leaves *leaves, const struct btree_wanted *wanted,
    const struct answer *whole) {
    size_t middle = leaves->count / 2;
    struct answer parts[2] = {decoded(file, leaves, 0, middle, wanted), decoded(file, leaves, middle, leaves->count, wanted)};
    must(parts[0].status == BTREE_OK && parts[1].status == BTREE_OK, "parts of a whole are read too");
    must(parts[0].short_records + parts[1].short_records == whole->short_records, "short records add up");
    for (size_t at = 0; at < wanted->count; at++) {
        must(parts[0].bad[at] + parts[1].bad[at] == whole->bad[at], "values that are no integers add up");
        must(!memcmp(parts[0].columns[at], whole->columns[at], parts[0].rows * sizeof(int64_t)), "the first part");
        must(!memcmp(parts[1].columns[at], whole->columns[at] + parts[0].rows, parts[1].rows * sizeof(int64_t)),
             "the second part");
    }
    forget(&parts[0]);
    forget(&parts[1]);
}

static void compare_alone(
    const struct btree_file *file, const struct btree_leaves *leaves, const struct btree_wanted *wanted,
    const struct answer *whole) {
    size_t last = wanted->count - 1;
    struct btree_wanted one = {wanted->columns + last, 1, wanted->alias, NULL};
    struct answer alone = decoded(file, leaves, 0, leaves->count, &one);
    must(alone.status == BTREE_OK && alone.bad[0] == whole->bad[last], "a column by itself is read too");
    must(!memcmp(alone.columns[0], whole->columns[last], alone.rows * sizeof(int64_t)), "a column by itself");
    forget(&alone);
}

/* Every other column in 32 bits: the same numbers, or it is said that one of them does not fit. */
static void compare_small(
    const struct btree_file *file, const struct btree_leaves *leaves, const struct btree_wanted *wanted,
    const struct answer *whole, size_t first) {
    int32_t *small[MOST_COLUMNS] = {0};
    struct btree_wanted narrow = {wanted->columns, wanted->count, wanted->alias, small};
    struct answer answer = {.rows = whole->rows};
    int fits = 1;
    for (size_t at = 0; at < wanted->count; at++) {
        if (at % 2 == first) {
            small[at] = malloc(whole->rows * sizeof(int32_t) + 1);
            for (uint64_t row = 0; row < whole->rows; row++) fits &= whole->columns[at][row] == (int32_t)whole->columns[at][row];
        } else {
            answer.columns[at] = malloc(whole->rows * sizeof(int64_t) + 1);
        }
    }
    answer.status = btree_decode(file, leaves->pages, leaves->rows, leaves->count, &narrow, answer.columns, answer.rows,
                                 answer.bad, answer.summaries, &answer.short_records);
    must(answer.status == (fits ? BTREE_OK : BTREE_NOT_SMALL), "what does not fit into 32 bits is refused, and nothing else");
    for (size_t at = 0; at < wanted->count && fits; at++) {
        check_summary(whole->columns[at], whole->rows, answer.summaries[at]);
        for (uint64_t row = 0; row < whole->rows; row++)
            must(whole->columns[at][row] == (small[at] ? small[at][row] : answer.columns[at][row]), "a column beside small ones");
    }
    for (size_t at = 0; at < wanted->count; at++) free(small[at]);
    forget(&answer);
}

static void decode_texts(const struct btree_file *file, const struct btree_leaves *leaves, int32_t column) {
    uint64_t rows = count_rows(leaves, 0, leaves->count), short_records = 0, size = 0;
    int64_t *lengths = malloc(rows * sizeof *lengths + 1);
    struct btree_texts texts;
    enum btree_status status =
        btree_decode_texts(file, leaves->pages, leaves->rows, leaves->count, column, lengths, rows, &texts, &short_records);
    if (status == BTREE_OK) {
        MUST_BE_WRITTEN(lengths, rows * sizeof *lengths);
        MUST_BE_WRITTEN(texts.bytes, texts.size);
        for (uint64_t row = 0; row < rows; row++) {
            must(lengths[row] >= -1, "a length is one");
            size += lengths[row] > 0 ? (uint64_t)lengths[row] : 0;
        }
        must(size == texts.size, "texts are as long as they say");
        must(size <= (uint64_t)file->pages * file->page_bytes, "texts are no longer than their file");
        texts_decoded++;
    } else {
        must(texts.bytes == NULL && texts.size == 0, "a refusal holds nothing");
    }
    free(texts.bytes);
    free(lengths);
}

static void decode_all(const struct btree_file *file, const struct btree_leaves *leaves, const struct look *look) {
    int32_t columns[MOST_COLUMNS];
    struct btree_wanted wanted = {columns, 0, (int32_t)(look->alias % (MOST_COLUMNS + 1)) - 1, NULL};
    unsigned chosen = (unsigned)look->columns_low | (unsigned)look->columns_high << 8;
    for (int32_t column = 0; column < MOST_COLUMNS; column++)
        if (chosen >> column & 1) columns[wanted.count++] = column;
    struct answer whole = decoded(file, leaves, 0, leaves->count, &wanted);
    if (whole.status == BTREE_OK) {
        trees_decoded++;
        compare_parts(file, leaves, &wanted, &whole);
        if (wanted.count > 1) compare_alone(file, leaves, &wanted, &whole);
        compare_small(file, leaves, &wanted, &whole, look->flags >> 1 & 1);
    }
    forget(&whole);
    decode_texts(file, leaves, look->text_column % MOST_COLUMNS);
}

/* What the keys above the leaves say of their rows is right where decoding goes well, and else is told. */
static void compare_ways(
    const struct btree_file *file, const struct btree_leaves *by_keys, const struct btree_leaves *counted) {
    int32_t first = 0;
    struct btree_wanted wanted = {&first, 1, -1, NULL};
    struct answer answer = decoded(file, by_keys, 0, by_keys->count, &wanted);
    if (answer.status == BTREE_OK) {
        must(by_keys->count == counted->count, "as many leaves");
        must(!memcmp(by_keys->rows, counted->rows, counted->count * sizeof *counted->rows), "rows by keys are those there are");
    }
    forget(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    struct look look;
    if (runs++ == 0) atexit(say_how_many);
    if (size < LOOK_BYTES) return 0;
    memcpy(&look, input, LOOK_BYTES);
    struct memory_file memory = {input + LOOK_BYTES, size - LOOK_BYTES};
    uint32_t page_bytes = 512u << (look.page_exponent & 7);
    uint32_t most_reserved = page_bytes == 512 ? 32 : 255;
    uint32_t reserved = look.reserved <= most_reserved ? look.reserved : look.reserved % (most_reserved + 1);
    uint32_t pages = (uint32_t)(memory.size / page_bytes);
    if (look.flags & LIES_ABOUT_PAGES) pages += look.flags >> 1; /* as where a file shrinks while it is read */
    struct btree_file file = {read_memory, &memory, page_bytes, page_bytes - reserved, pages};
    struct btree_leaves by_keys = {0}, counted = {0};
    enum btree_status found = btree_find_leaves(&file, look.root, BTREE_BY_KEYS, &by_keys);
    if (btree_find_leaves(&file, look.root, BTREE_COUNTED, &counted) == BTREE_OK) {
        trees_found++;
        must(found == BTREE_OK, "what is found leaf by leaf is found by keys");
        MUST_BE_WRITTEN(counted.rows, counted.count * sizeof *counted.rows);
        compare_ways(&file, &by_keys, &counted);
        decode_all(&file, &counted, &look);
    } else if (found == BTREE_OK) { /* a leaf that the keys vouched for is none */
        decode_all(&file, &by_keys, &look);
    }
    btree_free_leaves(&by_keys);
    btree_free_leaves(&counted);
    return 0;
}
