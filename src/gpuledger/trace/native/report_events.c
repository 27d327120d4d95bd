#include "report_events.h"

#include <stdlib.h>
#include <string.h>

#define NOTHING INT64_MIN
#define MOST_RATIO 256 /* a byte of an LZ4 block stands for 255 at most */
#define DEEPEST 8

/* A length of 15 goes on in the bytes that follow. */
static int longer(const uint8_t **at, const uint8_t *end, size_t *length) {
    uint8_t more;
    do {
        if (*at >= end) return 0;
        more = *(*at)++;
        *length += more;
    } while (more == 255);
    return 1;
}

int64_t report_unpack(const uint8_t *packed, size_t size, uint8_t *into, size_t plain_size) {
    const uint8_t *at = packed, *end = packed + size;
    uint8_t *to = into, *full = into + plain_size;
    while (at < end) {
        uint8_t token = *at++;
        size_t length = token >> 4;
        if (length == 15 && !longer(&at, end, &length)) return -1;
        if (length > (size_t)(end - at) || length > (size_t)(full - to)) return -1;
        if (length <= 16 && end - at >= 16)
            memcpy(to, at, 16); /* may end in the slack behind */
        else
            memcpy(to, at, length);
        at += length;
        to += length;
        if (at == end) break; /* the last has no match */
        if (end - at < 2) return -1;
        size_t back = (size_t)at[0] | (size_t)at[1] << 8;
        at += 2;
        length = token & 15;
        if (length == 15 && !longer(&at, end, &length)) return -1;
        length += 4;
        if (!back || back > (size_t)(to - into) || length > (size_t)(full - to)) return -1;
        const uint8_t *from = to - back;
        if (back >= 16) { /* in steps that may end in the slack behind */
            for (size_t done = 0; done < length; done += 16) memcpy(to + done, from + done, 16);
            to += length;
        } else {
            for (size_t done = 0; done < length; done++) to[done] = from[done];
            to += length;
        }
    }
    return to == full ? (int64_t)plain_size : -1;
}

struct bytes {
    const uint8_t *at, *end;
};

/* Seven bits of each byte, the lowest first, as long as a byte's highest bit is set. */
static int slow_varint(struct bytes *in, uint64_t *value) {
    uint64_t read = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (in->at >= in->end) return 0;
        uint8_t byte = *in->at++;
        if (shift < 64) read |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = read;
            return 1;
        }
    }
    return 0;
}

static inline int varint(struct bytes *in, uint64_t *value) {
    if (in->at < in->end && *in->at < 128) { /* most are short */
        *value = *in->at++;
        return 1;
    }
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (in->end - in->at >= 2 && in->at[1] < 128) {
        *value = (uint64_t)(in->at[0] & 127) | (uint64_t)in->at[1] << 7;
        in->at += 2;
        return 1;
    }
    if (in->end - in->at >= 8) { /* times and ids of processes: eight bytes at once */
        uint64_t word, ends;
        memcpy(&word, in->at, 8);
        ends = ~word & 0x8080808080808080;
        if (ends) {
            unsigned last = (unsigned)__builtin_ctzll(ends); /* the highest bit of the last byte */
            word &= UINT64_MAX >> (63 - last);
            word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
            word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
            *value = (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
            in->at += last / 8 + 1;
            return 1;
        }
    }
#endif
    return slow_varint(in, value);
}

/* One field: its number, and its value or its bytes. */
struct field {
    uint64_t number, value;
    struct bytes inside;
    int is_bytes;
};

static inline int next_field(struct bytes *in, struct field *found) {
    uint64_t key, length;
    if (!varint(in, &key)) return 0;
    found->number = key >> 3;
    found->is_bytes = 0;
    switch (key & 7) {
    case 0: return varint(in, &found->value);
    case 1:
    case 5:
        length = (key & 7) == 1 ? 8 : 4;
        if (length > (uint64_t)(in->end - in->at)) return 0;
        found->value = 0;
        for (uint64_t byte = 0; byte < length; byte++) found->value |= (uint64_t)in->at[byte] << (8 * byte);
        in->at += length;
        return 1;
    case 2:
        if (!varint(in, &length) || length > (uint64_t)(in->end - in->at)) return 0;
        found->is_bytes = 1;
        found->inside = (struct bytes){in->at, in->at + length};
        in->at += length;
        return 1;
    default: return 0;
    }
}

int report_next_text(const uint8_t **at, const uint8_t *end, uint64_t number, const uint8_t **text, size_t *size) {
    struct bytes in = {*at, end};
    struct field field;
    while (in.at < in.end && next_field(&in, &field)) {
        *at = in.at;
        if (field.number != number || !field.is_bytes) continue;
        *text = field.inside.at;
        *size = (size_t)(field.inside.end - field.inside.at);
        return 1;
    }
    return 0;
}

struct pass {
    const struct report_plan *plan;
    struct report_rows *out;
    uint64_t most_rows;
    enum report_status status;
    uint64_t touched;             /* tables that the event under way has rows in, a bit each */
    size_t counts[64], sizes[64]; /* of those: rows, and bytes of texts, before it */
};

static void *with_room(void *old, size_t item, size_t needed, size_t *room) {
    if (needed <= *room) return old;
    size_t more = *room + *room / 2 + 256;
    if (more < needed) more = needed;
    void *grown = realloc(old, more * item);
    if (grown) *room = more;
    return grown;
}

static int64_t *new_row(struct pass *pass, int32_t number, int64_t parent) {
    struct report_table *table = &pass->out->tables[number];
    size_t width = pass->plan->widths[number];
    if (table->count >= pass->most_rows) {
        pass->status = REPORT_TOO_MANY_ROWS;
        return NULL;
    }
    int64_t *rows = with_room(table->rows, width * sizeof *rows, table->count + 1, &table->room);
    if (!rows) {
        pass->status = REPORT_NO_MEMORY;
        return NULL;
    }
    table->rows = rows;
    if (!(pass->touched >> number & 1)) {
        pass->touched |= (uint64_t)1 << number;
        pass->counts[number] = table->count;
        pass->sizes[number] = table->text_size;
    }
    int64_t *row = rows + table->count++ * width;
    row[0] = parent;
    for (size_t column = 1; column < width; column++) row[column] = NOTHING;
    return row;
}

static int keep_text(struct pass *pass, struct report_table *table, struct bytes text) {
    size_t size = (size_t)(text.end - text.at);
    uint8_t *texts = with_room(table->texts, 1, table->text_size + size, &table->text_room);
    if (!texts && size) {
        pass->status = REPORT_NO_MEMORY;
        return 0;
    }
    table->texts = texts;
    if (size) memcpy(texts + table->text_size, text.at, size);
    table->text_size += size;
    return 1;
}

/* The fields of a message into row `row` of table `table`. 0 where it is damaged, or `status` is no longer OK. */
static int message(struct pass *pass, const struct report_node *node, struct bytes in, int32_t table, size_t row, int deep) {
    struct field field;
    struct report_table *into = &pass->out->tables[table];
    int64_t *values = into->rows + row * pass->plan->widths[table];
    while (in.at < in.end) {
        uint8_t key = *in.at;
        if (key < 128 && (key & 7) == 0) { /* a number in one of the first fifteen fields, as most are */
            in.at++;
            if (!varint(&in, &field.value)) return 0;
            struct report_field short_of = node->fields[key >> 3];
            if (short_of.kind == REPORT_NUMBER) values[short_of.to] = (int64_t)field.value;
            continue;
        }
        if (!next_field(&in, &field)) return 0;
        if (field.number >= REPORT_FIELDS) continue;
        struct report_field what = node->fields[field.number];
        if (what.kind == REPORT_NUMBER) {
            if (!field.is_bytes) values[what.to] = (int64_t)field.value;
        } else if (what.kind == REPORT_TEXT) {
            if (!field.is_bytes) continue;
            if (values[what.to] != NOTHING) return 0; /* twice: its bytes would be those of two rows */
            values[what.to] = (int64_t)(field.inside.end - field.inside.at);
            if (!keep_text(pass, into, field.inside)) return 0;
        } else if (what.kind == REPORT_MESSAGE && field.is_bytes && deep < DEEPEST) {
            const struct report_node *inner = &pass->plan->nodes[what.to];
            if (inner->table < 0) {
                if (!message(pass, inner, field.inside, table, row, deep + 1)) return 0;
            } else {
                if (!new_row(pass, inner->table, (int64_t)row)) return 0;
                size_t last = pass->out->tables[inner->table].count - 1;
                if (!message(pass, inner, field.inside, inner->table, last, deep + 1)) return 0;
            }
            values = into->rows + row * pass->plan->widths[table]; /* rows may have moved */
        }
    }
    return 1;
}

/* One event as a row, and rows of what it holds several of; none at all where it is damaged. */
static void event(struct pass *pass, int32_t number, struct bytes in) {
    const struct report_node *node = &pass->plan->nodes[number];
    pass->touched = 0;
    if (!new_row(pass, node->table, 0)) return;
    if (message(pass, node, in, node->table, pass->out->tables[node->table].count - 1, 0)) return;
    for (size_t table = 0; table < pass->plan->table_count; table++) {
        if (!(pass->touched >> table & 1)) continue;
        pass->out->tables[table].count = pass->counts[table];
        pass->out->tables[table].text_size = pass->sizes[table];
    }
    pass->out->damaged++;
}

/* Mostly the first of an event's fields. */
static int class_of(struct bytes in, uint64_t *number) {
    struct field field;
    while (in.at < in.end) {
        if (!next_field(&in, &field)) return 0;
        if (field.number == 1 && !field.is_bytes) {
            *number = field.value;
            return 1;
        }
    }
    return 0;
}

/* The events of one block; 0 where they do not fill it. */
static int events(struct pass *pass, struct bytes in) {
    struct field field;
    uint64_t length, number;
    if (!varint(&in, &length) || length != (uint64_t)(in.end - in.at)) return 0;
    while (in.at < in.end && pass->status == REPORT_OK) {
        if (!next_field(&in, &field)) return 0;
        if (!field.is_bytes) continue;
        if (field.number == 2) {
            pass->out->generic_seen++;
            if (pass->plan->generic >= 0) event(pass, pass->plan->generic, field.inside);
        } else if (field.number == 1) {
            if (!class_of(field.inside, &number)) {
                pass->out->damaged++;
                continue;
            }
            if (number >= REPORT_CLASSES) number = REPORT_CLASSES - 1;
            pass->out->seen[number]++;
            if (pass->plan->of_class[number] >= 0) event(pass, pass->plan->of_class[number], field.inside);
        }
    }
    return 1;
}

enum report_status report_decode(
    const struct report_plan *plan, const struct report_block *blocks, size_t count, uint64_t most_rows,
    int (*is_over)(void), struct report_rows *out) {
    struct pass pass = {.plan = plan, .out = out, .most_rows = most_rows, .status = REPORT_OK};
    uint8_t *plain = NULL;
    size_t room = 0;
    for (size_t at = 0; at < count && pass.status == REPORT_OK; at++) {
        const struct report_block *block = &blocks[at];
        if (is_over && is_over()) {
            pass.status = REPORT_OVER;
            break;
        }
        if (block->plain_size / MOST_RATIO > block->size) {
            out->damaged_blocks++;
            continue;
        }
        uint8_t *grown = with_room(plain, 1, block->plain_size + REPORT_SLACK, &room);
        if (!grown) {
            pass.status = REPORT_NO_MEMORY;
            break;
        }
        plain = grown;
        if (report_unpack(block->packed, block->size, plain, block->plain_size) < 0 ||
            !events(&pass, (struct bytes){plain, plain + block->plain_size}))
            out->damaged_blocks++;
    }
    free(plain);
    return pass.status;
}

void report_free(struct report_rows *rows) {
    for (size_t table = 0; table < 64; table++) {
        free(rows->tables[table].rows);
        free(rows->tables[table].texts);
    }
}
