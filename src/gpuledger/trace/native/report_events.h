/* Rows out of the events of an Nsight Systems report: LZ4 blocks of protobuf messages in, tables of integers out.
 *
 * Which fields are wanted is a plan: a tree of messages, each of whose fields is skipped, goes to a column, or is a
 * message to look into. What the fields mean is the caller's business. The bytes are untrusted: every length is checked
 * against what it lies in, messages are looked into no deeper than the plan, and a block unpacks to no more than it says
 * and LZ4 could hold. A message that is not what it must be leaves no row and is counted.
 */
#ifndef GPULEDGER_REPORT_EVENTS_H
#define GPULEDGER_REPORT_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#define REPORT_FIELDS 256  /* fields with larger numbers are skipped */
#define REPORT_CLASSES 512 /* events of classes beyond are counted with the last */

enum report_status {
    REPORT_OK = 0,
    REPORT_NO_MEMORY = 1,
    REPORT_TOO_MANY_ROWS = 2,
    REPORT_OVER = 3, /* whoever watches said so */
};

enum report_kind {
    REPORT_SKIPPED = 0,
    REPORT_NUMBER = 1, /* `to` is a column */
    REPORT_TEXT = 2,   /* `to` is a column, which gets the length; the bytes follow those of the rows before */
    REPORT_MESSAGE = 3 /* `to` is a node */
};

struct report_field {
    uint8_t kind;
    uint16_t to;
};

/* A message. With a table of its own each such message is a row of it, whose column 0 is the row of the message around
 * it, or 0; without one (-1) its fields belong to the row of the message around it. */
struct report_node {
    int32_t table;
    struct report_field fields[REPORT_FIELDS];
};

struct report_plan {
    struct report_node *nodes;
    size_t node_count;
    uint16_t widths[64]; /* columns of each table */
    size_t table_count;
    int32_t of_class[REPORT_CLASSES]; /* the node of an event, by the class in its field 1; -1 for none */
    int32_t generic;                  /* the node of a block's field 2; -1 for none */
};

/* Rows one after another, `width` values each; INT64_MIN for what is not there, -1 for a text that is not. */
struct report_table {
    int64_t *rows;
    size_t count, room;
    uint8_t *texts;
    size_t text_size, text_room;
};

struct report_rows {
    struct report_table tables[64];
    uint64_t seen[REPORT_CLASSES]; /* events of each class, wanted or not */
    uint64_t generic_seen;
    uint64_t damaged;        /* messages that were left out */
    uint64_t damaged_blocks; /* blocks that do not unpack, or whose events do not fill them */
};

struct report_block {
    const uint8_t *packed;
    size_t size, plain_size;
};

/* Bytes that `size` bytes of an LZ4 block unpack to, or -1 where they are no such block of `plain_size` bytes. `into` has
 * room for plain_size + REPORT_SLACK. */
#define REPORT_SLACK 32
int64_t report_unpack(const uint8_t *packed, size_t size, uint8_t *into, size_t plain_size);

/* The next field with this number that holds bytes; 0 where there is none before the end, or before damage. */
int report_next_text(const uint8_t **at, const uint8_t *end, uint64_t number, const uint8_t **text, size_t *size);

enum report_status report_decode(
    const struct report_plan *plan, const struct report_block *blocks, size_t count, uint64_t most_rows,
    int (*is_over)(void), struct report_rows *out);
void report_free(struct report_rows *rows);

#endif
