/* SPDX-License-Identifier: MIT */
/* --selftest: rung 0 passes, and every planted fault is caught by quick cases of the class that is there for it. */
#define _POSIX_C_SOURCE 200809L

#include <fnmatch.h>

#include "cpu.h"
#include "faults.h"
#include "report.h"

/* Runs the quick cases of one op, of one class or of all (CLASS_COUNT), until one fails; its id, else an empty string.
 * Returns how many ran. */
static int first_failure(const struct rung *rung, const struct check_op *op, enum check_class only, uint64_t seed,
                         char *id, size_t size, struct verdict *verdict)
{
    static const seqmix_dtype dtypes[3] = {SEQMIX_F32, SEQMIX_BF16, SEQMIX_F16};
    int n = 0;
    for (int d = 0; d < 3; d++)
        for (int name = 0; name < CLASS_COUNT; name++) {
            const bool taken = only == CLASS_COUNT || name == (int)only;
            const struct class_use *use = taken ? check_use(op, (enum check_class)name) : NULL;
            for (int64_t i = 0; use != NULL && i < use->variants[LEVEL_QUICK]; i++) {
                const int64_t variant = check_variant(use, LEVEL_QUICK, i);
                check_case(rung, op, dtypes[d], use, variant, seed, verdict);
                n++;
                check_id(id, size, op, dtypes[d], use->name, variant);
                if (!verdict->ok) return n;
            }
        }
    id[0] = '\0';
    return n;
}

static bool reference_passes(const struct check_options *options)
{
    struct rung rung;
    char why[256] = "", id[96];
    int cases = 0;
    bool ok = check_rung_open(&rung, &seqmix_kernels__ref, NULL, why, sizeof why);
    for (int i = 0; i < check_n_ops && ok; i++) {
        struct verdict verdict;
        if (check_ops[i].family == NULL) continue;
        cases += first_failure(&rung, &check_ops[i], CLASS_COUNT, options->seed, id, sizeof id, &verdict);
        ok = id[0] == '\0';
        if (!ok) snprintf(why, sizeof why, "%s: %.150s", id, verdict.why);
    }
    check_rung_close(&rung);
    printf("%-32s %s%s\n", "unmodified rung 0", ok ? "passes" : "FAILS ", ok ? "" : why);
    if (ok) printf("%-32s %d cases\n", "", cases);
    return ok;
}

static bool is_caught(const struct check_options *options, const struct fault *fault)
{
    struct seqmix_kernels faulty = seqmix_kernels__ref;
    struct rung rung;
    struct verdict verdict;
    char why[256] = "", id[96] = "";
    faulty.name = "faulty";
    fault->install(&faulty);
    if (check_rung_open(&rung, &faulty, NULL, why, sizeof why))
        (void)first_failure(&rung, check_find_op(fault->op), fault->by, options->seed, id, sizeof id, &verdict);
    check_rung_close(&rung);
    if (id[0] != '\0')
        printf("%-32s caught by %s\n%-32s   %s\n", fault->name, id, "", verdict.why);
    else
        printf("%-32s NOT CAUGHT by %s of %s %s\n", fault->name, check_class_name(fault->by), fault->op, why);
    return id[0] != '\0';
}

int check_selftest(const struct check_options *options)
{
    int planted = 0, caught = 0;
    const bool passes = reference_passes(options);
    for (int i = 0; i < check_n_faults; i++) {
        if (options->filter != NULL && fnmatch(options->filter, check_faults[i].name, 0) != 0) continue;
        planted++;
        caught += is_caught(options, &check_faults[i]);
    }
    printf("\n%d faults planted, %d caught\n", planted, caught);
    return !passes || caught != planted;
}
