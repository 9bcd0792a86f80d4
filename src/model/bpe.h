/* SPDX-License-Identifier: MIT */
/*
 * Byte-pair encoding on bytes: a vocabulary (bytes -> id), ranked merges ((id, id) -> id), and the merging of one word in
 * O(n log n), whatever its length.
 */
#ifndef SEQMIX_MODEL_BPE_H
#define SEQMIX_MODEL_BPE_H

#include "buffer.h"

typedef struct seqmix_bpe seqmix_bpe;

/* Room for this many tokens and merges, and no more. NULL without memory. */
seqmix_bpe *seqmix_bpe_create(size_t n_tokens, size_t n_merges);
void seqmix_bpe_free(seqmix_bpe *bpe);

/* False when the text is there already, or without memory (then *known is false). The text is copied. */
bool seqmix_bpe_add_token(seqmix_bpe *bpe, const unsigned char *text, size_t n, int32_t id, bool *known);
/* The id of a text, or -1. */
int32_t seqmix_bpe_find(const seqmix_bpe *bpe, const unsigned char *text, size_t n);
/* A later merge of the same pair replaces the earlier one. */
void seqmix_bpe_add_merge(seqmix_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t merged);
/* unknown: the id for bytes the vocabulary lacks, -1 to drop them; fuse: one id for a run of them;
   whole_words: a word that is a token needs no merges to become it. */
void seqmix_bpe_options(seqmix_bpe *bpe, int32_t unknown, bool fuse, bool whole_words);

/* Appends the ids of one word of n < 2^30 bytes. False only without memory. */
bool seqmix_bpe_encode(seqmix_bpe *bpe, const unsigned char *word, size_t n, seqmix_ids *out);

#endif
