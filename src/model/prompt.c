/* SPDX-License-Identifier: MIT */
/* Prompts of a command line (see prompt.h). */
#define _POSIX_C_SOURCE 200809L

#include "prompt.h"

#include "file.h"
#include "gguf.h"

/* ---- tokenizer ---- */

static bool open_gguf_tokenizer(const char *path, bool optional, seqmix_tokenizer **t, seqmix_why why)
{
    seqmix_gguf g;
    seqmix_gguf_text kind;
    if (!seqmix_gguf_open(path, &g, why)) return false;
    bool there = seqmix_gguf_string(&g, "tokenizer.ggml.model", &kind, (seqmix_why){NULL, 0}) &&
                 !seqmix_gguf_text_is(kind, "no_vocab");
    bool ok = true;
    if (there || !optional) {
        *t = seqmix_tokenizer_from_gguf(&g, path, why);
        ok = *t != NULL;
    }
    seqmix_gguf_close(&g);
    return ok;
}

bool seqmix_open_tokenizer(const char *path, bool optional, seqmix_tokenizer **t, seqmix_why why)
{
    size_t n = strlen(path);
    char file[4096];
    *t = NULL;
    if (n > 5 && strcmp(path + n - 5, ".gguf") == 0) return open_gguf_tokenizer(path, optional, t, why);
    int k = snprintf(file, sizeof file, "%s/tokenizer.json", path);
    if (optional && k > 0 && (size_t)k < sizeof file && !seqmix_file_exists(file)) return true;
    *t = seqmix_tokenizer_open(path, why);
    return *t != NULL;
}

/* ---- prompts ---- */

static bool read_stream(FILE *file, seqmix_bytes *out)
{
    char chunk[4096];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, file)) > 0)
        if (!seqmix_bytes_add(out, chunk, n)) return false;
    return ferror(file) == 0;
}

static bool read_all(const char *path, seqmix_bytes *out, seqmix_why why)
{
    seqmix_file file;
    if (strcmp(path, "-") == 0) return read_stream(stdin, out) || seqmix_fail(why, "cannot read standard input");
    if (!seqmix_file_map(path, &file, why)) return false;
    bool ok = seqmix_bytes_add(out, file.size > 0 ? (const void *)file.bytes : "", file.size);
    seqmix_file_unmap(&file);
    return ok || seqmix_fail(why, "no memory for %s", path);
}

static seqmix_ids *next_prompt(seqmix_prompts *p, seqmix_why why)
{
    seqmix_ids *grown = realloc(p->prompts, ((size_t)p->n + 1) * sizeof *grown);
    if (grown == NULL) {
        (void)seqmix_fail(why, "no memory for the prompts");
        return NULL;
    }
    p->prompts = grown;
    grown[p->n] = (seqmix_ids){0};
    return &grown[p->n++];
}

static bool add_text(const seqmix_options *o, seqmix_tokenizer *t, const char *text, size_t n, seqmix_prompts *p,
                     seqmix_why why)
{
    seqmix_ids *ids = next_prompt(p, why);
    if (ids == NULL) return false;
    const char *system = o->system != NULL ? o->system : "";
    const seqmix_chat_message talk[2] = {{SEQMIX_CHAT_SYSTEM, system, strlen(system)}, {SEQMIX_CHAT_USER, text, n}};
    size_t skip = o->system != NULL ? 0 : 1;
    bool ok = o->chat ? seqmix_chat_prompt(t, p->format, talk + skip, 2 - skip, o->think, ids, why)
                      : seqmix_tokenizer_encode(t, text, n, true, ids, why);
    return ok && (ids->n > 0 || seqmix_fail(why, "the prompt has no tokens"));
}

/* One prompt a line; empty lines are none. */
static bool add_lines(const seqmix_options *o, seqmix_tokenizer *t, const seqmix_bytes *text, seqmix_prompts *p,
                      seqmix_why why)
{
    bool ok = true;
    for (size_t at = 0; ok && at < text->n;) {
        const unsigned char *end = memchr(text->data + at, '\n', text->n - at);
        size_t n = end != NULL ? (size_t)(end - text->data) - at : text->n - at;
        size_t kept = n > 0 && text->data[at + n - 1] == '\r' ? n - 1 : n;
        if (kept > 0) ok = add_text(o, t, (const char *)text->data + at, kept, p, why);
        at += n + 1;
    }
    return ok && (p->n > 0 || seqmix_fail(why, "%s: no prompts", o->batch_file));
}

bool seqmix_read_prompts(const seqmix_options *o, seqmix_tokenizer *t, const char *family, seqmix_prompts *p,
                         seqmix_why why)
{
    const char *path = o->batch_file != NULL ? o->batch_file : o->prompt_file;
    seqmix_bytes text = {0};
    bool ok = true;
    *p = (seqmix_prompts){0};
    if (o->chat) ok = seqmix_chat_find(t, family, &p->format, why);
    if (ok && o->tokens_given) {
        seqmix_ids *ids = next_prompt(p, why);
        ok = ids != NULL;
        for (size_t i = 0; ok && i < o->tokens.n; i++)
            ok = seqmix_ids_add(ids, o->tokens.data[i]) || seqmix_fail(why, "no memory for the prompt");
    } else if (ok && path == NULL) {
        ok = add_text(o, t, o->prompt, strlen(o->prompt), p, why);
    } else if (ok) {
        ok = read_all(path, &text, why);
        if (ok)
            ok = o->batch_file != NULL ? add_lines(o, t, &text, p, why)
                                       : add_text(o, t, text.n > 0 ? (const char *)text.data : "", text.n, p, why);
    }
    free(text.data);
    return ok;
}

void seqmix_free_prompts(seqmix_prompts *p)
{
    for (int32_t i = 0; i < p->n; i++)
        free(p->prompts[i].data);
    free(p->prompts);
    *p = (seqmix_prompts){0};
}
