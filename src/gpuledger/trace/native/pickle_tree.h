/* What a pickle holds, as flat arrays: plain values only, no object is ever made and no class is ever looked for.
 *
 * In: the bytes of a whole pickle, protocol 2 to 5. Out: nodes, each a value or a container, and the children of all
 * containers. A value that the pickle names twice is one node with two parents, so nothing grows that was written once.
 * The bytes are untrusted: every length, index and mark is checked, memory stays a small multiple of the input, and there
 * is no recursion. Opcodes that would import, call or build anything end the reading with PICKLE_CLASS.
 */
#ifndef GPULEDGER_PICKLE_TREE_H
#define GPULEDGER_PICKLE_TREE_H

#include <stddef.h>
#include <stdint.h>

enum pickle_status {
    PICKLE_OK = 0,
    PICKLE_CUT_OFF = 1,   /* the bytes end before the pickle does */
    PICKLE_CLASS = 2,     /* it asks for a class or a function */
    PICKLE_UNKNOWN = 3,   /* an opcode that plain values of protocol 2 to 5 do not need */
    PICKLE_DAMAGED = 4,   /* a mark, a memo or a container that is not there */
    PICKLE_TOO_MANY = 5,  /* more values than bytes could sensibly hold */
    PICKLE_NO_MEMORY = 6,
    PICKLE_STOPPED = 7,   /* whoever waits has had enough */
};

enum pickle_kind {
    PICKLE_NONE = 0,
    PICKLE_BOOL = 1,
    PICKLE_INT = 2,
    PICKLE_FLOAT = 3, /* its value is the bits of a double */
    PICKLE_TEXT = 4,  /* its value is where its bytes begin, its count how many they are */
    PICKLE_BYTES = 5,
    PICKLE_LIST = 6, /* its value is where its children begin, its count how many they are */
    PICKLE_TUPLE = 7,
    PICKLE_DICT = 8, /* children: key, value, key, value */
    PICKLE_HUGE = 9, /* an integer beyond 64 bits */
};

struct pickle_tree {
    uint8_t *kind;
    int64_t *value;
    uint32_t *count;
    size_t nodes;
    uint32_t *children;
    size_t used;
    uint32_t root;
    size_t offset; /* where reading ended */
};

/* Read `size` bytes; `is_over` is asked now and then. The arrays are malloc'ed, also where the status is not PICKLE_OK. */
enum pickle_status pickle_tree_read(
    const uint8_t *bytes, size_t size, int (*is_over)(void), struct pickle_tree *out);
void pickle_tree_free(struct pickle_tree *tree);

/* Number lists by what they hold: group[i] is the number of list i's content, in the order of first appearance, and
 * member[g] the first list of group g. Both have room for `lists`. `key` makes places in the table unforeseeable. How many
 * groups there are, or -1 where a list lies outside the children, there is no memory, or `is_over` said so. */
int64_t pickle_tree_groups(
    const int64_t *first, const int64_t *count, size_t lists, const uint32_t *children, size_t used, uint64_t key,
    int (*is_over)(void), int64_t *group, int64_t *member);

#endif
