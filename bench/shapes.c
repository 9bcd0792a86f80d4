/* SPDX-License-Identifier: MIT */
/* The parser of shape files; see shapes.h for the format. */
#define _POSIX_C_SOURCE 200809L

#include "shapes.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 256, PATH_BYTES = 4096, WORDS = 4 };

/* The keys with one number. Those of one family are neighbours and complete: all of them are given, or none. */
struct key {
    const char *name;
    size_t offset;
    int64_t least, most;
};

// clang-format off
#define SIZE_KEY(family, member) {#family "." #member, offsetof(struct seqmix_shape, family.member), 1, INT32_MAX}
#define FLAG_KEY(family, member) {#family "." #member, offsetof(struct seqmix_shape, family.member), 0, 1}

static const struct key keys[] = {
    SIZE_KEY(conv, D), SIZE_KEY(conv, K), FLAG_KEY(conv, bias),
    SIZE_KEY(scan, D), SIZE_KEY(scan, N), SIZE_KEY(scan, G),
    SIZE_KEY(ssd, H), SIZE_KEY(ssd, P), SIZE_KEY(ssd, G), SIZE_KEY(ssd, N),
    SIZE_KEY(deltanet, HK), SIZE_KEY(deltanet, HV), SIZE_KEY(deltanet, DK), SIZE_KEY(deltanet, DV),
    FLAG_KEY(deltanet, channels),
    SIZE_KEY(norm, D), SIZE_KEY(norm, group), FLAG_KEY(norm, gated), FLAG_KEY(norm, before_gate),
    SIZE_KEY(inverse, n), SIZE_KEY(inverse, heads),
};
// clang-format on

enum { N_KEYS = sizeof keys / sizeof keys[0] };

struct parser {
    const char *path;
    int line; /* 0 = the file as a whole */
    struct seqmix_shape *shape;
    char given[N_KEYS];
    char *why;
    size_t why_len;
};

__attribute__((format(printf, 2, 3))) static int fail(const struct parser *p, const char *format, ...)
{
    if (p->why == NULL || p->why_len == 0) return -1;
    int n = p->line > 0 ? snprintf(p->why, p->why_len, "%s:%d: ", p->path, p->line)
                        : snprintf(p->why, p->why_len, "%s: ", p->path);
    if (n < 0 || (size_t)n >= p->why_len) return -1;
    va_list args;
    va_start(args, format);
    vsnprintf(p->why + n, p->why_len - (size_t)n, format, args);
    va_end(args);
    return -1;
}

static int64_t *member(struct seqmix_shape *shape, size_t offset)
{
    return (int64_t *)(void *)((char *)shape + offset);
}

static int parse_number(const struct parser *p, const char *key, const char *word, int64_t least, int64_t most,
                        int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(word, &end, 10);
    if (end == word || *end != '\0' || errno != 0) return fail(p, "%s: '%s' is no whole number", key, word);
    if (value < least || value > most)
        return fail(p, "%s: %lld is outside %" PRId64 "..%" PRId64, key, value, least, most);
    *out = value;
    return 0;
}

static int parse_name(const struct parser *p, const char *key, const char *word, char out[SEQMIX_SHAPE_NAME])
{
    if (strlen(word) >= SEQMIX_SHAPE_NAME)
        return fail(p, "%s: the name '%s' is longer than %d bytes", key, word, SEQMIX_SHAPE_NAME - 1);
    memcpy(out, word, strlen(word) + 1);
    return 0;
}

static int parse_linear(struct parser *p, char *const words[WORDS], int n_words)
{
    struct seqmix_shape *shape = p->shape;
    if (n_words != 4) return fail(p, "linear needs a name and two sizes: linear NAME I O");
    if (shape->n_linear == SEQMIX_SHAPE_LINEARS) return fail(p, "more than %d linear lines", SEQMIX_SHAPE_LINEARS);
    struct seqmix_shape_linear *linear = &shape->linear[shape->n_linear];
    if (parse_name(p, "linear", words[1], linear->name) != 0) return -1;
    for (int i = 0; i < shape->n_linear; i++)
        if (strcmp(shape->linear[i].name, linear->name) == 0) return fail(p, "linear %s is given twice", linear->name);
    if (parse_number(p, "linear I", words[2], 1, INT32_MAX, &linear->I) != 0) return -1;
    if (parse_number(p, "linear O", words[3], 1, INT32_MAX, &linear->O) != 0) return -1;
    shape->n_linear++;
    return 0;
}

static int parse_words(struct parser *p, char *const words[WORDS], int n_words)
{
    const int is_model = strcmp(words[0], "model") == 0;
    if (is_model != (p->shape->name[0] == '\0'))
        return fail(p, is_model ? "model is given twice" : "the first key must be model, not %s", words[0]);
    if (strcmp(words[0], "linear") == 0) return parse_linear(p, words, n_words);
    if (n_words != 2) return fail(p, "%s needs one value", words[0]);
    if (is_model) return parse_name(p, "model", words[1], p->shape->name);
    for (int i = 0; i < N_KEYS; i++) {
        if (strcmp(words[0], keys[i].name) != 0) continue;
        if (p->given[i]) return fail(p, "%s is given twice", words[0]);
        p->given[i] = 1;
        return parse_number(p, words[0], words[1], keys[i].least, keys[i].most, member(p->shape, keys[i].offset));
    }
    return fail(p, "unknown key '%s'", words[0]);
}

static int parse_line(struct parser *p, char *line)
{
    line[strcspn(line, "#\r\n")] = '\0';
    char *words[WORDS] = {NULL};
    int n_words = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " \t", &rest); word != NULL; word = strtok_r(NULL, " \t", &rest)) {
        if (n_words == WORDS) return fail(p, "more than %d words", WORDS);
        words[n_words++] = word;
    }
    return n_words == 0 ? 0 : parse_words(p, words, n_words);
}

/* Two keys of one family: the same bytes up to the dot. */
static int same_family(const char *a, const char *b)
{
    const size_t n = strcspn(a, ".");
    return n == strcspn(b, ".") && memcmp(a, b, n) == 0;
}

static int check_divides(const struct parser *p, const char *small_name, int64_t small, const char *big_name,
                         int64_t big)
{
    if (small == 0 || big % small == 0) return 0;
    return fail(p, "%s %" PRId64 " does not divide %s %" PRId64, small_name, small, big_name, big);
}

/* What a row or a slot holds must leave room for 2^31 rows in 63 bits. */
static int check_product(const struct parser *p, const char *what, int64_t a, int64_t b, int64_t c)
{
    const double product = (double)a * (double)b * (double)c;
    if (product < 0x1p31) return 0;
    return fail(p, "%s is %.3g, more than 2^31 elements", what, product);
}

static int check_sizes(const struct parser *p)
{
    const struct seqmix_shape *s = p->shape;
    if (check_product(p, "conv.D*K", s->conv.D, s->conv.K, 1) != 0) return -1;
    if (check_product(p, "scan.D*N", s->scan.D, s->scan.N, 1) != 0) return -1;
    if (check_product(p, "ssd.H*P*N", s->ssd.H, s->ssd.P, s->ssd.N) != 0) return -1;
    if (check_product(p, "deltanet.HV*DK*DV", s->deltanet.HV, s->deltanet.DK, s->deltanet.DV) != 0) return -1;
    if (check_product(p, "inverse.heads*n*n", s->inverse.heads, s->inverse.n, s->inverse.n) != 0) return -1;
    for (int i = 0; i < s->n_linear; i++)
        if (check_product(p, "linear I*O", s->linear[i].I, s->linear[i].O, 1) != 0) return -1;
    return 0;
}

static int check_whole(struct parser *p)
{
    const struct seqmix_shape *s = p->shape;
    p->line = 0;
    if (s->name[0] == '\0') return fail(p, "no model line");
    for (int i = 1; i < N_KEYS; i++)
        if (same_family(keys[i - 1].name, keys[i].name) && p->given[i - 1] != p->given[i])
            return fail(p, "%s is missing beside %s", keys[p->given[i] ? i - 1 : i].name,
                        keys[p->given[i] ? i : i - 1].name);
    if (check_sizes(p) != 0) return -1;
    if (check_divides(p, "scan.G", s->scan.G, "scan.D", s->scan.D) != 0) return -1;
    if (check_divides(p, "ssd.G", s->ssd.G, "ssd.H", s->ssd.H) != 0) return -1;
    if (check_divides(p, "deltanet.HK", s->deltanet.HK, "deltanet.HV", s->deltanet.HV) != 0) return -1;
    return check_divides(p, "norm.group", s->norm.group, "norm.D", s->norm.D);
}

int seqmix_shape_load(const char *path, struct seqmix_shape *out, char *why, size_t why_len)
{
    struct parser p = {.path = path, .shape = out, .why = why, .why_len = why_len};
    memset(out, 0, sizeof *out);
    FILE *file = fopen(path, "r");
    if (file == NULL) return fail(&p, "%s", strerror(errno));
    int failed = 0;
    char line[LINE_BYTES];
    while (!failed && fgets(line, sizeof line, file) != NULL) {
        p.line++;
        const int cut = strchr(line, '\n') == NULL && !feof(file);
        failed = cut ? fail(&p, "the line is longer than %d bytes", LINE_BYTES - 2) : parse_line(&p, line);
    }
    if (!failed && ferror(file)) failed = fail(&p, "%s", strerror(errno));
    fclose(file);
    return failed ? -1 : check_whole(&p);
}

static int compare_shapes(const void *a, const void *b)
{
    return strcmp(((const struct seqmix_shape *)a)->name, ((const struct seqmix_shape *)b)->name);
}

int seqmix_shapes_load_dir(const char *dir, struct seqmix_shape *out, int max, char *why, size_t why_len)
{
    const struct parser p = {.path = dir, .why = why, .why_len = why_len};
    DIR *handle = opendir(dir);
    if (handle == NULL) return fail(&p, "%s", strerror(errno));
    int count = 0, failed = 0;
    for (struct dirent *entry = readdir(handle); entry != NULL && !failed; entry = readdir(handle)) {
        const size_t n = strlen(entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 4, ".txt") != 0) continue;
        char path[PATH_BYTES];
        const int length = snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof path)
            failed = fail(&p, "the path of %s is too long", entry->d_name);
        else if (count == max)
            failed = fail(&p, "more than %d shape files", max);
        else
            failed = seqmix_shape_load(path, &out[count++], why, why_len);
    }
    closedir(handle);
    if (failed) return -1;
    if (count == 0) return fail(&p, "no *.txt file");
    qsort(out, (size_t)count, sizeof out[0], compare_shapes);
    for (int i = 1; i < count; i++)
        if (strcmp(out[i - 1].name, out[i].name) == 0) return fail(&p, "two files name the model %s", out[i].name);
    return count;
}

int seqmix_shapes_find_dir(char *out, size_t out_len, char *why, size_t why_len)
{
    static const char *const places[] = {"shapes", "../share/seqmix/shapes", "../../shapes" /* tests/emu's programs */};
    char exe[PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(exe, '/');
    if (slash != NULL) *slash = '\0';
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof places[0]; i++) {
        const int n = snprintf(out, out_len, "%s/%s", exe, places[i]);
        struct stat info;
        if (n > 0 && (size_t)n < out_len && stat(out, &info) == 0 && S_ISDIR(info.st_mode)) return 0;
    }
    if (why != NULL && why_len > 0)
        snprintf(why, why_len, "no shape files in shapes, ../share/seqmix/shapes or ../../shapes beside the program");
    return -1;
}
