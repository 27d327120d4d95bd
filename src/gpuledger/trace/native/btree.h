/* Columns of integers, or of texts, out of the table b-trees of a SQLite file, without SQLite.
 *
 * In: a way to read bytes of the file, where a table's tree begins, and which columns are wanted. Out: arrays.
 * The file is untrusted. Nothing is read outside what was asked for and got; every offset, count and length is checked
 * against the page or the record it lies in; loops are bounded by the number of pages. What is not as it must be ends
 * with a status other than BTREE_OK, and the caller asks SQLite instead, which then says what is wrong.
 */
#ifndef GPULEDGER_BTREE_H
#define GPULEDGER_BTREE_H

#include <stddef.h>
#include <stdint.h>

enum btree_status {
    BTREE_OK = 0,
    BTREE_SHORT_READ = 1, /* the file ends before it should, or cannot be read */
    BTREE_DAMAGED = 2,    /* a page or a record is not what it must be */
    BTREE_TOO_LARGE = 3,  /* a record that is longer than we care for, or more pages than there are */
    BTREE_NO_MEMORY = 4,
    BTREE_NO_TEXT = 5, /* a number where a text was wanted: SQLite knows how to print it */
    BTREE_OTHER_ROWS = 6, /* a leaf that holds more or fewer rows than was said of it */
    BTREE_NOT_SMALL = 7,  /* NULL, or a number of more than 32 bits, in a column that was said to have neither */
};

/* Fill `into` with `size` bytes from `offset`; 0 if that went well. */
typedef int (*btree_read)(void *file, uint64_t offset, void *into, size_t size);

struct btree_file {
    btree_read read;
    void *file;
    uint32_t page_bytes;   /* a power of two, 512 to 65536 */
    uint32_t usable_bytes; /* page_bytes less what is reserved at the end of each page; 480 at least */
    uint32_t pages;
};

/* How to know how many rows a leaf holds: from the row ids above it, which is right where they have no holes, or by a
 * look at each leaf. */
enum btree_rows { BTREE_BY_KEYS = 0, BTREE_COUNTED = 1 };

/* The leaves of the tree at `root` in the order of rows, and how many rows each holds. Both arrays are malloc'ed. */
struct btree_leaves {
    uint32_t *pages;
    uint32_t *rows;
    size_t count;
};

enum btree_status btree_find_leaves(
    const struct btree_file *in, uint32_t root, enum btree_rows how, struct btree_leaves *out);
void btree_free_leaves(struct btree_leaves *leaves);

/* What to take out of each record. `columns` are positions in the record, ascending, without doubles; `alias` is the
 * position of the column that stands for the row's id, or -1. A column for which `small` has a place goes there, in 32
 * bits, and not to `out`; without any, it is NULL. */
struct btree_wanted {
    const int32_t *columns;
    size_t count;
    int32_t alias;
    int32_t *const *small;
};

/* The least and the greatest of some values, NULL left out, and how many are NULL. Without any: INT64_MAX, INT64_MIN. */
struct btree_summary {
    int64_t least, most;
    uint64_t nulls;
};

/* Write the wanted columns of these leaves; row r of them goes to out[c][r], `rows` in all. BTREE_OTHER_ROWS where a leaf
 * does not hold as many rows as `leaf_rows` says. NULL and what is no integer become INT64_MIN, and bad[c] grows by one
 * for the latter. A record that ends early has NULL in the columns it lacks, and `*short_records` grows. `summaries` are
 * of each column, or NULL. */
enum btree_status btree_decode(
    const struct btree_file *in, const uint32_t *leaf_pages, const uint32_t *leaf_rows, size_t leaves,
    const struct btree_wanted *wanted, int64_t *const *out, uint64_t rows, uint64_t *bad,
    struct btree_summary *summaries, uint64_t *short_records);

/* One column of texts: their bytes one after another, malloc'ed, and how many each has; -1 for NULL. */
struct btree_texts {
    uint8_t *bytes;
    size_t size;
};

enum btree_status btree_decode_texts(
    const struct btree_file *in, const uint32_t *leaf_pages, const uint32_t *leaf_rows, size_t leaves, int32_t column,
    int64_t *lengths, uint64_t rows, struct btree_texts *out, uint64_t *short_records);

#endif
