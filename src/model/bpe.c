/* SPDX-License-Identifier: MIT */
/*
 * Byte-pair encoding (see bpe.h). Both maps are open-addressed tables, at most half full. A word is a linked list of
 * symbols; a heap holds the merges that were possible when entered, by (rank, place). One taken from the heap is stale when
 * its pair no longer merges to the same token.
 */
#include "bpe.h"

typedef struct token_slot {
    size_t offset, n;
    int32_t id; /* -1 = free */
} token_slot;

typedef struct merge_slot {
    int32_t left, right; /* left -1 = free */
    int32_t rank, merged;
} merge_slot;

typedef struct symbol {
    int32_t id, previous, next; /* id -1 = merged into its left neighbour */
} symbol;

typedef struct candidate {
    int32_t rank, at, merged;
} candidate;

struct seqmix_bpe {
    token_slot *tokens;
    merge_slot *merges;
    size_t token_mask, merge_mask;
    seqmix_bytes text;
    int32_t byte_id[256];
    int32_t unknown;
    bool fuse, whole_words;
    /* scratch of one word */
    symbol *symbols;
    size_t symbol_room;
    candidate *heap;
    size_t heap_n, heap_room;
};

static size_t table_size(size_t n)
{
    size_t size = 16;
    while (size < n * 2 + 2)
        size *= 2;
    return size;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= UINT64_C(0xD6E8FEB86659FD93);
    h ^= h >> 32;
    h *= UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

static uint64_t hash_text(const unsigned char *text, size_t n)
{
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < n; i++)
        h = (h ^ text[i]) * UINT64_C(0x100000001B3);
    return mix(h);
}

static uint64_t hash_pair(int32_t left, int32_t right)
{
    return mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
}

seqmix_bpe *seqmix_bpe_create(size_t n_tokens, size_t n_merges)
{
    seqmix_bpe *bpe = calloc(1, sizeof *bpe);
    if (bpe == NULL) return NULL;
    size_t token_size = table_size(n_tokens), merge_size = table_size(n_merges);
    bpe->tokens = malloc(token_size * sizeof *bpe->tokens);
    bpe->merges = malloc(merge_size * sizeof *bpe->merges);
    if (bpe->tokens == NULL || bpe->merges == NULL) {
        seqmix_bpe_free(bpe);
        return NULL;
    }
    for (size_t i = 0; i < token_size; i++)
        bpe->tokens[i] = (token_slot){0, 0, -1};
    for (size_t i = 0; i < merge_size; i++)
        bpe->merges[i] = (merge_slot){-1, -1, 0, 0};
    for (int i = 0; i < 256; i++)
        bpe->byte_id[i] = -1;
    bpe->token_mask = token_size - 1;
    bpe->merge_mask = merge_size - 1;
    bpe->unknown = -1;
    return bpe;
}

void seqmix_bpe_free(seqmix_bpe *bpe)
{
    if (bpe == NULL) return;
    free(bpe->tokens);
    free(bpe->merges);
    free(bpe->text.data);
    free(bpe->symbols);
    free(bpe->heap);
    free(bpe);
}

/* The slot that holds the text, or the free one where it belongs. */
static token_slot *token_at(const seqmix_bpe *bpe, const unsigned char *text, size_t n)
{
    for (size_t i = hash_text(text, n);; i++) {
        token_slot *slot = &bpe->tokens[i & bpe->token_mask];
        if (slot->id < 0) return slot;
        if (slot->n == n && (n == 0 || memcmp(bpe->text.data + slot->offset, text, n) == 0)) return slot;
    }
}

bool seqmix_bpe_add_token(seqmix_bpe *bpe, const unsigned char *text, size_t n, int32_t id, bool *known)
{
    token_slot *slot = token_at(bpe, text, n);
    *known = slot->id >= 0;
    size_t offset = bpe->text.n;
    if (*known || !seqmix_bytes_add(&bpe->text, text, n)) return false;
    *slot = (token_slot){offset, n, id};
    if (n == 1) bpe->byte_id[text[0]] = id;
    return true;
}

int32_t seqmix_bpe_find(const seqmix_bpe *bpe, const unsigned char *text, size_t n)
{
    return token_at(bpe, text, n)->id;
}

static merge_slot *merge_at(const seqmix_bpe *bpe, int32_t left, int32_t right)
{
    for (size_t i = hash_pair(left, right);; i++) {
        merge_slot *slot = &bpe->merges[i & bpe->merge_mask];
        if (slot->left < 0 || (slot->left == left && slot->right == right)) return slot;
    }
}

void seqmix_bpe_add_merge(seqmix_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t merged)
{
    *merge_at(bpe, left, right) = (merge_slot){left, right, rank, merged};
}

void seqmix_bpe_options(seqmix_bpe *bpe, int32_t unknown, bool fuse, bool whole_words)
{
    bpe->unknown = unknown;
    bpe->fuse = fuse;
    bpe->whole_words = whole_words;
}

static bool earlier(candidate a, candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

/* Enters the merge of the symbol at `at` with its right neighbour, if there is one. */
static bool offer(seqmix_bpe *bpe, int32_t at)
{
    int32_t next = bpe->symbols[at].next;
    if (next < 0) return true;
    const merge_slot *merge = merge_at(bpe, bpe->symbols[at].id, bpe->symbols[next].id);
    if (merge->left < 0) return true;
    void *data = bpe->heap;
    if (!seqmix_grow(&data, &bpe->heap_room, bpe->heap_n, 1, sizeof *bpe->heap)) return false;
    bpe->heap = data;
    candidate c = {merge->rank, at, merge->merged};
    size_t i = bpe->heap_n++;
    for (; i > 0 && earlier(c, bpe->heap[(i - 1) / 2]); i = (i - 1) / 2)
        bpe->heap[i] = bpe->heap[(i - 1) / 2];
    bpe->heap[i] = c;
    return true;
}

static candidate take(seqmix_bpe *bpe)
{
    candidate top = bpe->heap[0], last = bpe->heap[--bpe->heap_n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= bpe->heap_n) break;
        if (child + 1 < bpe->heap_n && earlier(bpe->heap[child + 1], bpe->heap[child])) child++;
        if (!earlier(bpe->heap[child], last)) break;
        bpe->heap[i] = bpe->heap[child];
        i = child;
    }
    bpe->heap[i] = last;
    return top;
}

/* One symbol per byte, except for bytes the vocabulary lacks. */
static int32_t split_bytes(seqmix_bpe *bpe, const unsigned char *word, size_t n)
{
    int32_t count = 0;
    bool in_unknown = false;
    for (size_t i = 0; i < n; i++) {
        int32_t id = bpe->byte_id[word[i]];
        bool unknown = id < 0;
        if (unknown && (bpe->unknown < 0 || (in_unknown && bpe->fuse))) continue;
        in_unknown = unknown;
        bpe->symbols[count] = (symbol){unknown ? bpe->unknown : id, count - 1, count + 1};
        count++;
    }
    if (count > 0) bpe->symbols[count - 1].next = -1;
    return count;
}

static bool merge_all(seqmix_bpe *bpe, int32_t count)
{
    symbol *symbols = bpe->symbols;
    bpe->heap_n = 0;
    for (int32_t i = 0; i < count; i++)
        if (!offer(bpe, i)) return false;
    while (bpe->heap_n > 0) {
        candidate c = take(bpe);
        symbol *left = &symbols[c.at];
        if (left->id < 0 || left->next < 0) continue;
        symbol *right = &symbols[left->next];
        const merge_slot *merge = merge_at(bpe, left->id, right->id);
        if (merge->left < 0 || merge->merged != c.merged) continue;
        left->id = c.merged;
        right->id = -1;
        left->next = right->next;
        if (left->next >= 0) symbols[left->next].previous = c.at;
        if (left->previous >= 0 && !offer(bpe, left->previous)) return false;
        if (!offer(bpe, c.at)) return false;
    }
    return true;
}

bool seqmix_bpe_encode(seqmix_bpe *bpe, const unsigned char *word, size_t n, seqmix_ids *out)
{
    if (bpe->whole_words) {
        int32_t id = seqmix_bpe_find(bpe, word, n);
        if (id >= 0) return seqmix_ids_add(out, id);
    }
    void *data = bpe->symbols;
    if (!seqmix_grow(&data, &bpe->symbol_room, 0, n, sizeof *bpe->symbols)) return false;
    bpe->symbols = data;
    int32_t count = split_bytes(bpe, word, n);
    if (!merge_all(bpe, count)) return false;
    for (int32_t i = count > 0 ? 0 : -1; i >= 0; i = bpe->symbols[i].next)
        if (!seqmix_ids_add(out, bpe->symbols[i].id)) return false;
    return true;
}
