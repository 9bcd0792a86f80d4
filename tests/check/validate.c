/* SPDX-License-Identifier: MIT */
/* The `validate` subcommand: command line, one judgement, exit status. */
#include "validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "validate_case.h"

enum { MOST_SETTINGS = 64 };

struct request {
    const char *path, *op;
    struct seqmix_val_setting settings[MOST_SETTINGS];
    int n_settings;
    double bound;
    int64_t rows;
    bool json, help;
    char text[4096]; /* the keys of --set, cut at their = */
    size_t text_used;
};

static void print_help(FILE *out, const char *op)
{
    const struct seqmix_val_op *wanted = op != NULL ? seqmix_val_find_op(op) : NULL;
    (void)fputs(
        "usage: seqmix-check validate FILE.safetensors [--op OP] [--set KEY=VALUE]... [--bound B] [--rows N] [--json]\n"
        "\n"
        "Judges another engine's dump of one op against the double-precision recurrence, and says what may be wrong "
        "with it.\n"
        "FILE holds the op's inputs and the engine's outputs, in F32, BF16, F16 or F64, under the names below; strings "
        "of its\n"
        "__metadata__ give `op` and the options. Exit status: 0 pass, 1 fail, 2 the file or the command line is not "
        "usable.\n"
        "\n"
        "  --op OP          the op, if the metadata does not say it\n"
        "  --set KEY=VALUE  an option, instead of the metadata's\n"
        "  --bound B        largest relative RMS error; default 2e-6 (f32), 1e-3 (f16), 4e-3 (bf16)\n"
        "  --rows N         try hypotheses on the first N rows; default: as many as keep it quick\n"
        "  --json           the report as one JSON object\n"
        "\n"
        "A leading batch axis in front of R is taken as that many sequences; R is all rows of all sequences.\n"
        "\n",
        out);
    seqmix_val_help(out, wanted);
}

/* "key=value" as a setting; the key is copied. */
static bool add_setting(struct request *r, const char *text)
{
    const char *equals = strchr(text, '=');
    const size_t length = equals != NULL ? (size_t)(equals - text) : 0;
    if (length == 0 || r->n_settings == MOST_SETTINGS || r->text_used + length + 1 > sizeof r->text) return false;
    char *key = r->text + r->text_used;
    memcpy(key, text, length);
    key[length] = '\0';
    r->text_used += length + 1;
    r->settings[r->n_settings++] = (struct seqmix_val_setting){key, equals + 1};
    return true;
}

static bool parse_number(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) && *out > 0;
}

/* Splits "--op=OP"; otherwise the value is the next argument. NULL: not this option. */
static const char *option_value(const char *name, int argc, char **argv, int *i, bool *missing)
{
    const size_t length = strlen(name);
    if (strncmp(argv[*i], name, length) != 0) return NULL;
    if (argv[*i][length] == '=') return argv[*i] + length + 1;
    if (argv[*i][length] != '\0') return NULL;
    if (*i + 1 < argc) return argv[++*i];
    *missing = true;
    return NULL;
}

static bool parse_argument(struct request *r, int argc, char **argv, int *i, FILE *err)
{
    bool missing = false;
    const char *value;
    const char *const argument = argv[*i];
    double number = 0;
    if (strcmp(argument, "--json") == 0) return r->json = true;
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) return r->help = true;
    if ((value = option_value("--op", argc, argv, i, &missing)) != NULL) return r->op = value, true;
    if ((value = option_value("--set", argc, argv, i, &missing)) != NULL) {
        if (add_setting(r, value)) return true;
        (void)fprintf(err, "validate: --set %.80s: must be KEY=VALUE, at most %d of them\n", value, MOST_SETTINGS);
        return false;
    }
    if ((value = option_value("--bound", argc, argv, i, &missing)) != NULL) {
        if (parse_number(value, &r->bound)) return true;
        (void)fprintf(err, "validate: --bound %.80s: must be a number above 0\n", value);
        return false;
    }
    if ((value = option_value("--rows", argc, argv, i, &missing)) != NULL) {
        if (parse_number(value, &number) && number < 2147483648.0 && number >= 1)
            return r->rows = (int64_t)number, true;
        (void)fprintf(err, "validate: --rows %.80s: must be a number of rows\n", value);
        return false;
    }
    if (missing) {
        (void)fprintf(err, "validate: %s needs a value\n", argument);
        return false;
    }
    if (argument[0] == '-' && argument[1] != '\0') {
        (void)fprintf(err, "validate: unknown option %.80s, see --help\n", argument);
        return false;
    }
    if (r->path != NULL) {
        (void)fprintf(err, "validate: one file at a time: %.80s\n", argument);
        return false;
    }
    r->path = argument;
    return true;
}

static int judge(const struct request *r, struct seqmix_val_dump *dump, FILE *out, char why[SEQMIX_VAL_TEXT])
{
    struct seqmix_val_result result;
    struct seqmix_val_verdict verdict;
    dump->base.dump = dump;
    if (!seqmix_val_check(&dump->base, why)) return SEQMIX_VALIDATE_BAD_INPUT;
    if (dump->late[0] != '\0') return (void)seqmix_val_refuse(why, "%s", dump->late), SEQMIX_VALIDATE_BAD_INPUT;
    if (!seqmix_val_evaluate(&dump->base, &result, why)) return SEQMIX_VALIDATE_BAD_INPUT;
    struct seqmix_val_findings *findings = calloc(1, sizeof *findings);
    bool ok = findings != NULL && seqmix_val_judge(dump, &dump->base, &result, r->bound, &verdict);
    if (ok && verdict.error[0].compared + verdict.error[1].compared == 0) {
        (void)seqmix_val_refuse(why, "nothing to compare: no element of an output belongs to a sequence");
        free(findings);
        return SEQMIX_VALIDATE_BAD_INPUT;
    }
    const bool pass = ok && verdict.pass && !dump->initial_by_shape && !dump->state_out.transposed;
    if (ok && !pass) ok = seqmix_val_find_causes(dump, &verdict, r->rows, r->bound, findings);
    if (ok && r->json) ok = seqmix_val_print_json(out, r->path, dump, &verdict, findings);
    if (ok && !r->json) seqmix_val_print(out, r->path, dump, &verdict, findings);
    free(findings);
    if (!ok) (void)seqmix_val_refuse(why, "no memory for the comparison");
    return !ok ? SEQMIX_VALIDATE_BAD_INPUT : pass ? SEQMIX_VALIDATE_PASS : SEQMIX_VALIDATE_FAIL;
}

int seqmix_validate_to(int argc, char **argv, FILE *out, FILE *err)
{
    struct request r = {0};
    for (int i = 1; i < argc; i++)
        if (!parse_argument(&r, argc, argv, &i, err)) return SEQMIX_VALIDATE_BAD_INPUT;
    if (r.help) {
        print_help(out, r.op);
        return SEQMIX_VALIDATE_PASS;
    }
    if (r.path == NULL) {
        (void)fprintf(err, "validate: no file given, see seqmix-check validate --help\n");
        return SEQMIX_VALIDATE_BAD_INPUT;
    }
    struct seqmix_val_dump *dump = malloc(sizeof *dump);
    char why[SEQMIX_VAL_TEXT] = "no memory";
    int status = SEQMIX_VALIDATE_BAD_INPUT;
    if (dump != NULL) {
        if (seqmix_val_load(r.path, r.op, r.settings, r.n_settings, dump, why)) status = judge(&r, dump, out, why);
        seqmix_val_dump_free(dump);
        free(dump);
    }
    if (status == SEQMIX_VALIDATE_BAD_INPUT) (void)fprintf(err, "validate: %s: %s\n", r.path, why);
    return status;
}

int seqmix_validate_main(int argc, char **argv)
{
    return seqmix_validate_to(argc, argv, stdout, stderr);
}
