/* SPDX-License-Identifier: MIT */
/* seqmix-check: judges every kernel of this build, or another engine's dump, against the recurrence in double precision. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "validate.h"

static const char usage[] =
    "usage: seqmix-check [--quick | --full] [--rung NAME] [--filter GLOB] [--seed N] [--json] [--list]\n"
    "       seqmix-check --case ID [--rung NAME] [--seed N]     one case again, by the id of a failure line\n"
    "       seqmix-check --coverage [--shapes DIR] [--json]     which kernel each model shape really runs\n"
    "       seqmix-check --selftest [--filter GLOB]             planted faults, each of which must be caught\n"
    "       seqmix-check validate FILE.safetensors --op OP ...  another engine's outputs (validate --help)\n"
    "\n"
    "  --rung NAME    cpu-ref, another built rung, chunk-plain (the second reference) or all (default)\n"
    "  --backend B    cpu (default), cuda, or cuda-emu: the CUDA kernels in the emulator of a build tree\n"
    "  --filter GLOB  only cases whose id op:dtype:class:variant matches, e.g. 'ssd_*:f32:*'\n"
    "  --replay       on a device: every call recorded on other contents, then replayed on its own\n"
    "  --broken       on a device: slots, row bounds and checkpoints out of range, which are clamped\n"
    "  --fast         contexts with SEQMIX_CTX_FAST, its forms wherever they can be taken; bits are not compared\n"
    "  --quick        a few cases of every class; --full all of them\n"
    "Exit status: 0 all passed, 1 something failed, 2 a wrong command line.\n";

enum mode { MODE_WALK, MODE_COVERAGE, MODE_SELFTEST };

/* The value of an option that needs one. */
static const char *value_of(int argc, char **argv, int *i)
{
    if (*i + 1 < argc) return argv[++*i];
    fprintf(stderr, "seqmix-check: %s needs a value\n", argv[*i]);
    exit(2);
}

/* The emulator's library is a CUDA backend like another: a name of its own says what is meant. */
static int32_t parse_backend(const char *text)
{
    if (strcmp(text, "cpu") == 0) return SEQMIX_BACKEND_CPU;
    if (strcmp(text, "cuda") == 0 || strcmp(text, "cuda-emu") == 0) return SEQMIX_BACKEND_CUDA;
    fprintf(stderr, "seqmix-check: --backend %s is none of cpu, cuda, cuda-emu\n", text);
    exit(2);
}

/* --backend cuda-emu: in a build tree the program with the emulated device lies below this one. Comes back only on failure. */
static int run_emulated(char **argv)
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        snprintf(slash + 1, 64, "tests/emu/seqmix-check-cuda-plain");
        execv(path, argv);
    }
    fprintf(stderr,
            "seqmix-check: --backend cuda-emu needs a build tree configured with SEQMIX_TESTS and SEQMIX_TOOLS; there "
            "is no %s\n",
            path);
    return 2;
}

static uint64_t parse_seed(const char *text)
{
    char *end;
    const uint64_t seed = strtoull(text, &end, 10);
    if (*text != '\0' && *end == '\0') return seed;
    fprintf(stderr, "seqmix-check: --seed %s is no number\n", text);
    exit(2);
}

int main(int argc, char **argv)
{
    struct check_options options = {.level = LEVEL_DEFAULT, .seed = 1};
    enum mode mode = MODE_WALK;
    if (argc > 1 && strcmp(argv[1], "validate") == 0) return seqmix_validate_main(argc - 1, argv + 1);
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "--quick") == 0) {
            options.level = LEVEL_QUICK;
        } else if (strcmp(arg, "--full") == 0) {
            options.level = LEVEL_FULL;
        } else if (strcmp(arg, "--json") == 0) {
            options.json = true;
        } else if (strcmp(arg, "--list") == 0) {
            options.list = true;
        } else if (strcmp(arg, "--coverage") == 0) {
            mode = MODE_COVERAGE;
        } else if (strcmp(arg, "--selftest") == 0) {
            mode = MODE_SELFTEST;
        } else if (strcmp(arg, "--backend") == 0) {
            options.backend_name = value_of(argc, argv, &i);
            options.backend = parse_backend(options.backend_name);
        } else if (strcmp(arg, "--replay") == 0) {
            check_ways.replay = true;
        } else if (strcmp(arg, "--broken") == 0) {
            check_ways.broken = true;
        } else if (strcmp(arg, "--fast") == 0) {
            check_ways.fast = true;
        } else if (strcmp(arg, "--rung") == 0) {
            options.rung = value_of(argc, argv, &i);
        } else if (strcmp(arg, "--filter") == 0) {
            options.filter = value_of(argc, argv, &i);
        } else if (strcmp(arg, "--case") == 0) {
            options.id = value_of(argc, argv, &i);
        } else if (strcmp(arg, "--shapes") == 0) {
            options.shapes = value_of(argc, argv, &i);
        } else if (strcmp(arg, "--seed") == 0) {
            options.seed = parse_seed(value_of(argc, argv, &i));
        } else {
            const bool help = strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
            if (!help) fprintf(stderr, "seqmix-check: what is %s?\n", arg);
            fputs(usage, help ? stdout : stderr);
            return help ? 0 : 2;
        }
    }
    const bool emulated = check_recorder != NULL; /* only such a program has it */
    if (options.backend_name != NULL && strcmp(options.backend_name, "cuda-emu") == 0 && !emulated)
        return run_emulated(argv);
    if (check_ways.replay && check_recorder == NULL) {
        fprintf(stderr, "seqmix-check: --replay: this build has nothing that records\n");
        return 2;
    }
    check_ops_init();
    switch (mode) {
    case MODE_COVERAGE:
        return check_coverage(&options);
    case MODE_SELFTEST:
        return check_selftest(&options);
    default:
        return check_walk(&options);
    }
}
