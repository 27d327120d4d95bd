/* See btree.h. The format is described at sqlite.org/fileformat2.html; numbers below are its own. */
#include "btree.h"

#include <stdlib.h>
#include <string.h>

#define INTERIOR_TABLE 0x05
#define LEAF_TABLE 0x0d
#define LEAF_HEADER 8
#define INTERIOR_HEADER 12
#define FILE_HEADER 100
#define DEEPEST 20
#define LEAST_CELL 6 /* two bytes of pointer and four of cell: SQLite's own bound on cells in a page */
#define NO_KEY UINT64_MAX /* of the last page of a level: only the leaf itself knows */
#ifndef BLOCK_BYTES /* the fuzzer takes a smaller one, to meet its end */
#define BLOCK_BYTES (256u * 1024u)
#endif
#define LONGEST_PREFIX (64u << 20) /* how far into a record that spills a wanted column may lie */

/* Written so that compilers see one load and one turn of its bytes. */
static uint32_t big16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }
static uint32_t big32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}
static uint64_t big64(const uint8_t *at) {
    return (uint64_t)at[0] << 56 | (uint64_t)at[1] << 48 | (uint64_t)at[2] << 40 | (uint64_t)at[3] << 32 |
           (uint64_t)at[4] << 24 | (uint64_t)at[5] << 16 | (uint64_t)at[6] << 8 | at[7];
}

/* A varint in [*at, end); 0 if it does not end there. At most nine bytes, the ninth whole. */
static int varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    const uint8_t *byte = *at;
    if (byte < end && *byte < 0x80) { /* nearly all of them */
        *value = *byte;
        *at = byte + 1;
        return 1;
    }
    uint64_t found = 0;
    for (int count = 0; count < 8; count++) {
        if (byte >= end) return 0;
        found = found << 7 | (*byte & 0x7f);
        if (*byte++ < 0x80) {
            *value = found;
            *at = byte;
            return 1;
        }
    }
    if (byte >= end) return 0;
    *value = found << 8 | *byte++;
    *at = byte;
    return 1;
}

/* Where a page's own header begins: the first page starts with that of the file. */
static uint32_t page_start(uint32_t page) { return page == 1 ? FILE_HEADER : 0; }

static enum btree_status read_page(const struct btree_file *in, uint32_t page, uint32_t count, uint8_t *into) {
    if (page == 0 || page > in->pages || count > in->pages - page + 1) return BTREE_DAMAGED;
    uint64_t offset = (uint64_t)(page - 1) * in->page_bytes;
    return in->read(in->file, offset, into, (size_t)count * in->page_bytes) ? BTREE_SHORT_READ : BTREE_OK;
}

/* ---- leaves ---- */

struct child { /* a page below an interior one, and the greatest row id that it may hold */
    uint32_t page;
    uint64_t key;
};

struct children {
    struct child *values;
    size_t count, room;
};

static enum btree_status append(struct children *list, uint32_t page, uint64_t key) {
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 256;
        struct child *grown = realloc(list->values, room * sizeof *grown);
        if (grown == NULL) return BTREE_NO_MEMORY;
        list->values = grown;
        list->room = room;
    }
    list->values[list->count++] = (struct child){page, key};
    return BTREE_OK;
}

/* The children of an interior page, left to right; the last one's rows go as far as the page's own. */
static enum btree_status append_children(
    const struct btree_file *in, const uint8_t *bytes, struct child of, struct children *children) {
    uint32_t start = page_start(of.page);
    uint32_t cells = big16(bytes + start + 3), first_cell = start + INTERIOR_HEADER + 2 * cells;
    if (first_cell > in->usable_bytes) return BTREE_DAMAGED;
    for (uint32_t cell = 0; cell < cells; cell++) {
        uint32_t at = big16(bytes + start + INTERIOR_HEADER + 2 * cell);
        uint64_t key;
        if (at < first_cell || at + 4 > in->usable_bytes) return BTREE_DAMAGED;
        const uint8_t *after = bytes + at + 4;
        if (!varint(&after, bytes + in->usable_bytes, &key)) return BTREE_DAMAGED;
        enum btree_status status = append(children, big32(bytes + at), key);
        if (status) return status;
    }
    if (children->count >= in->pages) return BTREE_TOO_LARGE; /* a page that is met twice */
    return append(children, big32(bytes + start + 8), of.key);
}

/* Level after level: all pages of a b-tree's level are of one kind, so only the first must be looked at to know it. */
static enum btree_status collect_leaves(
    const struct btree_file *in, uint32_t root, uint8_t *bytes, struct children *level, struct children *below) {
    enum btree_status status = append(level, root, NO_KEY);
    for (int depth = 0; status == BTREE_OK; depth++) {
        status = read_page(in, level->values[0].page, 1, bytes);
        if (status) return status;
        uint8_t kind = bytes[page_start(level->values[0].page)];
        if (kind == LEAF_TABLE) return BTREE_OK;
        if (kind != INTERIOR_TABLE || depth == DEEPEST) return BTREE_DAMAGED;
        below->count = 0;
        for (size_t at = 0; at < level->count && status == BTREE_OK; at++) {
            struct child each = level->values[at];
            if (at) status = read_page(in, each.page, 1, bytes);
            if (status) return status;
            if (bytes[page_start(each.page)] != INTERIOR_TABLE) return BTREE_DAMAGED;
            status = append_children(in, bytes, each, below);
        }
        struct children swapped = *level;
        *level = *below;
        *below = swapped;
    }
    return status;
}

static enum btree_status counted(const struct btree_file *in, uint32_t page, uint32_t most, uint32_t *rows) {
    uint8_t header[LEAF_HEADER];
    if (page == 0 || page > in->pages) return BTREE_DAMAGED;
    uint64_t offset = (uint64_t)(page - 1) * in->page_bytes + page_start(page);
    if (in->read(in->file, offset, header, sizeof header)) return BTREE_SHORT_READ;
    *rows = big16(header + 3);
    return header[0] != LEAF_TABLE || *rows > most ? BTREE_DAMAGED : BTREE_OK;
}

/* Where row ids have no holes, as in a table that was only ever added to, the keys above the leaves say how many rows
 * each holds, and no leaf need be read. What cannot be true is counted. */
static enum btree_status find_rows(
    const struct btree_file *in, const struct children *leaves, enum btree_rows how, uint32_t *pages, uint32_t *rows) {
    uint32_t most = (in->page_bytes - LEAF_HEADER) / LEAST_CELL;
    uint64_t before = 0;
    enum btree_status status = BTREE_OK;
    for (size_t at = 0; at < leaves->count && status == BTREE_OK; at++) {
        struct child leaf = leaves->values[at];
        uint64_t between = leaf.key - before;
        before = leaf.key;
        pages[at] = leaf.page;
        rows[at] = (uint32_t)between;
        if (how == BTREE_COUNTED || leaf.key == NO_KEY || between == 0 || between > most)
            status = counted(in, leaf.page, most, &rows[at]);
    }
    return status;
}

enum btree_status btree_find_leaves(
    const struct btree_file *in, uint32_t root, enum btree_rows how, struct btree_leaves *out) {
    struct children level = {0}, below = {0};
    struct btree_leaves found = {0};
    uint8_t *bytes = malloc(in->page_bytes);
    enum btree_status status = bytes ? collect_leaves(in, root, bytes, &level, &below) : BTREE_NO_MEMORY;
    free(bytes);
    free(below.values);
    if (status == BTREE_OK) {
        found.count = level.count;
        found.pages = malloc(level.count * sizeof *found.pages);
        found.rows = malloc(level.count * sizeof *found.rows);
        status = found.pages && found.rows ? find_rows(in, &level, how, found.pages, found.rows) : BTREE_NO_MEMORY;
    }
    free(level.values);
    if (status)
        btree_free_leaves(&found);
    else
        *out = found;
    return status;
}

void btree_free_leaves(struct btree_leaves *leaves) {
    free(leaves->pages);
    free(leaves->rows);
    *leaves = (struct btree_leaves){0};
}

/* ---- records ---- */

struct scratch { /* the beginning of a record that spills, put together */
    uint8_t *bytes;
    size_t room;
    uint8_t *page;
};

/* How many bytes of a payload of `size` lie in the cell itself. */
static uint32_t local_bytes(uint32_t usable, uint64_t size) {
    uint32_t most = usable - 35;
    if (size <= most) return (uint32_t)size;
    uint32_t least = (usable - 12) * 32 / 255 - 23;
    uint32_t local = least + (uint32_t)((size - least) % (usable - 4));
    return local <= most ? local : least;
}

/* Put the first `wanted` bytes of a payload together: what lies in the cell, then what lies in overflow pages. */
static enum btree_status gather(
    const struct btree_file *in, const uint8_t *local, uint32_t local_size, uint32_t next, uint64_t wanted,
    struct scratch *scratch) {
    if (wanted > LONGEST_PREFIX) return BTREE_TOO_LARGE;
    if (scratch->room < wanted) {
        uint8_t *grown = realloc(scratch->bytes, wanted);
        if (grown == NULL) return BTREE_NO_MEMORY;
        scratch->bytes = grown;
        scratch->room = wanted;
    }
    if (scratch->page == NULL && (scratch->page = malloc(in->page_bytes)) == NULL) return BTREE_NO_MEMORY;
    uint64_t have = local_size < wanted ? local_size : wanted;
    memcpy(scratch->bytes, local, have);
    while (have < wanted) { /* each turn adds some bytes, so a circle of pages ends too */
        enum btree_status status = read_page(in, next, 1, scratch->page);
        if (status) return status;
        uint64_t part = in->usable_bytes - 4;
        if (part > wanted - have) part = wanted - have;
        memcpy(scratch->bytes + have, scratch->page + 4, part);
        have += part;
        next = big32(scratch->page);
    }
    return BTREE_OK;
}

/* How many bytes a value of this serial type takes; two types are reserved. */
static int body_bytes(uint64_t type, uint64_t *size) {
    static const uint8_t small[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
    if (type < 10) {
        *size = small[type];
        return 1;
    }
    *size = (type - 12) / 2;
    return type >= 12;
}

static int64_t integer(const uint8_t *at, uint64_t type) {
    switch (type) {
    case 1: return (int8_t)at[0];
    case 2: return (int16_t)big16(at);
    case 3: return (int32_t)(big16(at) << 16 | (uint32_t)at[2] << 8) >> 8;
    case 4: return (int32_t)big32(at);
    case 5: return ((int64_t)(int16_t)big16(at)) * ((int64_t)1 << 32) + big32(at + 2);
    case 6: return (int64_t)big64(at);
    default: return (int64_t)type - 8; /* 8 is the number 0, 9 the number 1 */
    }
}

struct record {
    const uint8_t *local; /* what lies in the cell */
    uint32_t local_size;
    uint64_t size; /* of the whole payload */
    uint32_t overflow;
    int64_t rowid;
};

struct header { /* the serial types of a record, and where the first value lies */
    const uint8_t *at, *end;
    uint64_t body;
};

static int open_header(const struct record *record, const uint8_t *payload, uint64_t have, struct header *out) {
    const uint8_t *at = payload;
    uint64_t size;
    if (!varint(&at, payload + have, &size) || size < (uint64_t)(at - payload) || size > record->size) return 0;
    *out = (struct header){at, size <= have ? payload + size : NULL, size};
    return 1;
}

/* The next value's type and size; 0 if there is something that cannot be. */
static int next_value(const struct record *record, struct header *header, uint64_t *type, uint64_t *size) {
    return varint(&header->at, header->end, type) && body_bytes(*type, size) && *size <= record->size - header->body;
}

#define REAL 7

static int is_integer(uint64_t type) { return type != 0 && type != REAL && type < 12; }

/* Whether a floating-point number is none. SQLite stores no such thing, and takes one that it finds for NULL. */
static int is_nan(const uint8_t *at) { return (big64(at) & INT64_MAX) > 0x7ff0000000000000u; }

/* One call: what it reads, what it does with each record, and where that goes. */
struct task {
    const struct btree_file *in;
    enum btree_status (*take)(struct task *task, const struct record *record, uint64_t cell);
    uint64_t leaf_row; /* the first row of the leaf under way */
    struct scratch scratch;
    uint64_t payload_left; /* records do not lie over each other, so all of them are no longer than the file */
    uint64_t short_records;
    /* integers */
    const struct btree_wanted *wanted;
    int64_t *const *out;
    int64_t *aside;  /* the leaf's values of small columns, as wide as all others, one column after the other */
    int64_t **place; /* where the leaf's values of each column go: into `out`, or aside */
    uint64_t *bad;
    struct btree_summary *summaries; /* one for each column, or NULL */
    struct plan *plans;              /* PLANS of them, or none */
    /* texts */
    int32_t column;
    int64_t *lengths;
    struct btree_texts *texts;
    size_t room;
};

/* The first `need` bytes of a record, put together if they do not lie in its cell. */
static enum btree_status beginning(
    struct task *task, const struct record *record, uint64_t need, const uint8_t **payload) {
    if (need <= record->local_size) {
        *payload = record->local;
        return BTREE_OK;
    }
    if (need > record->size) return BTREE_DAMAGED;
    *payload = NULL;
    enum btree_status status =
        gather(task->in, record->local, record->local_size, record->overflow, need, &task->scratch);
    if (status == BTREE_OK) *payload = task->scratch.bytes;
    return status;
}

/* The record's header, whole; `*payload` is where it lies. */
static enum btree_status whole_header(
    struct task *task, const struct record *record, const uint8_t **payload, struct header *out) {
    *payload = record->local;
    if (!open_header(record, record->local, record->local_size, out)) return BTREE_DAMAGED;
    if (out->end != NULL) return BTREE_OK;
    enum btree_status status = beginning(task, record, out->body, payload);
    if (status) return status;
    return open_header(record, *payload, out->body, out) && out->end ? BTREE_OK : BTREE_DAMAGED;
}

/* How much of a record's beginning holds all wanted numbers. */
static enum btree_status prefix_bytes(
    const struct record *record, struct header header, const struct btree_wanted *wanted, uint64_t *need) {
    *need = header.body;
    int32_t column = 0;
    for (size_t which = 0; which < wanted->count && header.at < header.end; column++) {
        uint64_t type, size;
        if (!next_value(record, &header, &type, &size)) return BTREE_DAMAGED;
        header.body += size;
        if (column == wanted->columns[which]) {
            if (is_integer(type) || type == REAL) *need = header.body;
            which++;
        }
    }
    return BTREE_OK;
}

/* ---- plans: rows of a table look alike, so that what was found out about one record's header mostly holds for the
 * next: where the wanted integers lie, and how long they are. ---- */

#define PLANS_BITS 10    /* records of one table may look different in hundreds of ways */
#define PLANS (1u << PLANS_BITS)
#define PLAN_HEADER 64  /* bytes of the longest header that is remembered */
#define PLAN_COLUMNS 32 /* so many wanted columns at most */
#define A_NULL (-1)
#define SLACK 8         /* readable bytes in front of a block, as integers are read eight bytes at a time, up to their end */

struct plan {
    uint8_t header[PLAN_HEADER];
    uint32_t size; /* of the header; 0: no plan */
    uint32_t need; /* where the last wanted integer ends */
    struct {
        uint32_t end; /* where the integer ends, from the record's beginning; 0: it is `value` in every record */
        uint16_t shift;
        int16_t value; /* 0, 1, or A_NULL */
    } columns[PLAN_COLUMNS];
};

static uint64_t native64(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* The place of a header among the plans. Words are mixed each by itself, as that goes side by side; the last one may
 * overlap the one before. */
static struct plan *plan_for(struct plan *plans, const uint8_t *header, uint32_t size) {
    uint64_t mixed = size;
    if (size < 8) {
        for (uint32_t at = 0; at < size; at++) mixed = mixed << 8 | header[at];
    } else {
        for (uint32_t at = 0; at + 8 < size; at += 8) mixed += (native64(header + at) ^ at) * 0xd6e8feb86659fd93u;
        mixed ^= native64(header + size - 8);
    }
    return &plans[mixed * 0x9e3779b97f4a7c15u >> (64 - PLANS_BITS)];
}

static int same_header(const uint8_t *a, const uint8_t *b, uint32_t size) {
    if (size < 8) return memcmp(a, b, size) == 0;
    for (uint32_t at = 0; at + 8 < size; at += 8)
        if (native64(a + at) != native64(b + at)) return 0;
    return native64(a + size - 8) == native64(b + size - 8);
}

/* The plan of a record that lies in its cell as a whole; NULL where there can be none: such a record is taken value by
 * value, as are those with something odd about them. */
static const struct plan *planned(struct task *task, const struct record *record) {
    const struct btree_wanted *wanted = task->wanted;
    const uint8_t *payload = record->local;
    if (!task->plans || record->local_size < record->size || record->size == 0) return NULL;
    uint32_t size = payload[0];
    if (size == 0 || size > PLAN_HEADER || size > record->size) return NULL;
    struct plan *plan = plan_for(task->plans, payload, size);
    if (plan->size == size && same_header(plan->header, payload, size)) return plan->need <= record->size ? plan : NULL;
    struct header header = {payload + 1, payload + size, size};
    plan->size = 0;
    plan->need = size;
    size_t which = 0;
    for (int32_t column = 0; which < wanted->count; column++) {
        uint64_t type, bytes;
        if (header.at >= header.end || !next_value(record, &header, &type, &bytes)) return NULL;
        header.body += bytes;
        if (column != wanted->columns[which]) continue;
        if (column == wanted->alias || (type != 0 && !is_integer(type))) return NULL;
        plan->columns[which].end = bytes ? (uint32_t)header.body : 0;
        plan->columns[which].shift = bytes ? (uint16_t)(64 - 8 * bytes) : 0;
        plan->columns[which].value = type == 0 ? A_NULL : (int16_t)(type == 9);
        plan->need = (uint32_t)header.body;
        which++;
    }
    memcpy(plan->header, payload, size);
    plan->size = size;
    return plan;
}

static int64_t shifted(const uint8_t *end, uint32_t shift) {
    return (int64_t)(big64(end - 8) << shift) >> shift;
}

static enum btree_status take_integers(struct task *task, const struct record *record, uint64_t cell) {
    const struct btree_wanted *wanted = task->wanted;
    const struct plan *plan = planned(task, record);
    if (plan) {
        for (size_t which = 0; which < wanted->count; which++) {
            uint32_t end = plan->columns[which].end;
            int64_t same = plan->columns[which].value == A_NULL ? INT64_MIN : plan->columns[which].value;
            task->place[which][cell] = end ? shifted(record->local + end, plan->columns[which].shift) : same;
        }
        return BTREE_OK;
    }
    const uint8_t *payload;
    struct header header;
    enum btree_status status = whole_header(task, record, &payload, &header);
    uint64_t have = record->local_size;
    if (status == BTREE_OK && record->local_size < record->size) {
        status = prefix_bytes(record, header, wanted, &have);
        if (status == BTREE_OK) status = beginning(task, record, have, &payload);
        if (status == BTREE_OK && !open_header(record, payload, have, &header)) status = BTREE_DAMAGED;
    }
    if (status) return status;
    int32_t column = 0;
    for (size_t which = 0; which < wanted->count; column++) {
        uint64_t type, size;
        if (header.at >= header.end) { /* written before the column was added to the table */
            for (; which < wanted->count; which++)
                task->place[which][cell] = wanted->columns[which] == wanted->alias ? record->rowid : INT64_MIN;
            task->short_records++;
            return BTREE_OK;
        }
        if (!next_value(record, &header, &type, &size)) return BTREE_DAMAGED;
        if (column == wanted->columns[which]) {
            if (column == wanted->alias) { /* whatever is stored in its place, as for SQLite */
                task->place[which][cell] = record->rowid;
            } else if (is_integer(type)) {
                if (header.body + size > have) return BTREE_DAMAGED;
                task->place[which][cell] = integer(payload + header.body, type);
            } else {
                if (type == REAL && header.body + size > have) return BTREE_DAMAGED;
                task->place[which][cell] = INT64_MIN;
                task->bad[which] += type != 0 && !(type == REAL && is_nan(payload + header.body));
            }
            which++;
        }
        header.body += size;
    }
    return BTREE_OK;
}

static enum btree_status append_text(struct task *task, const uint8_t *bytes, size_t size) {
    struct btree_texts *texts = task->texts;
    if (size > task->room - texts->size) {
        size_t room = 2 * (texts->size + size) + 4096;
        uint8_t *grown = realloc(texts->bytes, room);
        if (grown == NULL) return BTREE_NO_MEMORY;
        texts->bytes = grown;
        task->room = room;
    }
    if (size) memcpy(texts->bytes + texts->size, bytes, size);
    texts->size += size;
    return BTREE_OK;
}

static enum btree_status take_text(struct task *task, const struct record *record, uint64_t cell) {
    const uint8_t *payload;
    struct header header;
    uint64_t type = 0, size = 0;
    enum btree_status status = whole_header(task, record, &payload, &header);
    if (status) return status;
    for (int32_t column = 0; column <= task->column; column++) {
        if (header.at >= header.end) {
            task->short_records++;
            task->lengths[task->leaf_row + cell] = -1;
            return BTREE_OK;
        }
        header.body += size;
        if (!next_value(record, &header, &type, &size)) return BTREE_DAMAGED;
    }
    if (type != 0 && type < 12) return BTREE_NO_TEXT;
    task->lengths[task->leaf_row + cell] = type == 0 ? -1 : (int64_t)size;
    if (size == 0) return BTREE_OK;
    status = beginning(task, record, header.body + size, &payload);
    return status ? status : append_text(task, payload + header.body, (size_t)size);
}

/* ---- leaves, in blocks ---- */

/* How many pages to read at once from leaf `at` on: neighbours in the file are read together, also what lies between
 * them, as the leaves of a table mostly follow each other. */
static uint32_t block_pages(const struct btree_file *in, const uint32_t *pages, size_t at, size_t leaves) {
    uint32_t most = BLOCK_BYTES / in->page_bytes, first = pages[at], last = first;
    for (at++; at < leaves && pages[at] > last && pages[at] - first < most; at++) last = pages[at];
    return last - first + 1;
}

static enum btree_status take_cell(struct task *task, const uint8_t *page, uint32_t at, uint64_t cell) {
    uint32_t usable = task->in->usable_bytes;
    const uint8_t *byte = page + at, *end = page + usable;
    struct record record;
    uint64_t rowid;
    if (!varint(&byte, end, &record.size) || !varint(&byte, end, &rowid)) return BTREE_DAMAGED;
    if (record.size > task->payload_left) return BTREE_TOO_LARGE;
    task->payload_left -= record.size;
    record.rowid = (int64_t)rowid;
    record.local = byte;
    record.local_size = local_bytes(usable, record.size);
    int spills = record.local_size < record.size;
    if ((uint64_t)(end - byte) < (uint64_t)record.local_size + (spills ? 4 : 0)) return BTREE_DAMAGED;
    record.overflow = spills ? big32(byte + record.local_size) : 0;
    return task->take(task, &record, cell);
}

static void summarise(const int64_t *values, uint64_t rows, struct btree_summary *into) {
    int64_t least = into->least, most = into->most;
    uint64_t nulls = 0;
    for (uint64_t row = 0; row < rows; row++) {
        int64_t value = values[row], real = value == INT64_MIN ? INT64_MAX : value;
        nulls += value == INT64_MIN;
        least = real < least ? real : least;
        most = value > most ? value : most;
    }
    *into = (struct btree_summary){least, most, into->nulls + nulls};
}

static int is_small(const struct task *task, size_t which) {
    return task->wanted->small && task->wanted->small[which];
}

/* Where the values of a leaf go; one of any size has fewer rows than half its bytes. */
static void place_columns(struct task *task, uint64_t row) {
    int64_t *aside = task->aside;
    task->leaf_row = row;
    for (size_t which = 0; task->wanted && which < task->wanted->count; which++) {
        task->place[which] = is_small(task, which) ? aside : task->out[which] + row;
        if (is_small(task, which)) aside += task->in->page_bytes / 2;
    }
}

/* The leaf's values that were put aside, into their small columns. */
static enum btree_status narrow(struct task *task, uint32_t rows) {
    for (size_t which = 0; task->wanted && which < task->wanted->count; which++) {
        if (!is_small(task, which)) continue;
        int32_t *into = task->wanted->small[which] + task->leaf_row;
        uint64_t beyond = 0;
        for (uint32_t row = 0; row < rows; row++) {
            int64_t value = task->place[which][row];
            into[row] = (int32_t)value;
            beyond |= (uint64_t)(value ^ (int32_t)value);
        }
        if (beyond) return BTREE_NOT_SMALL;
        if (task->summaries) summarise(task->place[which], rows, &task->summaries[which]);
    }
    return BTREE_OK;
}

static enum btree_status take_leaf(
    struct task *task, const uint8_t *page, uint32_t number, uint32_t rows, uint64_t row) {
    uint32_t start = page_start(number), usable = task->in->usable_bytes;
    if (page[start] != LEAF_TABLE) return BTREE_DAMAGED;
    if (big16(page + start + 3) != rows) return BTREE_OTHER_ROWS; /* holes among row ids, or it changed while we read */
    uint32_t first_cell = start + LEAF_HEADER + 2 * rows;
    if (first_cell > usable) return BTREE_DAMAGED;
    place_columns(task, row);
    for (uint32_t cell = 0; cell < rows; cell++) {
        uint32_t at = big16(page + start + LEAF_HEADER + 2 * cell);
        if (at < first_cell || at >= usable) return BTREE_DAMAGED;
        enum btree_status status = take_cell(task, page, at, cell);
        if (status) return status;
    }
    return narrow(task, rows);
}

/* Rows `from` to `to`, while they are near: a block's columns fit into a core's own memory, those of a table do not. */
static void summarise_rows(struct task *task, uint64_t from, uint64_t to) {
    for (size_t which = 0; task->summaries && which < task->wanted->count; which++)
        if (!is_small(task, which)) summarise(task->out[which] + from, to - from, &task->summaries[which]);
}

/* Leaf after leaf; rows beyond `rows` have no place. */
static enum btree_status take_leaves(
    struct task *task, const uint32_t *leaf_pages, const uint32_t *leaf_rows, size_t leaves, uint64_t rows) {
    uint8_t *room = malloc(SLACK + BLOCK_BYTES), *block = room + SLACK;
    enum btree_status status = room ? BTREE_OK : BTREE_NO_MEMORY;
    if (room) memset(room, 0, SLACK);
    task->payload_left = (uint64_t)task->in->pages * task->in->usable_bytes;
    uint32_t first = 0, count = 0; /* the pages that lie in the block */
    uint64_t row = 0, summarised = 0;
    for (size_t at = 0; at < leaves && status == BTREE_OK; at++) {
        uint32_t page = leaf_pages[at];
        if (leaf_rows[at] > rows - row) status = BTREE_DAMAGED;
        if (status == BTREE_OK && (page < first || page - first >= count)) {
            summarise_rows(task, summarised, row);
            summarised = row;
            first = page;
            count = block_pages(task->in, leaf_pages, at, leaves);
            status = read_page(task->in, first, count, block);
        }
        if (status == BTREE_OK) {
            const uint8_t *bytes = block + (size_t)(page - first) * task->in->page_bytes;
            status = take_leaf(task, bytes, page, leaf_rows[at], row);
        }
        row += leaf_rows[at];
    }
    if (status == BTREE_OK) summarise_rows(task, summarised, row);
    free(task->scratch.page);
    free(task->scratch.bytes);
    free(room);
    return status;
}

enum btree_status btree_decode(
    const struct btree_file *in, const uint32_t *leaf_pages, const uint32_t *leaf_rows, size_t leaves,
    const struct btree_wanted *wanted, int64_t *const *out, uint64_t rows, uint64_t *bad,
    struct btree_summary *summaries, uint64_t *short_records) {
    struct task task = {
        .in = in, .take = take_integers, .wanted = wanted, .out = out, .bad = bad, .summaries = summaries};
    for (size_t which = 0; summaries && which < wanted->count; which++)
        summaries[which] = (struct btree_summary){INT64_MAX, INT64_MIN, 0};
    size_t small = 0;
    for (size_t which = 0; which < wanted->count; which++) small += (size_t)is_small(&task, which);
    if (wanted->count <= PLAN_COLUMNS) task.plans = calloc(PLANS, sizeof *task.plans); /* it also goes without */
    task.place = calloc(wanted->count + 1, sizeof *task.place);
    task.aside = malloc((small * (in->page_bytes / 2) + 1) * sizeof *task.aside);
    enum btree_status status = BTREE_NO_MEMORY;
    if (task.place && task.aside) status = take_leaves(&task, leaf_pages, leaf_rows, leaves, rows);
    free(task.aside);
    free(task.place);
    free(task.plans);
    *short_records += task.short_records;
    return status;
}

enum btree_status btree_decode_texts(
    const struct btree_file *in, const uint32_t *leaf_pages, const uint32_t *leaf_rows, size_t leaves, int32_t column,
    int64_t *lengths, uint64_t rows, struct btree_texts *out, uint64_t *short_records) {
    struct task task = {.in = in, .take = take_text, .column = column, .lengths = lengths, .texts = out};
    *out = (struct btree_texts){0};
    enum btree_status status = take_leaves(&task, leaf_pages, leaf_rows, leaves, rows);
    *short_records += task.short_records;
    if (status) {
        free(out->bytes);
        *out = (struct btree_texts){0};
    }
    return status;
}
