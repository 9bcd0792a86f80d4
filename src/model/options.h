/* SPDX-License-Identifier: MIT */
/* The command line of seqmix-run. */
#ifndef SEQMIX_MODEL_OPTIONS_H
#define SEQMIX_MODEL_OPTIONS_H

#include "buffer.h"
#include "json.h"

typedef struct seqmix_options {
    const char *model_dir;
    bool help, tokenize;
    const char *prompt;      /* text, or NULL; with tokenize the text to cut */
    const char *prompt_file; /* "-" = standard input; or NULL */
    seqmix_ids tokens;       /* --tokens */
    bool tokens_given;
    int64_t n, prefill_rows, workers, top_k, seed;
    float temperature, top_p;
    int32_t level_cap; /* SEQMIX_LEVEL_CPU_*, 0 = best */
    bool json, verbose, stream, ignore_eos;
} seqmix_options;

extern const char seqmix_usage[];

bool seqmix_options_parse(int argc, char **argv, seqmix_options *options, seqmix_why why);
void seqmix_options_free(seqmix_options *options);

#endif
