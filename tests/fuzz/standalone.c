/* SPDX-License-Identifier: MIT */
/*
 * A main for fuzz targets where libFuzzer is not at hand: replays the files of its arguments (and of directories), then
 * runs mutations of them. It takes libFuzzer's -runs=N, -seed=N and -max_len=N and ignores its other options. The input that
 * is being run is kept in crash-input.bin of the working directory, when -keep=1 is given.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

#define MAX_SEEDS 256

typedef struct input {
    uint8_t *data;
    size_t size;
} input;

static input seeds[MAX_SEEDS];
static size_t n_seeds;
static uint64_t state;
static size_t max_len = 4096;
static bool keep;

static uint64_t next(void)
{
    uint64_t x = state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static size_t below(size_t n)
{
    return n > 0 ? (size_t)(next() % n) : 0;
}

/* From a block of exactly its size, so that a read past the end is seen. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);
    seqmix_must(exact != NULL);
    if (size > 0) memcpy(exact, data, size);
    FILE *file = keep ? fopen("crash-input.bin", "wb") : NULL;
    if (file != NULL) {
        (void)fwrite(exact, 1, size, file);
        (void)fclose(file);
    }
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void add_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || n_seeds == MAX_SEEDS) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    uint8_t *data = malloc((size_t)1 << 20);
    seqmix_must(data != NULL);
    seeds[n_seeds++] = (input){data, fread(data, 1, (size_t)1 << 20, file)};
    (void)fclose(file);
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* In the order of names: the same seed, the same run. */
static void add_path(const char *path)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        add_file(path);
        return;
    }
    char *names[MAX_SEEDS];
    size_t n = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL && n < MAX_SEEDS; entry = readdir(dir))
        if (entry->d_name[0] != '.') names[n++] = strdup(entry->d_name);
    (void)closedir(dir);
    qsort(names, n, sizeof names[0], by_name);
    for (size_t i = 0; i < n; i++) {
        char file[1024];
        int length = snprintf(file, sizeof file, "%s/%s", path, names[i]);
        if (length > 0 && (size_t)length < sizeof file) add_file(file);
        free(names[i]);
    }
}

static const char *const words[] = {"0",
                                    "-1",
                                    "1e999",
                                    "9007199254740993",
                                    "18446744073709551615",
                                    "null",
                                    "true",
                                    "\"\"",
                                    "[]",
                                    "{}",
                                    "\\u0000",
                                    "\\ud800",
                                    "[[[[[[[[",
                                    "}}",
                                    "\"a\":",
                                    ",",
                                    "\xFF",
                                    "\xC3",
                                    "\n"};

/* Replaces `cut` bytes at `at` by n others. */
static void splice(input *in, size_t at, size_t cut, const void *with, size_t n)
{
    if (cut > in->size - at) cut = in->size - at;
    if (in->size - cut + n > max_len) return;
    memmove(in->data + at + n, in->data + at + cut, in->size - at - cut);
    if (n > 0) memcpy(in->data + at, with, n);
    in->size += n - cut;
}

static void mutate(input *in)
{
    size_t at = below(in->size + 1);
    uint8_t byte = (uint8_t)next(), part[64];
    const char *word = words[below(sizeof words / sizeof words[0])];
    const input *other = &seeds[below(n_seeds)];
    size_t from = below(other->size), n = below(sizeof part);
    if (n > other->size - from) n = other->size - from;
    switch (below(7)) {
    case 0:
        if (at < in->size) in->data[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        if (at < in->size) in->data[at] = byte;
        break;
    case 2:
        splice(in, at, 0, &byte, 1);
        break;
    case 3:
        splice(in, at, 1 + below(16), NULL, 0);
        break;
    case 4:
        splice(in, at, below(6), word, strlen(word));
        break;
    case 5:
        memcpy(part, other->data + from, n);
        splice(in, at, below(n + 1), part, n);
        break;
    default:
        in->size = at;
        break;
    }
}

int main(int argc, char **argv)
{
    unsigned long long runs = 0;
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "-runs=%llu", &runs) == 1) continue;
        if (sscanf(argv[i], "-max_len=%zu", &max_len) == 1) continue;
        if (strcmp(argv[i], "-keep=1") == 0) keep = true;
        unsigned long long seed;
        if (sscanf(argv[i], "-seed=%llu", &seed) == 1) state = seed;
        if (argv[i][0] != '-') add_path(argv[i]);
    }
    for (size_t i = 0; i < n_seeds; i++)
        run(seeds[i].data, seeds[i].size);
    input work = {malloc(max_len + 1), 0};
    seqmix_must(work.data != NULL);
    for (unsigned long long k = 0; k < runs && n_seeds > 0; k++) {
        const input *seed = &seeds[below(n_seeds)];
        work.size = seed->size < max_len ? seed->size : max_len;
        memcpy(work.data, seed->data, work.size);
        for (size_t n = 1 + below(8); n > 0; n--)
            mutate(&work);
        run(work.data, work.size);
    }
    (void)printf("%zu files, %llu mutations\n", n_seeds, runs);
    for (size_t i = 0; i < n_seeds; i++)
        free(seeds[i].data);
    free(work.data);
    return 0;
}
