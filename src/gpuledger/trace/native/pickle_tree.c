#include "pickle_tree.h"

#include <stdlib.h>
#include <string.h>

#define RELOCATED 0x80 /* of a kind: its children have room up to the next power of two */
#define ASK_EVERY (1u << 22)

struct numbers {
    uint32_t *items;
    size_t count, room;
};

struct reading {
    const uint8_t *bytes;
    size_t size, at;
    struct pickle_tree *out;
    size_t node_room, child_room, most_nodes;
    struct numbers stack, marks, memo;
    enum pickle_status status;
};

static int fails(struct reading *in, enum pickle_status status) {
    if (in->status == PICKLE_OK) in->status = status;
    return 0;
}

/* Room for `wanted` items of `size` bytes, twice as much as there was where it must grow. */
static int grown(void **items, size_t *room, size_t wanted, size_t size) {
    if (wanted <= *room) return 1;
    size_t larger = *room ? *room : 256;
    while (larger < wanted) larger *= 2;
    void *moved = realloc(*items, larger * size);
    if (!moved) return 0;
    *items = moved;
    *room = larger;
    return 1;
}

static int pushed(struct reading *in, struct numbers *numbers, uint32_t item) {
    if (!grown((void **)&numbers->items, &numbers->room, numbers->count + 1, sizeof(uint32_t)))
        return fails(in, PICKLE_NO_MEMORY);
    numbers->items[numbers->count++] = item;
    return 1;
}

/* Whether so many bytes are left. */
static int has(struct reading *in, uint64_t wanted) {
    return wanted <= in->size - in->at ? 1 : fails(in, PICKLE_CUT_OFF);
}

/* An unsigned number of `width` bytes, little end first. The bytes must be there. */
static uint64_t number(struct reading *in, int width) {
    uint64_t value = 0;
    for (int place = 0; place < width; place++) value |= (uint64_t)in->bytes[in->at + (size_t)place] << (8 * place);
    in->at += (size_t)width;
    return value;
}

static int new_node(struct reading *in, enum pickle_kind kind, int64_t value, uint32_t count) {
    struct pickle_tree *out = in->out;
    if (out->nodes >= in->most_nodes) return fails(in, PICKLE_TOO_MANY);
    if (out->nodes == in->node_room) {
        size_t rooms[3] = {in->node_room, in->node_room, in->node_room};
        if (!grown((void **)&out->kind, &rooms[0], out->nodes + 1, sizeof *out->kind) ||
            !grown((void **)&out->value, &rooms[1], out->nodes + 1, sizeof *out->value) ||
            !grown((void **)&out->count, &rooms[2], out->nodes + 1, sizeof *out->count))
            return fails(in, PICKLE_NO_MEMORY);
        in->node_room = rooms[0];
    }
    out->kind[out->nodes] = (uint8_t)kind;
    out->value[out->nodes] = value;
    out->count[out->nodes] = count;
    return pushed(in, &in->stack, (uint32_t)out->nodes++);
}

/* Put items behind the children of a container. */
static int extended(struct reading *in, uint32_t node, const uint32_t *items, size_t added) {
    struct pickle_tree *out = in->out;
    size_t count = out->count[node], first = (size_t)out->value[node], wanted = count + added;
    if (!added) return 1;
    if (wanted > UINT32_MAX) return fails(in, PICKLE_TOO_MANY);
    size_t room = 1;
    while (room < count) room *= 2;
    int fits = (out->kind[node] & RELOCATED) && wanted <= room;
    if (!fits) {
        size_t taken = added;
        if (count) {
            for (room = 1; room < wanted;) room *= 2;
            taken = room;
        }
        if (!grown((void **)&out->children, &in->child_room, out->used + taken, sizeof *out->children))
            return fails(in, PICKLE_NO_MEMORY);
        if (count) {
            memcpy(out->children + out->used, out->children + first, count * sizeof *items);
            memset(out->children + out->used + wanted, 0, (taken - wanted) * sizeof *items);
            out->kind[node] |= RELOCATED;
        }
        first = out->used;
        out->value[node] = (int64_t)first;
        out->used += taken;
    }
    memcpy(out->children + first + count, items, added * sizeof *items);
    out->count[node] = (uint32_t)wanted;
    return 1;
}

/* How many values stand above the last mark, which goes. */
static int above_mark(struct reading *in, size_t *count) {
    if (!in->marks.count) return fails(in, PICKLE_DAMAGED);
    *count = in->stack.count - in->marks.items[--in->marks.count];
    return 1;
}

/* Whether so many values can be taken from the stack, none from below the last mark. */
static int holds(struct reading *in, size_t wanted) {
    size_t below = in->marks.count ? in->marks.items[in->marks.count - 1] : 0;
    return in->stack.count - below >= wanted ? 1 : fails(in, PICKLE_DAMAGED);
}

/* A container of the last `count` values, in their place. */
static int closed(struct reading *in, enum pickle_kind kind, size_t count) {
    if (kind == PICKLE_DICT && count % 2) return fails(in, PICKLE_DAMAGED);
    in->stack.count -= count;
    size_t place = in->stack.count;
    struct pickle_tree *out = in->out;
    if (!grown((void **)&out->children, &in->child_room, out->used + count, sizeof *out->children))
        return fails(in, PICKLE_NO_MEMORY);
    if (count > UINT32_MAX) return fails(in, PICKLE_TOO_MANY);
    if (count) memcpy(out->children + out->used, in->stack.items + place, count * sizeof *out->children);
    if (!new_node(in, kind, (int64_t)out->used, (uint32_t)count)) return 0;
    out->used += count;
    return 1;
}

/* Put the last `count` values into the container below them. */
static int into_container(struct reading *in, enum pickle_kind kind, size_t count) {
    if (!holds(in, count + 1)) return 0;
    uint32_t node = in->stack.items[in->stack.count - count - 1];
    if ((in->out->kind[node] & ~RELOCATED) != kind || (kind == PICKLE_DICT && count % 2)) return fails(in, PICKLE_DAMAGED);
    in->stack.count -= count;
    return extended(in, node, in->stack.items + in->stack.count, count);
}

static int marked_into(struct reading *in, enum pickle_kind kind) {
    size_t count;
    return above_mark(in, &count) && into_container(in, kind, count);
}

static int marked_container(struct reading *in, enum pickle_kind kind) {
    size_t count;
    return above_mark(in, &count) && closed(in, kind, count);
}

static int few_container(struct reading *in, size_t count) { return holds(in, count) && closed(in, PICKLE_TUPLE, count); }

/* Bytes with their length before them. */
static int bytes_node(struct reading *in, enum pickle_kind kind, int width) {
    if (!has(in, (uint64_t)width)) return 0;
    uint64_t length = number(in, width);
    if (!has(in, length)) return 0;
    if (length > UINT32_MAX) return fails(in, PICKLE_TOO_MANY);
    int64_t begin = (int64_t)in->at;
    in->at += (size_t)length;
    return new_node(in, kind, begin, (uint32_t)length);
}

static int int_node(struct reading *in, int width, int is_signed) {
    if (!has(in, (uint64_t)width)) return 0;
    uint64_t value = number(in, width);
    if (is_signed && width < 8 && width && value >> (8 * width - 1)) value |= ~0ull << (8 * width);
    return new_node(in, PICKLE_INT, (int64_t)value, 0);
}

/* An integer of any length; beyond 64 bits it is only known to be one. */
static int long_node(struct reading *in, int width) {
    if (!has(in, (uint64_t)width)) return 0;
    uint64_t length = number(in, width);
    if (!has(in, length)) return 0;
    if (length <= 8) return int_node(in, (int)length, 1);
    in->at += (size_t)length;
    return new_node(in, PICKLE_HUGE, 0, 0);
}

static int float_node(struct reading *in) {
    if (!has(in, 8)) return 0;
    uint64_t bits = 0;
    for (int place = 0; place < 8; place++) bits = bits << 8 | in->bytes[in->at++];
    return new_node(in, PICKLE_FLOAT, (int64_t)bits, 0);
}

static int remembered(struct reading *in, uint64_t place) {
    if (!holds(in, 1)) return 0;
    /* Python numbers what it remembers one after the other: a place far beyond would only take memory */
    if (place > in->memo.count) return fails(in, PICKLE_DAMAGED);
    uint32_t node = in->stack.items[in->stack.count - 1];
    if (place == in->memo.count) return pushed(in, &in->memo, node);
    in->memo.items[place] = node;
    return 1;
}

static int put(struct reading *in, int width) { return has(in, (uint64_t)width) && remembered(in, number(in, width)); }

static int got(struct reading *in, int width) {
    if (!has(in, (uint64_t)width)) return 0;
    uint64_t place = number(in, width);
    return place < in->memo.count ? pushed(in, &in->stack, in->memo.items[place]) : fails(in, PICKLE_DAMAGED);
}

static int dropped(struct reading *in, int is_marked) {
    size_t count = 1;
    if (is_marked ? !above_mark(in, &count) : !holds(in, 1)) return 0;
    in->stack.count -= count;
    return 1;
}

static int duplicated(struct reading *in) {
    return holds(in, 1) && pushed(in, &in->stack, in->stack.items[in->stack.count - 1]);
}

static int protocol(struct reading *in) {
    if (!has(in, 1)) return 0;
    return number(in, 1) <= 5 ? 1 : fails(in, PICKLE_UNKNOWN);
}

static int skipped(struct reading *in, size_t count) {
    if (!has(in, count)) return 0;
    in->at += count;
    return 1;
}

static int done_by(struct reading *in, uint8_t opcode) {
    switch (opcode) {
    case 'h': return got(in, 1);                            /* BINGET */
    case 'j': return got(in, 4);                            /* LONG_BINGET */
    case 0x94: return remembered(in, in->memo.count);       /* MEMOIZE */
    case 'q': return put(in, 1);                            /* BINPUT */
    case 'r': return put(in, 4);                            /* LONG_BINPUT */
    case '(': return in->stack.count <= UINT32_MAX ? pushed(in, &in->marks, (uint32_t)in->stack.count)
                                                   : fails(in, PICKLE_TOO_MANY);
    case '}': return new_node(in, PICKLE_DICT, 0, 0);       /* EMPTY_DICT */
    case ']': return new_node(in, PICKLE_LIST, 0, 0);       /* EMPTY_LIST */
    case ')': return new_node(in, PICKLE_TUPLE, 0, 0);      /* EMPTY_TUPLE */
    case 'u': return marked_into(in, PICKLE_DICT);          /* SETITEMS */
    case 'e': return marked_into(in, PICKLE_LIST);          /* APPENDS */
    case 's': return into_container(in, PICKLE_DICT, 2);    /* SETITEM */
    case 'a': return into_container(in, PICKLE_LIST, 1);    /* APPEND */
    case 't': return marked_container(in, PICKLE_TUPLE);    /* TUPLE */
    case 'l': return marked_container(in, PICKLE_LIST);     /* LIST */
    case 'd': return marked_container(in, PICKLE_DICT);     /* DICT */
    case 0x85: return few_container(in, 1);                 /* TUPLE1 */
    case 0x86: return few_container(in, 2);                 /* TUPLE2 */
    case 0x87: return few_container(in, 3);                 /* TUPLE3 */
    case 'K': return int_node(in, 1, 0);                    /* BININT1 */
    case 'M': return int_node(in, 2, 0);                    /* BININT2 */
    case 'J': return int_node(in, 4, 1);                    /* BININT */
    case 0x8a: return long_node(in, 1);                     /* LONG1 */
    case 0x8b: return long_node(in, 4);                     /* LONG4 */
    case 'G': return float_node(in);                        /* BINFLOAT */
    case 0x8c: return bytes_node(in, PICKLE_TEXT, 1);       /* SHORT_BINUNICODE */
    case 'X': return bytes_node(in, PICKLE_TEXT, 4);        /* BINUNICODE */
    case 0x8d: return bytes_node(in, PICKLE_TEXT, 8);       /* BINUNICODE8 */
    case 'C': return bytes_node(in, PICKLE_BYTES, 1);       /* SHORT_BINBYTES */
    case 'B': return bytes_node(in, PICKLE_BYTES, 4);       /* BINBYTES */
    case 0x8e: return bytes_node(in, PICKLE_BYTES, 8);      /* BINBYTES8 */
    case 'N': return new_node(in, PICKLE_NONE, 0, 0);       /* NONE */
    case 0x88: return new_node(in, PICKLE_BOOL, 1, 0);      /* NEWTRUE */
    case 0x89: return new_node(in, PICKLE_BOOL, 0, 0);      /* NEWFALSE */
    case 0x80: return protocol(in);                         /* PROTO */
    case 0x95: return skipped(in, 8);                       /* FRAME */
    case '0': return dropped(in, 0);                        /* POP */
    case '1': return dropped(in, 1);                        /* POP_MARK */
    case '2': return duplicated(in);                        /* DUP */
    case 'c': case 0x93: case 'R': case 'b': case 'i': case 'o': case 0x81: case 0x92: case 0x82: case 0x83: case 0x84:
    case 'P': case 'Q':
        return fails(in, PICKLE_CLASS); /* GLOBAL REDUCE BUILD INST OBJ NEWOBJ EXT PERSID */
    default: return fails(in, PICKLE_UNKNOWN);
    }
}

/* The frames of a stack, most of a snapshot: values that are got again, one after the other, while there is room. */
static void got_again(struct reading *in) {
    const uint8_t *at = in->bytes + in->at, *end = in->bytes + in->size;
    uint32_t *top = in->stack.items + in->stack.count, *full = in->stack.items + in->stack.room;
    while (end - at > 5 && *at == 'j' && top < full) {
        uint32_t place = at[1] | (uint32_t)at[2] << 8 | (uint32_t)at[3] << 16 | (uint32_t)at[4] << 24;
        if (place >= in->memo.count) break;
        *top++ = in->memo.items[place];
        at += 5;
    }
    in->at = (size_t)(at - in->bytes);
    in->stack.count = (size_t)(top - in->stack.items);
}

static void run(struct reading *in, int (*is_over)(void)) {
    for (uint32_t turn = 1;; turn++) {
        if (turn % ASK_EVERY == 0 && is_over && is_over()) {
            fails(in, PICKLE_STOPPED);
            return;
        }
        if (in->stack.room) got_again(in);
        in->out->offset = in->at;
        if (!has(in, 1)) return;
        uint8_t opcode = in->bytes[in->at++];
        if (opcode == '.') {
            if (in->stack.count != 1 || in->marks.count) fails(in, PICKLE_DAMAGED);
            else in->out->root = in->stack.items[0];
            return;
        }
        if (!done_by(in, opcode)) return;
    }
}

enum pickle_status pickle_tree_read(
    const uint8_t *bytes, size_t size, int (*is_over)(void), struct pickle_tree *out) {
    memset(out, 0, sizeof *out);
    struct reading in = {.bytes = bytes, .size = size, .out = out};
    in.most_nodes = size / 2 + 4096;
    if (in.most_nodes > UINT32_MAX - 1) in.most_nodes = UINT32_MAX - 1;
    run(&in, is_over);
    for (size_t node = 0; node < out->nodes; node++) out->kind[node] &= (uint8_t)~RELOCATED;
    free(in.stack.items);
    free(in.marks.items);
    free(in.memo.items);
    return in.status;
}

void pickle_tree_free(struct pickle_tree *tree) {
    free(tree->kind);
    free(tree->value);
    free(tree->count);
    free(tree->children);
    memset(tree, 0, sizeof *tree);
}

static uint64_t content_hash(const uint32_t *items, int64_t count, uint64_t key) {
    uint64_t hash = key ^ (uint64_t)count;
    for (int64_t at = 0; at < count; at++) {
        hash = (hash ^ items[at]) * 0x9E3779B97F4A7C15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

int64_t pickle_tree_groups(
    const int64_t *first, const int64_t *count, size_t lists, const uint32_t *children, size_t used, uint64_t key,
    int (*is_over)(void), int64_t *group, int64_t *member) {
    size_t room = 16;
    while (room < 2 * lists) room *= 2;
    int64_t *table = malloc(room * sizeof *table), groups = 0;
    if (!table) return -1;
    memset(table, 0xff, room * sizeof *table);
    size_t probes = 0;
    for (size_t list = 0; list < lists; list++) {
        if (first[list] < 0 || count[list] < 0 || (uint64_t)first[list] > used || (uint64_t)count[list] > used - (uint64_t)first[list])
            goto failed;
        const uint32_t *items = count[list] ? children + first[list] : NULL; /* no children at all: no pointer to count from */
        size_t place = (size_t)content_hash(items, count[list], key) & (room - 1);
        for (;; place = (place + 1) & (room - 1)) {
            if (++probes % ASK_EVERY == 0 && is_over && is_over()) goto failed;
            int64_t known = table[place];
            if (known < 0) {
                table[place] = groups;
                member[groups] = (int64_t)list;
                group[list] = groups++;
                break;
            }
            int64_t other = member[known];
            if (count[other] != count[list]) continue;
            if (count[list] && memcmp(children + first[other], items, (size_t)count[list] * sizeof *items)) continue;
            group[list] = known;
            break;
        }
    }
    free(table);
    return groups;
failed:
    free(table);
    return -1;
}
