/* SPDX-License-Identifier: MIT */
/* From the command line to the tokens of one prompt or several: texts, files, lists of ids, talks; and the tokenizer. */
#ifndef SEQMIX_MODEL_PROMPT_H
#define SEQMIX_MODEL_PROMPT_H

#include "chat.h"
#include "model.h"
#include "options.h"
#include "tokenizer.h"

typedef struct seqmix_prompts {
    seqmix_ids *prompts;
    int32_t n;
    seqmix_chat_format format; /* with --chat */
} seqmix_prompts;

/* Of a directory or a GGUF file. With `optional`, one that is not there is none: true and NULL. */
bool seqmix_open_tokenizer(const char *path, bool optional, seqmix_tokenizer **t, seqmix_why why);
/* What the options ask for; every prompt has tokens. `family` chooses the chat format. */
bool seqmix_read_prompts(const seqmix_options *o, seqmix_tokenizer *t, const char *family, seqmix_prompts *out,
                         seqmix_why why);
void seqmix_free_prompts(seqmix_prompts *p);

#endif
