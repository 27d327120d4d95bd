/* Passes over columns of 64-bit integers that numpy has no single operation for: over sets of instants, sorted keys and
 * groups. Spans are half-open; a set of instants is in normal form: sorted, disjoint, not touching, none empty.
 * What each must equal is written down in numpy, in trace/sweep.py.
 */
#ifndef GPULEDGER_SWEEP_H
#define GPULEDGER_SWEEP_H

#include <stddef.h>
#include <stdint.h>

/* Asked by a pass every so many rows, if it is set: whether to end before it is done, with nothing that could be used. */
extern int (*sweep_is_over)(void);

struct sweep_spans {
    const int64_t *start, *end;
    size_t count;
};

/* The instants that some span covers, in room for as many spans as there are; -1 where spans are not sorted by start. */
int64_t sweep_union(struct sweep_spans in, int64_t *start, int64_t *end);

/* The same for the spans whose label is `wanted`. */
int64_t sweep_union_of(struct sweep_spans in, const int8_t *label, int8_t wanted, int64_t *start, int64_t *end);

/* The instants of either, of both, or of `a` alone; room for as many spans as both have together. */
size_t sweep_either(struct sweep_spans a, struct sweep_spans b, int64_t *start, int64_t *end);
size_t sweep_intersection(struct sweep_spans a, struct sweep_spans b, int64_t *start, int64_t *end);
size_t sweep_difference(struct sweep_spans a, struct sweep_spans b, int64_t *start, int64_t *end);

/* How much of each window the set covers; 0 where windows overlap or are not in order of time. */
int sweep_covered(struct sweep_spans set, struct sweep_spans windows, int64_t *out);

/* For each wanted value how many of the sorted keys lie below it; those equal to it count too if `right`. */
void sweep_search(const int64_t *keys, size_t count, const int64_t *wanted, size_t asked, int right, int64_t *out);

/* The part of each record that no earlier one covers; records come in order of their start. */
void sweep_shares(struct sweep_spans in, int64_t *start, int64_t *end);

/* For each record the latest one up to it, itself included, that ends no sooner than any of those. */
void sweep_last_to_end(const int64_t *end, size_t count, int64_t *out);

/* For each key the position that sweep_place wrote for it, -1 for none. */
void sweep_look_up(const int64_t *keys, size_t count, int64_t least, const int32_t *table, size_t places, int64_t *out);

/* What a device does at each instant of a window: the least of the states 0, 1 and 2 that something is in, or none.
 * Records come by their start. The spans of 1, of 2 and of none go to a room each, with one more place than there are
 * records, and their number to `found`; state 0 has the rest of the window. `hidden` is how long state 1 was beside 0,
 * and 2 beside 0 or 1. 0 if records are not sorted, or a state is none. */
struct sweep_room {
    int64_t *start, *end;
};
int sweep_states(
    struct sweep_spans in, const int8_t *state, int64_t from, int64_t to, const struct sweep_room rooms[3], size_t found[3],
    int64_t hidden[2]);

/* What the calls of one thread own: the outermost owns what it encloses; neighbours of one kind that touch are one. -1
 * if its calls do not come by their start, the longer first. */
int64_t sweep_calls(
    struct sweep_spans in, const int8_t *kind, const int32_t *thread, int32_t wanted, int64_t *start, int64_t *end,
    int8_t *kinds);

/* How much of each window falls under each label: a call's kind, or `labels - 1` between two calls less than `short_ns`
 * apart. Calls as sweep_calls gives them; windows are disjoint and in order, else 0; 0 too if a kind has no place. */
int sweep_split(
    struct sweep_spans calls, const int8_t *kind, int64_t short_ns, struct sweep_spans windows, int64_t *out, size_t labels);

/* For each record the first of the outer spans that encloses it, bounds included; -1 for none. Outer spans come by their
 * start, and `reach` is for each the latest end up to it. */
void sweep_enclosing(const int64_t *outer_start, const int64_t *reach, size_t outer, struct sweep_spans in, int64_t *out);

/* What the records that sweep_enclosing gives to each outer span amount to, and how many they are; one whose amount is
 * negative does not count. */
void sweep_held(
    const int64_t *outer_start, const int64_t *reach, size_t outer, struct sweep_spans in, const int64_t *amount,
    int64_t *sums, int64_t *counts);

/* Time by tile and group: each record's own part (see sweep_shares), within the tiles that sorted `edges` bound, is added
 * to out[tile * groups + group]. Records come in order of their start; a negative group counts for none, and owns
 * nothing. 0 if a group has no place. */
int sweep_tiles(
    struct sweep_spans in, const int16_t *group, const int64_t *edges, size_t edge_count, int64_t *out, size_t groups);

/* The record that directly encloses each one of its group, -1 for none; records come by group, start, then the longer
 * first. SWEEP_NOT_NESTED throughout a group in which some overlap without nesting, or are empty. `stack` has room for as
 * many as there are records. */
#define SWEEP_NOT_NESTED (-2)
void sweep_parents(struct sweep_spans in, const int64_t *group, int64_t *stack, int64_t *out);

/* Sums, least and greatest values of groups, on top of what `out` holds; 0 if a group has no place there. What is in
 * a negative group is in none. */
enum sweep_fold { SWEEP_SUM, SWEEP_LEAST, SWEEP_MOST };
int sweep_fold(enum sweep_fold how, const int64_t *group, const int64_t *values, size_t count, int64_t *out, size_t groups);

/* The different values, in no order, in room for `most` of them; -1 if there are more. They are hashed with `key`, which
 * whoever made the values must not know: else they could be chosen to fall on one place. */
int64_t sweep_distinct(const int64_t *values, size_t count, const uint64_t key[2], int64_t *out, size_t most);

/* One more than each key's position, in a table that begins with key `least` and holds 0 throughout; 0 if two keys are
 * the same, one has no place, or there are too many. */
int sweep_place(const int64_t *keys, size_t count, int64_t least, int32_t *table, size_t places);

/* Set flags[value - least] to 1 for each of the integers of 1, 2, 4 or 8 bytes; 0 if one has no place. */
int sweep_mark(const void *values, size_t bytes, size_t count, int64_t least, uint8_t *flags, size_t places);

/* The values, of 1, 2, 4 or 8 bytes, of the rows at these positions; 0 if there is no such row. */
int sweep_take(const void *values, size_t bytes, size_t rows, const int32_t *at, size_t count, void *out);

/* Records of several parts in one order: by start, then by `tie`, then as they come. `order` is the position of each
 * among those of all parts, one after another. A profiler writes down what begins as it begins, so records move a little
 * within runs, and few runs are merged. 0 if there is no memory. */
struct sweep_part {
    const int64_t *start, *end, *tie;
    size_t count;
};
int sweep_in_order(const struct sweep_part *parts, size_t count, int64_t *start, int64_t *end, int32_t *order);

/* Texts that lie one after another, `lengths` long, or missing where a length is negative: each one's number, -1 for a
 * missing one, and in `first` the rows in which the texts were first met, in the order of their numbers. How many there
 * are, or -1 if the texts are longer than `size` or there is no memory. `key` as in sweep_distinct. */
int64_t sweep_number_texts(
    const uint8_t *bytes, size_t size, const int64_t *lengths, size_t count, const uint64_t key[2], int64_t *numbers,
    int64_t *first);

#endif
