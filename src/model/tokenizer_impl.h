/* SPDX-License-Identifier: MIT */
/* What tokenizer.c (use) and tokenizer_load.c (reading the file) share. */
#ifndef SEQMIX_MODEL_TOKENIZER_IMPL_H
#define SEQMIX_MODEL_TOKENIZER_IMPL_H

#include "bpe.h"
#include "pretokenize.h"
#include "tokenizer.h"

#define SEQMIX_MAX_NORMALIZERS 8

typedef struct seqmix_token {
    size_t offset, n; /* in tokenizer.text */
    bool present, special;
} seqmix_token;

/* A token found in the text before everything else. */
typedef struct seqmix_added {
    unsigned char *text; /* normalised, if `normalized` */
    size_t n;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized;
} seqmix_added;

struct seqmix_tokenizer {
    seqmix_bpe *bpe;
    seqmix_pretokenizer *pretokenizer;
    seqmix_token *tokens; /* by id */
    int32_t n_tokens;
    seqmix_bytes text;
    seqmix_added *added; /* by first byte, then the longest first */
    size_t n_added;
    size_t first_added[257];                 /* added[first_added[b] .. first_added[b+1]) begin with byte b */
    int normalizers[SEQMIX_MAX_NORMALIZERS]; /* options for utf8proc_map */
    int n_normalizers;
    seqmix_ids before, after; /* the template's tokens */
};

/* `*out` is allocated and ends with a NUL. */
bool seqmix_tokenizer_normalize(const seqmix_tokenizer *t, const unsigned char *text, size_t n, unsigned char **out,
                                size_t *out_n, seqmix_why why);

#endif
