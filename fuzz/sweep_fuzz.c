/* A harness for libFuzzer: any bytes as columns, through every pass of sweep.c.
 *
 * In: one byte for how large values are, then columns of 64-bit integers that are cut from the rest. Every buffer is
 * exactly as long as sweep.h asks for, so that the address sanitizer sees one step beyond. Checked beside that: sets of
 * instants are in normal form, positions lie in their tables, two threads that share their input get the same.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/gpuledger/trace/native/sweep.h"

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

struct input {
    const int64_t *start, *end, *group; /* spans by their start, and any numbers */
    const int8_t *label;
    const uint8_t *bytes;
    size_t count, size;
    int64_t sum; /* of what was found: the same for the same input */
};

static int64_t *room(size_t count) {
    int64_t *made = malloc(count * sizeof *made + 1);
    must(made != NULL, "there is memory");
    return made;
}

static void check_set(const int64_t *start, const int64_t *end, size_t count) {
    for (size_t at = 0; at < count; at++)
        must(start[at] < end[at] && (!at || end[at - 1] < start[at]), "a set of instants is in normal form");
}

static void sets(struct input *in) {
    struct sweep_spans spans = {in->start, in->end, in->count}, some = spans;
    some.count = in->count / 2;
    int64_t *a[2] = {room(in->count), room(in->count)}, *b[2] = {room(in->count), room(in->count)};
    int64_t *out[2] = {room(2 * in->count + 1), room(2 * in->count + 1)};
    int64_t whole = sweep_union(spans, a[0], a[1]), half = sweep_union_of(some, in->label, 1, b[0], b[1]);
    must(whole >= 0 && half >= 0, "sorted spans have a union");
    check_set(a[0], a[1], (size_t)whole);
    check_set(b[0], b[1], (size_t)half);
    struct sweep_spans of_all = {a[0], a[1], (size_t)whole}, of_half = {b[0], b[1], (size_t)half};
    size_t (*passes[])(struct sweep_spans, struct sweep_spans, int64_t *, int64_t *) = {
        sweep_either, sweep_intersection, sweep_difference};
    for (int pass = 0; pass < 3; pass++) {
        size_t found = passes[pass](of_all, of_half, out[0], out[1]);
        check_set(out[0], out[1], found);
        in->sum += (int64_t)found;
    }
    must(sweep_covered(of_all, of_half, out[0]) == 1, "a set's spans are disjoint and in order");
    sweep_shares(spans, out[0], out[1]);
    sweep_last_to_end(in->end, in->count, out[0]);
    for (size_t at = 0; at < in->count; at++) must(out[0][at] >= 0 && out[0][at] <= (int64_t)at, "a record up to it");
    sweep_enclosing(a[0], a[1], (size_t)whole, spans, out[0]);
    for (size_t at = 0; at < in->count; at++) must(out[0][at] >= -1 && out[0][at] < whole, "a span or none");
    sweep_held(a[0], a[1], (size_t)whole, spans, in->group, b[0], b[1]);
    for (int64_t at = 0; at < whole; at++) must(b[1][at] >= 0 && b[1][at] <= (int64_t)in->count, "a count of records");
    sweep_search(in->start, in->count, in->group, in->count, 1, out[0]);
    for (size_t at = 0; at < in->count; at++) must(out[0][at] >= 0 && out[0][at] <= (int64_t)in->count, "a place");
    for (int at = 0; at < 2; at++) free(a[at]), free(b[at]), free(out[at]);
}

static void groups(struct input *in) {
    static const uint64_t key[2] = {0x0123456789abcdefu, 0xfedcba9876543210u};
    struct sweep_spans spans = {in->start, in->end, in->count};
    int64_t *numbers = room(in->count), *first = room(in->count), totals[8] = {0};
    for (int how = SWEEP_SUM; how <= SWEEP_MOST; how++)
        (void)sweep_fold((enum sweep_fold)how, in->group, in->start, in->count, totals, 8);
    int64_t found = sweep_distinct(in->group, in->count, key, first, in->count);
    must(found <= (int64_t)in->count, "no more values than rows");
    found = sweep_number_texts(in->bytes, in->size, in->group, in->count, key, numbers, first);
    for (size_t at = 0; at < in->count && found >= 0; at++)
        must(numbers[at] < found && numbers[at] >= -1 && (numbers[at] < 0) == (in->group[at] < 0), "a text's number");
    in->sum += found;
    sweep_parents(spans, in->group, first, numbers);
    for (size_t at = 0; at < in->count; at++) must(numbers[at] < (int64_t)at, "a parent comes first");
    int32_t *table = calloc(64, sizeof *table), *order = malloc(in->count * sizeof *order + 1);
    uint8_t flags[64] = {0};
    (void)sweep_place(in->group, in->count, 0, table, 64);
    sweep_look_up(in->group, in->count, 0, table, 64, numbers);
    for (size_t at = 0; at < in->count; at++) must(numbers[at] >= -1 && numbers[at] < (int64_t)in->count, "a row");
    (void)sweep_mark(in->group, sizeof *in->group, in->count, 0, flags, 64);
    struct sweep_part parts[2] = {{in->group, in->end, in->start, in->count / 2},
                                  {in->start, in->end, in->group, in->count - in->count / 2}};
    must(sweep_in_order(parts, 2, first, numbers, order), "there is memory");
    for (size_t at = 1; at < in->count; at++) must(first[at - 1] <= first[at], "records are by their start");
    (void)sweep_take(in->start, sizeof *in->start, in->count, order, in->count, first);
    free(table), free(order), free(numbers), free(first);
}

static void books(struct input *in) {
    struct sweep_spans spans = {in->start, in->end, in->count};
    int64_t *places[6], hidden[2] = {0}, out[4 * 3] = {0};
    size_t found[3] = {0};
    for (int at = 0; at < 6; at++) places[at] = room(in->count + 1);
    struct sweep_room rooms[3] = {{places[0], places[1]}, {places[2], places[3]}, {places[4], places[5]}};
    if (sweep_states(spans, in->label, -50, 1000, rooms, found, hidden))
        for (int at = 0; at < 3; at++) check_set(rooms[at].start, rooms[at].end, found[at]);
    int32_t *thread = calloc(in->count + 1, sizeof *thread);
    int8_t *kinds = malloc(in->count + 1);
    int16_t *group = calloc(in->count + 1, sizeof *group);
    int64_t calls = sweep_calls(spans, in->label, thread, 0, places[0], places[1], kinds);
    int64_t from[4] = {-50, 0, 10, 60}, to[4] = {0, 10, 60, 1000}, edges[4] = {-50, 0, 60, 1000};
    if (calls >= 0) {
        struct sweep_spans own = {places[0], places[1], (size_t)calls}, windows = {from, to, 4};
        (void)sweep_split(own, kinds, 5, windows, out, 3);
    }
    memset(out, 0, sizeof out);
    must(sweep_tiles(spans, group, edges, 4, out, 1), "group 0 has a place");
    for (int at = 0; at < 3; at++) must(out[at] >= 0 && out[at] <= edges[at + 1] - edges[at], "a tile holds its time");
    in->sum += out[0] + out[1] + out[2] + hidden[0];
    free(thread), free(kinds), free(group);
    for (int at = 0; at < 6; at++) free(places[at]);
}

static void *all(void *input) {
    sets(input);
    groups(input);
    books(input);
    return NULL;
}

static int by_start(const void *a, const void *b) {
    const int64_t *left = a, *right = b;
    return left[0] != right[0] ? (left[0] > right[0]) - (left[0] < right[0]) : (left[1] < right[1]) - (left[1] > right[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    size_t count = size > 1 ? (size - 1) / 4 : 0;
    if (count == 0 || count > 4096) return 0;
    int64_t scale = bytes[0] % 4 == 0 ? (int64_t)1 << 40 : 1 + bytes[0] % 4; /* far apart, or often the same */
    int64_t *pairs = room(2 * count), *start = room(count), *end = room(count), *group = room(count);
    int8_t *label = malloc(count);
    for (size_t at = 0; at < count; at++) {
        const uint8_t *row = bytes + 1 + 4 * at;
        pairs[2 * at] = ((int64_t)row[0] - 40) * scale;
        pairs[2 * at + 1] = pairs[2 * at] + ((int64_t)row[1] % 64 - 2) * scale;
        group[at] = (int64_t)row[2] % 64 - 2;
        label[at] = (int8_t)(row[3] % 3);
    }
    qsort(pairs, count, 2 * sizeof *pairs, by_start);
    for (size_t at = 0; at < count; at++) start[at] = pairs[2 * at], end[at] = pairs[2 * at + 1];
    struct input mine = {start, end, group, label, bytes, count, size, 0}, other = mine;
    pthread_t thread;
    must(pthread_create(&thread, NULL, all, &other) == 0, "a thread begins");
    all(&mine);
    pthread_join(thread, NULL);
    must(mine.sum == other.sum, "two threads get the same");
    free(pairs), free(start), free(end), free(group), free(label);
    return 0;
}
