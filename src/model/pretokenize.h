/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers: the steps that cut a text into words before byte-pair encoding. A step is a cut at the matches of a
 * regular expression (PCRE2, Unicode properties on), or a blank put in front of every piece that has none.
 */
#ifndef SEQMIX_MODEL_PRETOKENIZE_H
#define SEQMIX_MODEL_PRETOKENIZE_H

#include "buffer.h"
#include "json.h"

/* What becomes of the matches between the other text. */
typedef enum seqmix_split {
    SEQMIX_SPLIT_ISOLATED,
    SEQMIX_SPLIT_REMOVED,
    SEQMIX_SPLIT_CONTIGUOUS,
    SEQMIX_SPLIT_WITH_PREVIOUS,
    SEQMIX_SPLIT_WITH_NEXT
} seqmix_split;

/* The cut of GPT-2, which ByteLevel makes itself unless told not to. */
extern const char seqmix_gpt2_pattern[];

typedef struct seqmix_pretokenizer seqmix_pretokenizer;

seqmix_pretokenizer *seqmix_pretokenizer_create(void);
void seqmix_pretokenizer_free(seqmix_pretokenizer *p);

bool seqmix_pretokenizer_add_split(seqmix_pretokenizer *p, const char *pattern, bool literal, seqmix_split behaviour,
                                   bool invert, seqmix_why why);
bool seqmix_pretokenizer_add_prefix_space(seqmix_pretokenizer *p, seqmix_why why);

/*
 * Cuts well-formed UTF-8. The words are ranges of *words_text, which belongs to `p` as the ranges do, until the next call.
 */
bool seqmix_pretokenizer_run(seqmix_pretokenizer *p, const unsigned char *text, size_t n,
                             const unsigned char **words_text, const seqmix_ranges **words, seqmix_why why);

#endif
