/* See sweep.h. */
#include "sweep.h"

#include <stdlib.h>
#include <string.h>

int (*sweep_is_over)(void);

#define ROWS_BETWEEN_LOOKS ((size_t)1 << 22) /* some hundredths of a second */

static inline int ends(size_t row) {
    return row % ROWS_BETWEEN_LOOKS == ROWS_BETWEEN_LOOKS - 1 && sweep_is_over && sweep_is_over();
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* `label` may be missing: then all spans count. */
static inline int64_t union_where(
    struct sweep_spans in, const int8_t *label, int8_t wanted, int64_t *start, int64_t *end) {
    int64_t count = 0, before = INT64_MIN;
    for (size_t at = 0; at < in.count && !ends(at); at++) {
        int64_t from = in.start[at], to = in.end[at];
        if (to <= from || (label && label[at] != wanted)) continue;
        if (from < before) return -1;
        before = from;
        if (count && from <= end[count - 1]) {
            end[count - 1] = larger(end[count - 1], to);
        } else {
            start[count] = from;
            end[count++] = to;
        }
    }
    return count;
}

int64_t sweep_union(struct sweep_spans in, int64_t *start, int64_t *end) { return union_where(in, NULL, 0, start, end); }

int64_t sweep_union_of(struct sweep_spans in, const int8_t *label, int8_t wanted, int64_t *start, int64_t *end) {
    return union_where(in, label, wanted, start, end);
}

size_t sweep_either(struct sweep_spans a, struct sweep_spans b, int64_t *start, int64_t *end) {
    size_t count = 0, i = 0, j = 0;
    while ((i < a.count || j < b.count) && !ends(i + j)) {
        int from_a = j == b.count || (i < a.count && a.start[i] <= b.start[j]);
        int64_t from = from_a ? a.start[i] : b.start[j], to = from_a ? a.end[i] : b.end[j];
        i += (size_t)from_a;
        j += (size_t)!from_a;
        if (count && from <= end[count - 1]) {
            end[count - 1] = larger(end[count - 1], to);
        } else {
            start[count] = from;
            end[count++] = to;
        }
    }
    return count;
}

size_t sweep_intersection(struct sweep_spans a, struct sweep_spans b, int64_t *start, int64_t *end) {
    size_t count = 0, i = 0, j = 0;
    while (i < a.count && j < b.count && !ends(i + j)) {
        int64_t from = larger(a.start[i], b.start[j]), to = smaller(a.end[i], b.end[j]);
        start[count] = from;
        end[count] = to;
        count += from < to;
        int a_ends = a.end[i] <= b.end[j], b_ends = b.end[j] <= a.end[i];
        i += (size_t)a_ends;
        j += (size_t)b_ends;
    }
    return count;
}

size_t sweep_difference(struct sweep_spans a, struct sweep_spans b, int64_t *start, int64_t *end) {
    size_t count = 0, j = 0;
    for (size_t i = 0; i < a.count && !ends(i); i++) {
        int64_t from = a.start[i], to = a.end[i];
        while (j < b.count && b.end[j] <= from) j++;
        for (; j < b.count && b.start[j] < to; j++) {
            if (b.start[j] > from) {
                start[count] = from;
                end[count++] = b.start[j];
            }
            from = larger(from, b.end[j]);
            if (from >= to) break; /* this one may reach into the next span of `a` */
        }
        if (from < to) {
            start[count] = from;
            end[count++] = to;
        }
    }
    return count;
}

/* How many of the sorted keys lie below `wanted`, or at it too: looked for near `near`, in steps that double. */
static inline size_t below(const int64_t *keys, size_t count, int64_t wanted, int right, size_t near) {
#define IS_BELOW(key) ((key) < wanted || (right && (key) == wanted))
    size_t low, high, step = 1;
    if (near < count && IS_BELOW(keys[near])) {
        low = near + 1;
        high = low;
        while (high < count && IS_BELOW(keys[high])) {
            low = high + 1;
            high = count - high > step ? high + step : count;
            step *= 2;
        }
    } else {
        high = near < count ? near : count;
        low = high;
        while (low > 0 && !IS_BELOW(keys[low - 1])) {
            high = low - 1;
            low = low > step ? low - step : 0;
            step *= 2;
        }
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (IS_BELOW(keys[middle]))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
#undef IS_BELOW
}

void sweep_search(const int64_t *keys, size_t count, const int64_t *wanted, size_t asked, int right, int64_t *out) {
    size_t near = 0;
    for (size_t at = 0; at < asked && !ends(at); at++) {
        near = below(keys, count, wanted[at], right, near);
        out[at] = (int64_t)near;
    }
}

int sweep_covered(struct sweep_spans set, struct sweep_spans windows, int64_t *out) {
    int64_t done = INT64_MIN;
    size_t near = 0;
    for (size_t at = 0; at < windows.count && !ends(at); at++) {
        int64_t from = windows.start[at], to = windows.end[at], amount = 0;
        if (from < to) {
            if (from < done) return 0;
            done = to;
            near = below(set.end, set.count, from, 1, near); /* the first span that ends after `from` */
            for (; near < set.count && set.start[near] < to; near++) {
                amount += smaller(set.end[near], to) - larger(set.start[near], from);
                if (set.end[near] > to) break;
            }
        }
        out[at] = amount;
    }
    return 1;
}

void sweep_shares(struct sweep_spans in, int64_t *start, int64_t *end) {
    int64_t reach = in.count ? in.start[0] : 0;
    for (size_t at = 0; at < in.count && !ends(at); at++) {
        int64_t own = larger(in.start[at], reach);
        start[at] = own;
        end[at] = larger(own, in.end[at]);
        reach = larger(reach, in.end[at]);
    }
}

void sweep_last_to_end(const int64_t *end, size_t count, int64_t *out) {
    size_t last = 0;
    for (size_t at = 0; at < count && !ends(at); at++) {
        if (end[at] >= end[last]) last = at;
        out[at] = (int64_t)last;
    }
}

void sweep_look_up(const int64_t *keys, size_t count, int64_t least, const int32_t *table, size_t places, int64_t *out) {
    for (size_t at = 0; at < count && !ends(at); at++) {
        uint64_t place = (uint64_t)keys[at] - (uint64_t)least;
        out[at] = (place < places ? (int64_t)table[place] : 0) - 1;
    }
}

static void append(struct sweep_room room, size_t *count, int64_t from, int64_t to) {
    if (*count && room.end[*count - 1] == from) {
        room.end[*count - 1] = to;
    } else {
        room.start[*count] = from;
        room.end[(*count)++] = to;
    }
}

int sweep_states(
    struct sweep_spans in, const int8_t *state, int64_t from, int64_t to, const struct sweep_room rooms[3], size_t found[3],
    int64_t hidden[2]) {
    int64_t now = from, reach[3] = {from, from, from}, before = INT64_MIN;
    for (size_t at = 0; at <= in.count && !ends(at); at++) {
        int64_t next = to;
        if (at < in.count) {
            if (in.start[at] < before || state[at] < 0 || state[at] > 2) return 0;
            before = in.start[at];
            if (in.end[at] <= from || in.start[at] >= to || in.end[at] <= in.start[at]) continue;
            next = larger(in.start[at], from);
        }
        /* from `now` to the next start nothing begins, so what each state reaches says what there is */
        hidden[0] += larger(smaller(next, smaller(reach[0], reach[1])) - now, 0);
        hidden[1] += larger(smaller(next, smaller(reach[2], larger(reach[0], reach[1]))) - now, 0);
        now = larger(now, smaller(next, reach[0]));
        for (int each = 1; each < 3; each++) {
            int64_t until = smaller(next, reach[each]);
            if (until > now) {
                append(rooms[each - 1], &found[each - 1], now, until);
                now = until;
            }
        }
        if (next > now) append(rooms[2], &found[2], now, next);
        now = next;
        if (at < in.count) reach[state[at]] = larger(reach[state[at]], smaller(in.end[at], to));
    }
    return 1;
}

int64_t sweep_calls(
    struct sweep_spans in, const int8_t *kind, const int32_t *thread, int32_t wanted, int64_t *start, int64_t *end,
    int8_t *kinds) {
    int64_t count = 0, reach = INT64_MIN, before = INT64_MIN, longest = INT64_MAX;
    for (size_t at = 0; at < in.count && !ends(at); at++) {
        if (thread[at] != wanted) continue;
        int64_t from = in.start[at], to = in.end[at];
        if (from < before || (from == before && to > longest)) return -1;
        before = from;
        longest = to;
        int64_t own = larger(from, reach);
        reach = larger(reach, to);
        if (to <= own) continue;
        if (count && end[count - 1] == own && kinds[count - 1] == kind[at]) {
            end[count - 1] = to;
        } else {
            start[count] = own;
            end[count] = to;
            kinds[count++] = kind[at];
        }
    }
    return count;
}

int sweep_split(
    struct sweep_spans calls, const int8_t *kind, int64_t short_ns, struct sweep_spans windows, int64_t *out, size_t labels) {
    size_t near = 0;
    int64_t done = INT64_MIN;
    for (size_t at = 0; at < windows.count && !ends(at); at++) {
        int64_t from = windows.start[at], to = windows.end[at], *row = out + at * labels;
        if (from >= to) continue;
        if (from < done) return 0;
        done = to;
        near = below(calls.end, calls.count, from, 1, near); /* the first call that ends after `from` */
        for (size_t each = near; each < calls.count; each++) {
            if (each && calls.start[each] > from) { /* what lies between it and the one before */
                int64_t gap = calls.start[each] - calls.end[each - 1];
                int64_t part = smaller(calls.start[each], to) - larger(calls.end[each - 1], from);
                if (gap < short_ns && part > 0) row[labels - 1] += part;
            }
            if (calls.start[each] >= to) break;
            if (kind[each] < 0 || (size_t)kind[each] >= labels - 1) return 0;
            row[kind[each]] += smaller(calls.end[each], to) - larger(calls.start[each], from);
            near = each;
        }
    }
    return 1;
}

void sweep_enclosing(const int64_t *outer_start, const int64_t *reach, size_t outer, struct sweep_spans in, int64_t *out) {
    size_t near = 0;
    for (size_t at = 0; at < in.count && !ends(at); at++) {
        /* of those that end late enough the first has begun no later than any other: it encloses, or none does */
        near = below(reach, outer, in.end[at], 0, near);
        out[at] = near < outer && outer_start[near] <= in.start[at] ? (int64_t)near : -1;
    }
}

void sweep_held(
    const int64_t *outer_start, const int64_t *reach, size_t outer, struct sweep_spans in, const int64_t *amount,
    int64_t *sums, int64_t *counts) {
    size_t near = 0;
    memset(sums, 0, outer * sizeof *sums);
    memset(counts, 0, outer * sizeof *counts);
    for (size_t at = 0; at < in.count && !ends(at); at++) {
        if (amount[at] < 0) continue;
        near = below(reach, outer, in.end[at], 0, near);
        if (near == outer || outer_start[near] > in.start[at]) continue;
        sums[near] += amount[at];
        counts[near]++;
    }
}

int sweep_tiles(
    struct sweep_spans in, const int16_t *group, const int64_t *edges, size_t edge_count, int64_t *out, size_t groups) {
    if (edge_count < 2) return 1;
    int64_t reach = edges[0], last = edges[edge_count - 1];
    size_t tile = 0;
    for (size_t at = 0; at < in.count && !ends(at); at++) {
        if (group[at] < 0) continue;
        if ((size_t)group[at] >= groups) return 0;
        int64_t from = larger(in.start[at], reach), to = smaller(in.end[at], last);
        reach = larger(reach, in.end[at]);
        while (from < to) {
            while (edges[tile + 1] <= from) tile++; /* `from` lies before the last edge, and never goes back */
            int64_t until = smaller(to, edges[tile + 1]);
            out[tile * groups + (size_t)group[at]] += until - from;
            from = until;
        }
    }
    return 1;
}

void sweep_parents(struct sweep_spans in, const int64_t *group, int64_t *stack, int64_t *out) {
    size_t first = 0, depth = 0;
    int is_nested = 1;
    for (size_t at = 0; at <= in.count && !ends(at); at++) {
        if (at == in.count || (at && group[at] != group[at - 1])) {
            for (size_t each = first; each < at && !is_nested; each++) out[each] = SWEEP_NOT_NESTED;
            first = at;
            depth = 0;
            is_nested = 1;
            if (at == in.count) return;
        }
        while (depth && in.end[stack[depth - 1]] <= in.start[at]) depth--;
        if (in.start[at] >= in.end[at] || (depth && in.end[stack[depth - 1]] < in.end[at])) is_nested = 0;
        out[at] = depth ? stack[depth - 1] : -1;
        stack[depth++] = (int64_t)at;
    }
}

/* SipHash-1-3: without its key nobody can choose texts that fall on one place. */
struct sip {
    uint64_t a, b, c, d;
};

static uint64_t turned(uint64_t value, int by) { return value << by | value >> (64 - by); }

static void sip_round(struct sip *state) {
    state->a += state->b, state->c += state->d;
    state->b = turned(state->b, 13) ^ state->a, state->d = turned(state->d, 16) ^ state->c;
    state->a = turned(state->a, 32);
    state->c += state->b, state->a += state->d;
    state->b = turned(state->b, 17) ^ state->c, state->d = turned(state->d, 21) ^ state->a;
    state->c = turned(state->c, 32);
}

static void sip_word(struct sip *state, uint64_t word) {
    state->d ^= word;
    sip_round(state);
    state->a ^= word;
}

static uint64_t keyed_hash(const uint8_t *bytes, size_t size, const uint64_t key[2]) {
    struct sip state = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                        key[1] ^ 0x7465646279746573u};
    uint64_t word, last = (uint64_t)size << 56;
    for (size_t left = size; left >= sizeof word; left -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        sip_word(&state, word);
    }
    for (size_t at = 0; at < size % sizeof word; at++) last |= (uint64_t)bytes[at] << 8 * at;
    sip_word(&state, last);
    state.c ^= 0xff;
    for (int round = 0; round < 3; round++) sip_round(&state);
    return state.a ^ state.b ^ state.c ^ state.d;
}

int64_t sweep_number_texts(
    const uint8_t *bytes, size_t size, const int64_t *lengths, size_t count, const uint64_t key[2], int64_t *numbers,
    int64_t *first) {
    struct text {
        uint64_t hash;
        size_t at;
        int64_t length, number;
    } *texts = NULL;
    size_t places = 1024, at = 0;
    int64_t found = 0;
    texts = calloc(places, sizeof *texts);
    for (size_t row = 0; row < count && texts && !ends(row); row++) {
        numbers[row] = -1;
        if (lengths[row] < 0) continue;
        if ((uint64_t)lengths[row] > size - at) {
            free(texts);
            return -1;
        }
        if (2 * (size_t)found >= places) { /* each finds its place again in a table twice as large */
            struct text *larger_table = calloc(2 * places, sizeof *texts);
            for (size_t old = 0; old < places && larger_table; old++) {
                size_t place = texts[old].hash & (2 * places - 1);
                if (texts[old].number == 0) continue;
                while (larger_table[place].number) place = (place + 1) & (2 * places - 1);
                larger_table[place] = texts[old];
            }
            free(texts);
            texts = larger_table;
            places *= 2;
            if (!texts) break;
        }
        uint64_t hash = keyed_hash(bytes + at, (size_t)lengths[row], key);
        size_t place = hash & (places - 1);
        while (texts[place].number &&
               (texts[place].hash != hash || texts[place].length != lengths[row] ||
                memcmp(bytes + texts[place].at, bytes + at, (size_t)lengths[row]) != 0))
            place = (place + 1) & (places - 1);
        if (!texts[place].number) {
            first[found++] = (int64_t)row;
            texts[place] = (struct text){hash, at, lengths[row], found};
        }
        numbers[row] = texts[place].number - 1;
        at += (size_t)lengths[row];
    }
    if (!texts) return -1;
    free(texts);
    return found;
}

int sweep_fold(
    enum sweep_fold how, const int64_t *group, const int64_t *values, size_t count, int64_t *out, size_t groups) {
    for (size_t at = 0; at < count && !ends(at); at++) {
        if (group[at] < 0) continue;
        if ((uint64_t)group[at] >= groups) return 0;
        int64_t *into = out + group[at], value = values[at];
        switch (how) {
        case SWEEP_SUM: *into = (int64_t)((uint64_t)*into + (uint64_t)value); break; /* wraps, as numpy's does */
        case SWEEP_LEAST: *into = smaller(*into, value); break;
        case SWEEP_MOST: *into = larger(*into, value); break;
        }
    }
    return 1;
}

#define DISTINCT_PLACES 4096 /* a power of two */

static size_t distinct_place(int64_t value, const uint64_t key[2]) {
    uint64_t spread = ((uint64_t)value ^ key[0]) * 0x9e3779b97f4a7c15u;
    return (size_t)(((spread ^ spread >> 32) * (key[1] | 1)) >> 52);
}

int64_t sweep_distinct(const int64_t *values, size_t count, const uint64_t key[2], int64_t *out, size_t most) {
    uint16_t place_of[DISTINCT_PLACES] = {0}; /* one more than the place in `out` of a value that hashes to here */
    size_t found = 0;
    if (most > DISTINCT_PLACES / 2) most = DISTINCT_PLACES / 2;
    for (size_t at = 0; at < count && !ends(at); at++) {
        int64_t value = values[at];
        if (at && value == values[at - 1]) continue;
        size_t place = distinct_place(value, key);
        while (place_of[place] && out[place_of[place] - 1] != value) place = (place + 1) % DISTINCT_PLACES;
        if (place_of[place]) continue;
        if (found == most) return -1;
        out[found++] = value;
        place_of[place] = (uint16_t)found;
    }
    return (int64_t)found;
}

int sweep_place(const int64_t *keys, size_t count, int64_t least, int32_t *table, size_t places) {
    if (count >= INT32_MAX) return 0;
    for (size_t at = 0; at < count && !ends(at); at++) {
        uint64_t place = (uint64_t)keys[at] - (uint64_t)least;
        if (place >= places || table[place]) return 0;
        table[place] = (int32_t)at + 1;
    }
    return 1;
}

int sweep_mark(const void *values, size_t bytes, size_t count, int64_t least, uint8_t *flags, size_t places) {
#define MARK(type)                                                                      \
    for (size_t at = 0; at < count && !ends(at); at++) {                                \
        uint64_t place = (uint64_t)((const type *)values)[at] - (uint64_t)least;        \
        if (place >= places) return 0;                                                  \
        flags[place] = 1;                                                               \
    }                                                                                   \
    return 1
    if (bytes == sizeof(int8_t)) { MARK(int8_t); }
    if (bytes == sizeof(int16_t)) { MARK(int16_t); }
    if (bytes == sizeof(int32_t)) { MARK(int32_t); }
    if (bytes == sizeof(int64_t)) { MARK(int64_t); }
    return 0;
#undef MARK
}

int sweep_take(const void *values, size_t bytes, size_t rows, const int32_t *at, size_t count, void *out) {
#define TAKE(type)                                                                      \
    for (size_t each = 0; each < count && !ends(each); each++) {                        \
        if ((uint32_t)at[each] >= rows) return 0;                                       \
        ((type *)out)[each] = ((const type *)values)[at[each]];                         \
    }                                                                                   \
    return 1
    if (bytes == sizeof(int8_t)) { TAKE(int8_t); }
    if (bytes == sizeof(int16_t)) { TAKE(int16_t); }
    if (bytes == sizeof(int32_t)) { TAKE(int32_t); }
    if (bytes == sizeof(int64_t)) { TAKE(int64_t); }
    return 0;
#undef TAKE
}

struct records {
    int64_t *start, *end;
    int32_t *order;
    size_t count;
};

/* Whether record `a` comes after record `b`; what decides is looked up only where they start at once. */
static int comes_after(const struct sweep_part *parts, int64_t a_start, int32_t a_row, int64_t b_start, int32_t b_row) {
    if (a_start != b_start) return a_start > b_start;
    size_t a = (size_t)a_row, b = (size_t)b_row, a_part = 0, b_part = 0;
    while (a >= parts[a_part].count) a -= parts[a_part++].count;
    while (b >= parts[b_part].count) b -= parts[b_part++].count;
    int64_t a_tie = parts[a_part].tie[a], b_tie = parts[b_part].tie[b];
    return a_tie == b_tie ? a_row > b_row : a_tie > b_tie;
}

static void put(struct records into, size_t to, int64_t start, int64_t end, int32_t row) {
    into.start[to] = start;
    into.end[to] = end;
    into.order[to] = row;
}

#define FARTHEST 64 /* a record that would move farther back begins a run of its own */

/* Sort records into runs; where they begin goes to `first`, which has room for one in FARTHEST records and two more. */
static size_t into_runs(const struct sweep_part *parts, struct records records, size_t *first) {
    size_t runs = 1;
    first[0] = 0;
    for (size_t at = 1; at < records.count && !ends(at); at++) {
        int64_t start = records.start[at], end = records.end[at];
        int32_t row = records.order[at];
        if (records.start[at - 1] < start) continue; /* nearly all of them */
        size_t to = at, run = first[runs - 1], until = at - run > FARTHEST ? at - FARTHEST : run;
        while (to > until && comes_after(parts, records.start[to - 1], records.order[to - 1], start, row)) to--;
        if (to == until && until > run) {
            first[runs++] = at;
            continue;
        }
        for (size_t each = at; each > to; each--)
            put(records, each, records.start[each - 1], records.end[each - 1], records.order[each - 1]);
        put(records, to, start, end, row);
    }
    first[runs] = records.count;
    return runs;
}

/* Merge two runs that follow each other, from behind: the second is copied to `aside` to make room. */
static void merge(const struct sweep_part *parts, struct records in, size_t first, size_t second, size_t end, struct records aside) {
    size_t left = second, right = end - second;
    memcpy(aside.start, in.start + second, right * sizeof *in.start);
    memcpy(aside.end, in.end + second, right * sizeof *in.end);
    memcpy(aside.order, in.order + second, right * sizeof *in.order);
    while (right) {
        size_t to = left + right - 1;
        int is_left = left > first && comes_after(parts, in.start[left - 1], in.order[left - 1], aside.start[right - 1],
                                                  aside.order[right - 1]);
        struct records from = is_left ? in : aside;
        size_t at = is_left ? --left : --right;
        put(in, to, from.start[at], from.end[at], from.order[at]);
    }
}

/* Neighbours in pairs, from behind: what comes last is shortest, as parts go. */
static size_t merge_pairs(const struct sweep_part *parts, struct records in, size_t *first, size_t runs, struct records aside) {
    for (size_t run = runs; run >= 2; run -= 2) {
        merge(parts, in, first[run - 2], first[run - 1], first[run], aside);
        first[run - 1] = SIZE_MAX;
    }
    size_t left = 0;
    for (size_t run = 0; run <= runs; run++)
        if (first[run] != SIZE_MAX) first[left++] = first[run];
    return left - 1;
}

int sweep_in_order(const struct sweep_part *parts, size_t count, int64_t *start, int64_t *end, int32_t *order) {
    struct records records = {start, end, order, 0}, aside = {0};
    for (size_t part = 0; part < count; part++)
        for (size_t at = 0; at < parts[part].count; at++, records.count++)
            put(records, records.count, parts[part].start[at], parts[part].end[at], (int32_t)records.count);
    size_t *first = malloc((records.count / FARTHEST + 2) * sizeof *first), runs = 1, longest = 0;
    if (first) {
        runs = into_runs(parts, records, first);
        longest = runs > 1 ? records.count - first[1] : 0; /* all but the first run may come to lie in one */
        aside = (struct records){malloc(longest * sizeof *start), malloc(longest * sizeof *end), malloc(longest * sizeof *order), 0};
    }
    int is_there = first && (!longest || (aside.start && aside.end && aside.order));
    while (is_there && runs > 1 && !ends(ROWS_BETWEEN_LOOKS - 1)) runs = merge_pairs(parts, records, first, runs, aside);
    free(aside.start);
    free(aside.end);
    free(aside.order);
    free(first);
    return is_there;
}
