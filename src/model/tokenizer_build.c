/* SPDX-License-Identifier: MIT */
/*
 * Filling a tokenizer (see tokenizer_build.h). Vocabulary keys are written with one printable character per byte (GPT-2's
 * alphabet); they become bytes here, once. A key with characters outside that alphabet cannot come out of the merges and is
 * kept for decoding only.
 */
#include "tokenizer_build.h"

bool seqmix_builder_no_memory(const seqmix_builder *b)
{
    return seqmix_fail(b->why, "no memory");
}

bool seqmix_builder_begin(seqmix_builder *b, seqmix_why why)
{
    *b = (seqmix_builder){.why = why};
    int spare = 256;
    for (int i = 0; i < 324; i++)
        b->byte_of[i] = -1;
    for (int byte = 0; byte < 256; byte++) {
        bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        b->byte_of[printable ? byte : spare++] = (int16_t)byte;
    }
    b->t = calloc(1, sizeof *b->t);
    if (b->t == NULL) return seqmix_builder_no_memory(b);
    b->t->pretokenizer = seqmix_pretokenizer_create();
    return b->t->pretokenizer != NULL || seqmix_builder_no_memory(b);
}

bool seqmix_builder_room(seqmix_builder *b, int64_t n_ids, size_t n_vocab, size_t n_merges)
{
    b->t->n_tokens = (int32_t)n_ids;
    b->t->tokens = calloc((size_t)n_ids, sizeof *b->t->tokens);
    b->t->bpe = seqmix_bpe_create(n_vocab, n_merges);
    return (b->t->tokens != NULL && b->t->bpe != NULL) || seqmix_builder_no_memory(b);
}

seqmix_tokenizer *seqmix_builder_end(seqmix_builder *b, bool ok)
{
    free(b->scratch.data);
    if (ok) return b->t;
    seqmix_tokenizer_free(b->t);
    return NULL;
}

bool seqmix_builder_bytes(seqmix_builder *b, const char *key, size_t n, bool *mapped)
{
    const unsigned char *s = (const unsigned char *)key;
    *mapped = true;
    b->scratch.n = 0;
    for (size_t at = 0; at < n && *mapped;) {
        uint32_t code = 0;
        int length = seqmix_utf8_next(s + at, n - at, &code);
        *mapped = length > 0 && code < 324 && b->byte_of[code] >= 0;
        if (!*mapped) break;
        unsigned char byte = (unsigned char)b->byte_of[code];
        if (!seqmix_bytes_add(&b->scratch, &byte, 1)) return seqmix_builder_no_memory(b);
        at += (size_t)length;
    }
    if (*mapped) return true;
    b->scratch.n = 0;
    return seqmix_bytes_add(&b->scratch, key, n) || seqmix_builder_no_memory(b);
}

bool seqmix_builder_text(seqmix_builder *b, int64_t id, const void *text, size_t n)
{
    seqmix_token *token = &b->t->tokens[id];
    token->offset = b->t->text.n;
    token->n = n;
    token->present = true;
    return seqmix_bytes_add(&b->t->text, text, n) || seqmix_builder_no_memory(b);
}

bool seqmix_builder_token(seqmix_builder *b, int64_t id, const char *key, size_t n)
{
    bool mapped, known = false;
    if (!seqmix_builder_bytes(b, key, n, &mapped)) return false;
    if (!seqmix_builder_text(b, id, b->scratch.data, b->scratch.n)) return false;
    if (!mapped || b->scratch.n == 0) return true;
    if (seqmix_bpe_add_token(b->t->bpe, b->scratch.data, b->scratch.n, (int32_t)id, &known)) return true;
    return known ? seqmix_fail(b->why, "token '%.*s' occurs twice", n < 64 ? (int)n : 64, key)
                 : seqmix_builder_no_memory(b);
}

bool seqmix_builder_merge(seqmix_builder *b, int64_t rank, const char *left, size_t left_n, const char *right,
                          size_t right_n)
{
    bool left_mapped, right_mapped = false;
    seqmix_bytes both = {0};
    bool ok = seqmix_builder_bytes(b, left, left_n, &left_mapped) &&
              (seqmix_bytes_add(&both, b->scratch.data, b->scratch.n) || seqmix_builder_no_memory(b));
    size_t cut = both.n;
    ok = ok && seqmix_builder_bytes(b, right, right_n, &right_mapped) &&
         (seqmix_bytes_add(&both, b->scratch.data, b->scratch.n) || seqmix_builder_no_memory(b));
    if (ok && left_mapped && right_mapped) {
        int32_t l = cut > 0 ? seqmix_bpe_find(b->t->bpe, both.data, cut) : -1;
        int32_t r = both.n > cut ? seqmix_bpe_find(b->t->bpe, both.data + cut, both.n - cut) : -1;
        int32_t whole = l >= 0 && r >= 0 ? seqmix_bpe_find(b->t->bpe, both.data, both.n) : -1;
        if (whole >= 0)
            seqmix_bpe_add_merge(b->t->bpe, l, r, (int32_t)rank, whole);
        else
            ok = seqmix_fail(b->why, "merge %lld ('%.*s' with '%.*s'): %s is not in the vocabulary", (long long)rank,
                             left_n < 32 ? (int)left_n : 32, left, right_n < 32 ? (int)right_n : 32, right,
                             l < 0   ? "the left half"
                             : r < 0 ? "the right half"
                                     : "the whole");
    }
    free(both.data);
    return ok;
}

bool seqmix_builder_added(seqmix_builder *b, const seqmix_added *options, const char *text, size_t n, bool special)
{
    seqmix_tokenizer *t = b->t;
    seqmix_added *a = &t->added[t->n_added];
    if (seqmix_utf8_check((const unsigned char *)text, n) < n)
        return seqmix_fail(b->why, "added token %ld is not UTF-8", (long)options->id);
    /* Its text is its content, whatever the alphabet would make of it. */
    if (!seqmix_builder_text(b, options->id, text, n)) return false;
    t->tokens[options->id].special = special;
    *a = *options;
    if (a->normalized) {
        if (!seqmix_tokenizer_normalize(t, (const unsigned char *)text, n, &a->text, &a->n, b->why)) return false;
    } else {
        a->text = malloc(n + 1);
        if (a->text == NULL) return seqmix_builder_no_memory(b);
        if (n > 0) memcpy(a->text, text, n);
        a->text[n] = '\0';
        a->n = n;
    }
    /* Nothing to look for. */
    if (a->n == 0)
        free(a->text);
    else
        t->n_added++;
    return true;
}

static int by_first_byte(const void *a, const void *b)
{
    const seqmix_added *x = a, *y = b;
    if (x->text[0] != y->text[0]) return x->text[0] < y->text[0] ? -1 : 1;
    if (x->n != y->n) return x->n > y->n ? -1 : 1;
    int order = memcmp(x->text, y->text, x->n);
    return order != 0 ? order : x->id < y->id ? -1 : x->id > y->id;
}

void seqmix_builder_sort_added(seqmix_builder *b)
{
    seqmix_tokenizer *t = b->t;
    if (t->n_added > 0) qsort(t->added, t->n_added, sizeof *t->added, by_first_byte);
    size_t at = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        t->first_added[byte] = at;
        while (at < t->n_added && t->added[at].text[0] == byte)
            at++;
    }
    t->first_added[256] = at;
}
