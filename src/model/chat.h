/* SPDX-License-Identifier: MIT */
/*
 * Talks in the formats the families were trained on, built in (no template language): messages to prompt tokens, the tokens
 * that end an answer, and the answer with its thinking shown or hidden. What a message says is text: the words of special
 * tokens in it are spelled out, never obeyed.
 */
#ifndef SEQMIX_MODEL_CHAT_H
#define SEQMIX_MODEL_CHAT_H

#include "tokenizer.h"

typedef enum seqmix_chat_format {
    SEQMIX_CHAT_QWEN3_5,          /* ChatML; a thinking block, open or empty, begins the answer */
    SEQMIX_CHAT_QWEN3_NEXT,       /* ChatML; the Thinking model's open block, the Instruct model's none */
    SEQMIX_CHAT_NEMOTRON_NANO_V2, /* <SPECIAL_10>System, <SPECIAL_11>User and Assistant, <SPECIAL_12>; Nemotron-H too */
    SEQMIX_CHAT_NEMOTRON_3        /* ChatML with a system message always and "<think></think>" in past answers */
} seqmix_chat_format;

typedef enum seqmix_chat_role { SEQMIX_CHAT_SYSTEM, SEQMIX_CHAT_USER, SEQMIX_CHAT_ASSISTANT } seqmix_chat_role;

typedef struct seqmix_chat_message {
    seqmix_chat_role role;
    const char *text; /* UTF-8; of an assistant with its thinking or without */
    size_t n;
} seqmix_chat_message;

#define SEQMIX_CHAT_MAX_STOPS 4

/*
 * The format of a model: by the special tokens its tokenizer has, and by its family, the config's model_type or GGUF's
 * architecture ("qwen3_next", "qwen3next", "nemotron_h", "nemotron_h_moe", ...). False and a sentence where there is none.
 */
bool seqmix_chat_find(const seqmix_tokenizer *t, const char *family, seqmix_chat_format *format, seqmix_why why);
const char *seqmix_chat_name(seqmix_chat_format format);

/*
 * Appends the prompt: the tokenizer's first token if it has one, an optional system message, then user and assistant in turn, the user last; and what opens the
 * answer. `think`: whether the model shall think before it answers.
 */
bool seqmix_chat_prompt(seqmix_tokenizer *t, seqmix_chat_format format, const seqmix_chat_message *messages,
                        size_t n_messages, bool think, seqmix_ids *out, seqmix_why why);

/* Tokens that end an answer, besides those the model's own files name; how many. */
int32_t seqmix_chat_stops(const seqmix_tokenizer *t, seqmix_chat_format format, int32_t stops[SEQMIX_CHAT_MAX_STOPS]);

/* An answer on its way to the reader, token by token. Zero-initialised by _begin. */
typedef struct seqmix_chat_view {
    seqmix_utf8_stream stream;
    bool hide;             /* the thinking */
    bool thinking;         /* inside the block */
    bool blank;            /* a hidden block has just ended: its blank lines go too */
    unsigned char held[8]; /* the beginning of a tag, perhaps */
    size_t n_held;
} seqmix_chat_view;

/* `think` as given to _prompt: the block is open already (and is written to `out` if it is to be shown). */
bool seqmix_chat_view_begin(seqmix_chat_view *v, bool think, bool hide, seqmix_bytes *out);
/* Appends the visible text of one more token; other special tokens have none. */
bool seqmix_chat_view_push(seqmix_chat_view *v, const seqmix_tokenizer *t, int32_t id, seqmix_bytes *out);
/* Appends what was kept back. */
bool seqmix_chat_view_end(seqmix_chat_view *v, seqmix_bytes *out);

#endif
