/* Changes to an input that keep it nearly a database: a mutator for libFuzzer.
 *
 * An input of btree_fuzz.c begins with 8 bytes of its own; compiled with PLAIN_FILE, it is the file and nothing else.
 * Bytes changed at random seldom get past the first page that is looked at. Half of the changes here are made where the
 * format has something to say: kinds of pages, counts of cells, pointers to cells, children and overflow pages, sizes of
 * payloads, types of values, and varints longer than they need be.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef PLAIN_FILE
#define LOOK_BYTES 0
#else
#define LOOK_BYTES 8
#endif

size_t LLVMFuzzerMutate(uint8_t *input, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *input, size_t size, size_t most, unsigned int seed);

static uint32_t state;

static uint32_t chance(uint32_t below) { /* xorshift: the same seed gives the same change */
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return below ? state % below : 0;
}

static void put16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

struct page {
    uint8_t *bytes;
    uint32_t size, number, pages, start;
};

static uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

/* Where a cell of the page lies, or anywhere in it. */
static uint32_t some_cell(const struct page *page) {
    uint32_t cells = get16(page->bytes + page->start + 3);
    uint32_t header = page->bytes[page->start] == 0x05 ? 12 : 8;
    uint32_t pointer = page->start + header + 2 * chance(cells);
    uint32_t at = cells && pointer + 2 <= page->size ? get16(page->bytes + pointer) : chance(page->size);
    return at + 16 <= page->size ? at : page->size - 16;
}

static void change_kind(struct page *page) {
    static const uint8_t kinds[] = {0x05, 0x0d, 0x02, 0x0a, 0x00};
    page->bytes[page->start] = kinds[chance(sizeof kinds)];
}

static void change_count(struct page *page) {
    uint32_t now = get16(page->bytes + page->start + 3);
    const uint32_t counts[] = {now + 1, now - 1, 0, 1, (page->size - 8) / 6, (page->size - 8) / 6 + 1, 0xffff, chance(400)};
    put16(page->bytes + page->start + 3, counts[chance(8)] & 0xffff);
}

static void change_cell_pointer(struct page *page) {
    uint32_t header = page->bytes[page->start] == 0x05 ? 12 : 8;
    uint32_t at = page->start + header + 2 * chance(get16(page->bytes + page->start + 3));
    const uint32_t places[] = {chance(page->size), page->size, page->size - 1, page->size - 4, some_cell(page), 0, 0xffff};
    if (at + 2 <= page->size) put16(page->bytes + at, places[chance(7)]);
}

static void change_child(struct page *page) {
    const uint32_t pages[] = {chance(page->pages + 2), page->number, 1, page->pages, page->pages + 1, 0, 0xffffffff};
    uint32_t value = pages[chance(7)];
    put32(page->bytes + (chance(2) ? page->start + 8 : some_cell(page)), value);
}

static void change_overflow(struct page *page) { /* somewhere behind a cell's beginning, or where a page's chain goes on */
    uint32_t at = chance(2) ? 0 : some_cell(page) + chance(page->size / 4);
    if (at + 4 <= page->size) put32(page->bytes + at, chance(page->pages + 2));
}

static void change_payload_size(struct page *page) {
    uint8_t *cell = page->bytes + some_cell(page);
    const uint32_t sizes[] = {page->size - 35, page->size - 34, chance(page->size * 4), 0, 1};
    uint32_t size = sizes[chance(5)];
    cell[0] = (uint8_t)(0x80 | (size >> 14 & 0x7f));
    cell[1] = (uint8_t)(0x80 | (size >> 7 & 0x7f));
    cell[2] = (uint8_t)(size & 0x7f);
}

static void change_type(struct page *page) {
    static const uint8_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 127, 128, 255};
    page->bytes[some_cell(page) + chance(12)] = types[chance(sizeof types)];
}

static void long_varint(struct page *page) {
    uint32_t at = some_cell(page) + chance(6);
    if (at + 9 > page->size) return;
    memset(page->bytes + at, chance(2) ? 0x80 : 0xff, 8);
    page->bytes[at + 8] = (uint8_t)chance(256);
}

static void copy_page(struct page *page) {
    uint32_t from = chance(page->pages);
    uint8_t *first = page->bytes - (size_t)(page->number - 1) * page->size;
    if (from + 1 != page->number) memcpy(page->bytes, first + (size_t)from * page->size, page->size);
}

static void change_value(struct page *page) { /* somewhere behind a record's header, mostly */
    page->bytes[page->size / 2 + chance(page->size / 2)] = (uint8_t)chance(256);
}

static void (*const CHANGES[])(struct page *) = {change_kind,     change_count,        change_cell_pointer, change_child,
                                                 change_overflow, change_payload_size, change_type,         long_varint,
                                                 copy_page,       change_value};

static uint32_t page_bytes_of(const uint8_t *input, size_t size) {
#ifdef PLAIN_FILE
    uint32_t bytes = size < 100 ? 0 : get16(input + 16) == 1 ? 65536 : get16(input + 16);
    return bytes >= 512 && !(bytes & (bytes - 1)) ? bytes : 0;
#else
    return size > LOOK_BYTES ? 512u << (input[0] & 7) : 0;
#endif
}

static void change_look(uint8_t *input, uint32_t pages) {
    switch (chance(5)) {
    case 0: input[2] = (uint8_t)chance(pages + 2); break; /* the root */
    case 1: input[3 + chance(2)] = (uint8_t)chance(256); break;
    case 2: input[5] = (uint8_t)chance(18); break;
    case 3: input[6] = (uint8_t)chance(16); break;
    default: input[1] = (uint8_t)(chance(2) ? 0 : chance(256)); break;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *input, size_t size, size_t most, unsigned int seed) {
    state = seed | 1;
    chance(1);
    uint32_t page_bytes = page_bytes_of(input, size);
    uint32_t pages = page_bytes ? (uint32_t)((size - LOOK_BYTES) / page_bytes) : 0;
    if (pages == 0 || chance(LOOK_BYTES ? 4 : 16) == 0) return LLVMFuzzerMutate(input, size, most);
    if (chance(24) == 0) return size - chance(page_bytes); /* the end is missing */
    if (LOOK_BYTES && chance(16) == 0) {
        change_look(input, pages);
        return size;
    }
    /* SQLite, too, is to be content with what a plain file becomes: fewer changes at a time */
    for (uint32_t left = LOOK_BYTES ? 1 + chance(3) : 1; left; left--) {
        uint32_t root = LOOK_BYTES ? input[2] : 2;
        uint32_t number = chance(3) || root == 0 || root > pages ? 1 + chance(pages) : root;
        struct page page = {input + LOOK_BYTES + (size_t)(number - 1) * page_bytes, page_bytes, number, pages,
                            number == 1 ? 100 : 0};
        CHANGES[chance(sizeof CHANGES / sizeof *CHANGES)](&page);
    }
    return size;
}
