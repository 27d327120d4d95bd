/* A harness for libFuzzer: any bytes as a pickle, and as lists to be numbered.
 *
 * Checked beside what the sanitizers see: children are nodes, containers lie in the children, texts in the bytes, and
 * lists of one group hold the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/gpuledger/trace/native/pickle_tree.h"

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static void check_tree(const struct pickle_tree *tree, size_t size) {
    must(tree->root < tree->nodes, "the root is a node");
    for (size_t at = 0; at < tree->used; at++) must(tree->children[at] < tree->nodes, "a child is a node");
    for (size_t node = 0; node < tree->nodes; node++) {
        int kind = tree->kind[node];
        uint64_t first = (uint64_t)tree->value[node], count = tree->count[node];
        must(kind <= PICKLE_HUGE, "a kind is known");
        if (kind == PICKLE_TEXT || kind == PICKLE_BYTES) must(first + count <= size, "a text lies in the bytes");
        if (kind >= PICKLE_LIST && kind <= PICKLE_DICT && count) must(first + count <= tree->used, "children are there");
        if (kind == PICKLE_DICT) must(count % 2 == 0, "a key has a value");
    }
}

static void check_groups(const struct pickle_tree *tree) {
    size_t lists = 0;
    int64_t *columns = malloc(4 * tree->nodes * sizeof *columns + 1);
    must(columns != NULL, "there is memory");
    int64_t *first = columns, *count = first + tree->nodes, *group = count + tree->nodes, *member = group + tree->nodes;
    for (size_t node = 0; node < tree->nodes; node++)
        if (tree->kind[node] == PICKLE_LIST) {
            first[lists] = tree->value[node];
            count[lists++] = tree->count[node];
        }
    int64_t groups = pickle_tree_groups(first, count, lists, tree->children, tree->used, 7, NULL, group, member);
    must(groups >= 0 && groups <= (int64_t)lists, "lists are numbered");
    for (size_t list = 0; list < lists; list++) {
        int64_t other = member[group[list]];
        must(count[other] == count[list], "lists of a group are as long");
        must(!count[list] || !memcmp(tree->children + first[other], tree->children + first[list],
                                     (size_t)count[list] * sizeof *tree->children), "and hold the same");
    }
    free(columns);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size + !size); /* so that one byte beyond is seen */
    must(exact != NULL, "there is memory");
    memcpy(exact, bytes, size);
    struct pickle_tree tree;
    if (pickle_tree_read(exact, size, NULL, &tree) == PICKLE_OK) {
        check_tree(&tree, size);
        check_groups(&tree);
    }
    pickle_tree_free(&tree);
    free(exact);
    return 0;
}
