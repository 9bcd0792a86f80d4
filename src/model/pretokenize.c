/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers (see pretokenize.h). The text and its pieces are carried from step to step; only the blank-adding step
 * makes a new text.
 */
#include "pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define MAX_STEPS   32
#define MAX_PATTERN 65536
/* Backtracking allowed to one match; real patterns need some hundreds. */
#define MATCH_LIMIT 1000000u

const char seqmix_gpt2_pattern[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef struct step {
    pcre2_code *code; /* NULL: put a blank in front */
    seqmix_split behaviour;
    bool invert;
} step;

struct seqmix_pretokenizer {
    step steps[MAX_STEPS];
    int n_steps;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    seqmix_bytes text[2];
    seqmix_ranges pieces[2];
};

seqmix_pretokenizer *seqmix_pretokenizer_create(void)
{
    seqmix_pretokenizer *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->match = pcre2_match_data_create(1, NULL);
    p->limits = pcre2_match_context_create(NULL);
    if (p->match == NULL || p->limits == NULL) {
        seqmix_pretokenizer_free(p);
        return NULL;
    }
    (void)pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    return p;
}

void seqmix_pretokenizer_free(seqmix_pretokenizer *p)
{
    if (p == NULL) return;
    for (int i = 0; i < p->n_steps; i++)
        pcre2_code_free(p->steps[i].code);
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->limits);
    for (int i = 0; i < 2; i++) {
        free(p->text[i].data);
        free(p->pieces[i].data);
    }
    free(p);
}

static bool add_step(seqmix_pretokenizer *p, step s, seqmix_why why)
{
    if (p->n_steps == MAX_STEPS) {
        pcre2_code_free(s.code);
        return seqmix_fail(why, "pre_tokenizer has more than %d steps", MAX_STEPS);
    }
    p->steps[p->n_steps++] = s;
    return true;
}

bool seqmix_pretokenizer_add_split(seqmix_pretokenizer *p, const char *pattern, bool literal, seqmix_split behaviour,
                                   bool invert, seqmix_why why)
{
    size_t n = strlen(pattern);
    if (n > MAX_PATTERN) return seqmix_fail(why, "pre_tokenizer: pattern of %zu bytes (limit %d)", n, MAX_PATTERN);
    if (seqmix_gpt2_pattern != pattern && !literal && strstr(pattern, "&&[") != NULL)
        return seqmix_fail(why, "pre_tokenizer: set intersection '&&[' in a pattern is not supported");
    /* The files' dialect is Oniguruma's: ^ and $ match at line ends. */
    uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
    int code;
    PCRE2_SIZE at;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, n, options, &code, &at, NULL);
    if (compiled == NULL) {
        unsigned char message[128] = "";
        (void)pcre2_get_error_message(code, message, sizeof message);
        return seqmix_fail(why, "pre_tokenizer: pattern '%.80s' at byte %zu: %s", pattern, (size_t)at,
                           (const char *)message);
    }
    /* Where it cannot be compiled to machine code it is interpreted. */
    (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    return add_step(p, (step){compiled, behaviour, invert}, why);
}

bool seqmix_pretokenizer_add_prefix_space(seqmix_pretokenizer *p, seqmix_why why)
{
    return add_step(p, (step){0}, why);
}

/* The pieces one cut makes of one piece; matches and the text between them arrive in order. */
typedef struct cutter {
    const step *step;
    seqmix_ranges *out;
    size_t first; /* of `out`, for this piece */
    bool last_matched;
} cutter;

static bool cut_add(cutter *c, size_t begin, size_t end, bool matched)
{
    if (c->step->invert) matched = !matched;
    bool any = c->out->n > c->first, join = false;
    switch (c->step->behaviour) {
    case SEQMIX_SPLIT_ISOLATED:
        break;
    case SEQMIX_SPLIT_REMOVED:
        if (matched) return true;
        break;
    case SEQMIX_SPLIT_CONTIGUOUS:
        join = any && matched == c->last_matched;
        break;
    case SEQMIX_SPLIT_WITH_PREVIOUS:
        join = any && matched && !c->last_matched;
        break;
    case SEQMIX_SPLIT_WITH_NEXT:
        join = any && !matched && c->last_matched;
        break;
    }
    c->last_matched = matched;
    if (!join) return seqmix_ranges_add(c->out, begin, end);
    c->out->data[c->out->n - 1].end = end;
    return true;
}

static void drop_empty(seqmix_ranges *pieces, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < pieces->n; i++)
        if (pieces->data[i].end > pieces->data[i].begin) pieces->data[kept++] = pieces->data[i];
    pieces->n = kept;
}

static size_t next_character(const unsigned char *text, size_t at, size_t n)
{
    do
        at++;
    while (at < n && (text[at] & 0xC0) == 0x80);
    return at;
}

/* A piece is matched as a text of its own: neither ^ nor look-behind sees its neighbours. */
static bool cut_piece(seqmix_pretokenizer *p, const step *s, const unsigned char *text, seqmix_range piece,
                      seqmix_ranges *out, seqmix_why why)
{
    const unsigned char *subject = text + piece.begin;
    size_t n = piece.end - piece.begin, from = 0, done = 0;
    cutter c = {s, out, out->n, false};
    while (from <= n) {
        /* Match starts always at a character; the text was checked as a whole. */
        int rc = pcre2_match(s->code, subject, n, from, PCRE2_NO_UTF_CHECK, p->match, p->limits);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
            rc = pcre2_match(s->code, subject, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, p->match, p->limits);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0) {
            unsigned char message[128] = "";
            (void)pcre2_get_error_message(rc, message, sizeof message);
            return seqmix_fail(why, "pre_tokenizer: %s", (const char *)message);
        }
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(p->match);
        size_t begin = found[0], end = found[1];
        /* \K can move the beginning anywhere; no real pattern does. */
        if (begin > end || begin < done)
            return seqmix_fail(why, "pre_tokenizer: a match begins before the previous one ended");
        if (end > begin || begin > done) {
            if (begin > done && !cut_add(&c, piece.begin + done, piece.begin + begin, false)) goto cleanup;
            if (!cut_add(&c, piece.begin + begin, piece.begin + end, true)) goto cleanup;
            done = end;
        }
        from = end > begin ? end : next_character(subject, end, n);
    }
    if (done < n && !cut_add(&c, piece.begin + done, piece.end, false)) goto cleanup;
    drop_empty(out, c.first);
    return true;
cleanup:
    return seqmix_fail(why, "no memory for the words of the text");
}

/* Copies the text with a blank before every piece that does not begin with one. */
static bool add_spaces(const unsigned char *text, const seqmix_ranges *in, seqmix_bytes *to, seqmix_ranges *out)
{
    for (size_t i = 0; i < in->n; i++) {
        seqmix_range piece = in->data[i];
        size_t begin = to->n;
        if (text[piece.begin] != ' ' && !seqmix_bytes_add(to, " ", 1)) return false;
        if (!seqmix_bytes_add(to, text + piece.begin, piece.end - piece.begin)) return false;
        if (!seqmix_ranges_add(out, begin, to->n)) return false;
    }
    return true;
}

bool seqmix_pretokenizer_run(seqmix_pretokenizer *p, const unsigned char *text, size_t n,
                             const unsigned char **words_text, const seqmix_ranges **words, seqmix_why why)
{
    int now = 0; /* which of pieces[] holds the input of the step */
    int spare = 0;
    p->pieces[0].n = 0;
    if (n > 0 && !seqmix_ranges_add(&p->pieces[0], 0, n)) return seqmix_fail(why, "no memory");
    for (int i = 0; i < p->n_steps; i++) {
        const seqmix_ranges *in = &p->pieces[now];
        seqmix_ranges *out = &p->pieces[1 - now];
        out->n = 0;
        if (p->steps[i].code == NULL) {
            seqmix_bytes *to = &p->text[spare];
            spare = 1 - spare;
            to->n = 0;
            if (!add_spaces(text, in, to, out)) return seqmix_fail(why, "no memory for the words of the text");
            text = to->data;
        } else {
            for (size_t k = 0; k < in->n; k++)
                if (!cut_piece(p, &p->steps[i], text, in->data[k], out, why)) return false;
        }
        now = 1 - now;
    }
    *words_text = text;
    *words = &p->pieces[now];
    return true;
}
