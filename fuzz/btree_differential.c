/* A harness for libFuzzer: a SQLite file, through btree.c and through SQLite itself.
 *
 * In: a database, as SQLite writes it or changed. Where SQLite finds nothing wrong with it, every table that read/btree.py
 * would decode is read both ways, whole: our decoder gives what a query gives, or refuses. Says when it is done how
 * often which happened.
 */
#define _POSIX_C_SOURCE 200809L /* strdup, strncasecmp */
#include <sqlite3.h>
#include <strings.h>

#include "memory_file.h"

#define MOST_COLUMNS 64
#define STEPS 100000

static unsigned long runs, accepted, tables_equal, tables_refused, texts_equal, texts_refused;

static void say_how_many(void) {
    fprintf(stderr, "runs %lu, accepted by SQLite %lu; tables equal %lu, refused %lu; columns of texts equal %lu, refused %lu\n",
            runs, accepted, tables_equal, tables_refused, texts_equal, texts_refused);
}

struct shape { /* what read/btree.py asks of a table's schema */
    char *name;
    uint32_t root;
    int columns, alias, odd;
    int is_real[MOST_COLUMNS], has_default[MOST_COLUMNS];
    char *names[MOST_COLUMNS];
};

static int contains(const char *text, const char *word) {
    size_t length = strlen(word);
    for (; *text; text++)
        if (!strncasecmp(text, word, length)) return 1;
    return 0;
}

static int is_real(const char *type) {
    if (contains(type, "INT") || contains(type, "CHAR") || contains(type, "CLOB") || contains(type, "TEXT") ||
        contains(type, "BLOB"))
        return 0;
    return contains(type, "REAL") || contains(type, "FLOA") || contains(type, "DOUB");
}

static const char *text(sqlite3_stmt *statement, int column) {
    const unsigned char *found = sqlite3_column_text(statement, column);
    return found ? (const char *)found : "";
}

static int stop(void *left) { return --*(int *)left <= 0; }

/* The schema of one table; `sql` is how it was made. */
static void describe(sqlite3 *database, const char *sql, struct shape *shape) {
    char *query = sqlite3_mprintf("PRAGMA table_xinfo(%Q)", shape->name);
    sqlite3_stmt *statement;
    int keys = 0, status = sqlite3_prepare_v2(database, query, -1, &statement, NULL);
    sqlite3_free(query);
    shape->alias = -1;
    shape->odd = status != SQLITE_OK || contains(sql, "WITHOUT") || contains(sql, "DESC");
    while (status == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        int at = shape->columns;
        if (at == MOST_COLUMNS || sqlite3_column_int(statement, 6)) {
            shape->odd = 1;
            break;
        }
        shape->columns++;
        shape->names[at] = strdup(text(statement, 1));
        shape->is_real[at] = is_real(text(statement, 2));
        shape->has_default[at] = sqlite3_column_type(statement, 4) != SQLITE_NULL;
        if (sqlite3_column_int(statement, 5) && keys++ == 0 && !strcasecmp(text(statement, 2), "INTEGER"))
            shape->alias = at;
    }
    if (keys != 1) shape->alias = -1;
    sqlite3_finalize(statement);
}

static void forget(struct shape *shape) {
    for (int at = 0; at < shape->columns; at++) free(shape->names[at]);
    free(shape->name);
}

static sqlite3_stmt *selected(sqlite3 *database, const char *table, const char *column) {
    char *query = sqlite3_mprintf("SELECT \"%w\" FROM \"%w\" NOT INDEXED", column, table);
    sqlite3_stmt *statement = NULL;
    sqlite3_prepare_v2(database, query, -1, &statement, NULL);
    sqlite3_free(query);
    return statement;
}

/* One column by a query against what we decoded. */
static void compare_integers(sqlite3 *database, const struct shape *shape, int column, const int64_t *ours, uint64_t rows, uint64_t our_bad) {
    sqlite3_stmt *statement = selected(database, shape->name, shape->names[column]);
    uint64_t row = 0, bad = 0;
    if (statement == NULL) return;
    int status;
    for (; (status = sqlite3_step(statement)) == SQLITE_ROW; row++) {
        int type = sqlite3_column_type(statement, 0);
        must(row < rows, "no row is missing");
        must(ours[row] == (type == SQLITE_INTEGER ? sqlite3_column_int64(statement, 0) : INT64_MIN), "an integer is SQLite's");
        bad += type != SQLITE_INTEGER && type != SQLITE_NULL;
    }
    if (status == SQLITE_DONE) must(row == rows && bad == our_bad, "as many rows, and as many that are no integers");
    sqlite3_finalize(statement);
}

static void compare_texts(sqlite3 *database, const struct btree_file *file, const struct btree_leaves *leaves, const struct shape *shape, int column, uint64_t rows) {
    int64_t *lengths = malloc(rows * sizeof *lengths + 1);
    struct btree_texts texts;
    uint64_t short_records = 0, row = 0;
    size_t at = 0;
    enum btree_status ours =
        btree_decode_texts(file, leaves->pages, leaves->rows, leaves->count, column, lengths, rows, &texts, &short_records);
    sqlite3_stmt *statement = selected(database, shape->name, shape->names[column]);
    if (ours == BTREE_OK && statement != NULL && !(short_records && shape->has_default[column])) {
        int status;
        for (; (status = sqlite3_step(statement)) == SQLITE_ROW; row++) {
            must(row < rows, "no text is missing");
            int is_null = sqlite3_column_type(statement, 0) == SQLITE_NULL;
            int64_t length = is_null ? -1 : sqlite3_column_bytes(statement, 0);
            must(lengths[row] == length, "a text is as long as SQLite's");
            if (length > 0) must(!memcmp(texts.bytes + at, sqlite3_column_blob(statement, 0), (size_t)length), "a text is SQLite's");
            at += length > 0 ? (size_t)length : 0;
        }
        if (status == SQLITE_DONE) must(row == rows, "as many texts");
        texts_equal++;
    } else {
        texts_refused++;
    }
    sqlite3_finalize(statement);
    free(texts.bytes);
    free(lengths);
}

static enum btree_status decoded(
    const struct btree_file *file, const struct shape *shape, enum btree_rows how, const struct btree_wanted *wanted,
    struct btree_leaves *leaves, int64_t **out, uint64_t *rows, uint64_t *bad, uint64_t *short_records) {
    enum btree_status status = btree_find_leaves(file, shape->root, how, leaves);
    *rows = *short_records = 0;
    for (size_t at = 0; at < leaves->count; at++) *rows += leaves->rows[at];
    for (size_t at = 0; at < wanted->count; at++) {
        out[at] = malloc(*rows * sizeof(int64_t) + 1);
        bad[at] = 0;
    }
    if (status) return status;
    status = btree_decode(file, leaves->pages, leaves->rows, leaves->count, wanted, out, *rows, bad, NULL, short_records);
    if (status != BTREE_OTHER_ROWS || how == BTREE_COUNTED) return status;
    for (size_t at = 0; at < wanted->count; at++) free(out[at]);
    btree_free_leaves(leaves);
    return decoded(file, shape, BTREE_COUNTED, wanted, leaves, out, rows, bad, short_records);
}

static void compare_table(sqlite3 *database, const struct btree_file *file, const struct shape *shape) {
    struct btree_leaves leaves = {0};
    int32_t columns[MOST_COLUMNS];
    int64_t *out[MOST_COLUMNS] = {0};
    uint64_t bad[MOST_COLUMNS] = {0}, short_records = 0, rows = 0;
    struct btree_wanted wanted = {columns, 0, shape->alias, NULL};
    for (int at = 0; at < shape->columns; at++)
        if (!shape->is_real[at]) columns[wanted.count++] = at;
    enum btree_status status =
        decoded(file, shape, BTREE_BY_KEYS, &wanted, &leaves, out, &rows, bad, &short_records);
    int stands_in = 0; /* a default stands for what short records lack, which only SQLite knows */
    for (size_t at = 0; at < wanted.count; at++) stands_in |= short_records && shape->has_default[columns[at]];
    if (status == BTREE_OK && !stands_in) {
        tables_equal++;
        for (size_t at = 0; at < wanted.count; at++)
            compare_integers(database, shape, columns[at], out[at], rows, bad[at]);
    } else {
        tables_refused++;
    }
    for (int at = 0; at < shape->columns && leaves.count; at++)
        if (at != shape->alias) compare_texts(database, file, &leaves, shape, at, rows);
    for (size_t at = 0; at < wanted.count; at++) free(out[at]);
    btree_free_leaves(&leaves);
}

static int is_sound(sqlite3 *database) {
    sqlite3_stmt *statement = NULL;
    int sound = 0;
    if (sqlite3_prepare_v2(database, "PRAGMA integrity_check(1)", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        sound = !strcmp(text(statement, 0), "ok");
    sqlite3_finalize(statement);
    return sound;
}

static void compare_tables(sqlite3 *database, const struct btree_file *file) {
    sqlite3_stmt *statement = NULL;
    const char *made = "SELECT name, rootpage, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'";
    if (sqlite3_prepare_v2(database, made, -1, &statement, NULL) != SQLITE_OK) return;
    while (sqlite3_step(statement) == SQLITE_ROW) {
        struct shape shape = {.name = strdup(text(statement, 0)), .root = (uint32_t)sqlite3_column_int64(statement, 1)};
        describe(database, text(statement, 2), &shape);
        if (!shape.odd && sqlite3_column_int64(statement, 1) > 0) compare_table(database, file, &shape);
        forget(&shape);
    }
    sqlite3_finalize(statement);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    sqlite3 *database = NULL;
    if (runs++ == 0) atexit(say_how_many);
    if (size < 512 || memcmp(input + 18, "\1\1", 2) || memcmp(input + 56, "\0\0\0\1", 4)) return 0;
    uint32_t page_bytes = (uint32_t)input[16] << 8 | input[17];
    page_bytes = page_bytes == 1 ? 65536 : page_bytes;
    uint32_t usable_bytes = page_bytes - input[20];
    if (page_bytes < 512 || page_bytes & (page_bytes - 1) || usable_bytes < 480 || page_bytes > size) return 0;
    struct memory_file memory = {input, size};
    struct btree_file file = {read_memory, &memory, page_bytes, usable_bytes, (uint32_t)(size / page_bytes)};
    int left = STEPS / 1000;
    must(sqlite3_open(":memory:", &database) == SQLITE_OK, "SQLite opens");
    sqlite3_deserialize(database, "main", (unsigned char *)(uintptr_t)input, (sqlite3_int64)size, (sqlite3_int64)size,
                        SQLITE_DESERIALIZE_READONLY);
    sqlite3_progress_handler(database, 1000, stop, &left);
    if (is_sound(database)) {
        accepted++;
        compare_tables(database, &file);
    }
    sqlite3_close(database);
    return 0;
}
