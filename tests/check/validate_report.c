/* SPDX-License-Identifier: MIT */
/* What the judge says, as text or as JSON. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tensor.h"
#include "validate_case.h"

enum { SHOWN = 8 }; /* hypotheses that do not explain the dump */

static const char *verdict_word(bool pass)
{
    return pass ? "pass" : "FAIL";
}

/* "row 3 head 1", "slot 0 head 2", "row 3". */
static void place(char *text, size_t size, const struct seqmix_val_dump *dump, const struct seqmix_val_error *e,
                  int64_t row, int64_t head)
{
    const struct seqmix_val_family *family = dump->base.family;
    const bool is_state = strcmp(e->name, "state_out") == 0;
    const char *row_label = is_state ? "slot" : family->row_label;
    const char *head_label = family->head_label != NULL ? family->head_label : is_state ? "channel" : NULL;
    if (row < 0)
        (void)snprintf(text, size, "-");
    else if (head_label != NULL)
        (void)snprintf(text, size, "%s %" PRId64 " %s %" PRId64, row_label, row, head_label, head);
    else
        (void)snprintf(text, size, "%s %" PRId64, row_label, row);
}

static void print_sizes(FILE *out, const struct seqmix_val_dump *dump)
{
    (void)fprintf(out, "%s:", dump->base.op->name);
    for (const struct seqmix_val_field *field = dump->base.family->fields; field->name != NULL; field++) {
        const seqmix_tensor *t = (const seqmix_tensor *)(const void *)((const char *)&dump->base.args + field->offset);
        if (!seqmix_present(t)) continue;
        (void)fprintf(out, " %s[", field->name);
        for (int axis = 0; axis < t->rank; axis++)
            (void)fprintf(out, "%s%" PRId64, axis > 0 ? "," : "", t->shape[axis]);
        (void)fputc(']', out);
    }
    if (dump->base.family->batch_offset != 0) (void)fprintf(out, ", %" PRId32 " sequence(s)", dump->base.batch.n_seqs);
    (void)fprintf(out, ", rows in %s\n", seqmix_dtype_name(dump->x));
}

static void print_error(FILE *out, const struct seqmix_val_dump *dump, const struct seqmix_val_error *e)
{
    char at[80];
    place(at, sizeof at, dump, e, e->worst_row, e->worst_head);
    (void)fprintf(out, "%-9s  %-5s  %-9.3g  %-9.3g  %-26s  %-9.3g  %-8.2g  %" PRId64 "/%" PRId64 "  %s\n", e->name,
                  seqmix_dtype_name(e->dtype), e->rms, e->worst, at, e->max_abs, e->bound, e->nonfinite_got,
                  e->nonfinite_expected, verdict_word(e->pass));
}

static void print_failure(FILE *out, const struct seqmix_val_dump *dump, const struct seqmix_val_error *e)
{
    char at[80];
    if (e->name == NULL || e->pass) return;
    place(at, sizeof at, dump, e, e->bad_row, e->bad_head);
    if (e->bad_row >= 0)
        (void)fprintf(out, "%s: first bad vector: %s; %" PRId64 " of %" PRId64 " vectors are bad\n", e->name, at,
                      e->bad_vectors, e->rows * e->heads);
    else
        (void)fprintf(out, "%s: no single vector is over 4 bounds, all together are over one\n", e->name);
    place(at, sizeof at, dump, e, e->max_row, e->max_head);
    if (e->max_row >= 0)
        (void)fprintf(out, "%s: largest difference: %s element %" PRId64 ": %.9g, expected %.9g\n", e->name, at,
                      e->max_at, e->max_got, e->max_expected);
    if (e->nonfinite_differ > 0)
        (void)fprintf(out, "%s: %" PRId64 " element(s) finite in one and not in the other\n", e->name,
                      e->nonfinite_differ);
}

/* RMS errors of a finding: output / state. */
static void print_rms(FILE *out, const struct seqmix_val_verdict *verdict)
{
    for (int i = 0; i < 2; i++) {
        const struct seqmix_val_error *e = &verdict->error[i];
        if (e->name == NULL)
            (void)fprintf(out, "%-11s", "-");
        else if (e->nonfinite_differ > 0)
            (void)fprintf(out, "%-11s", "not finite");
        else
            (void)fprintf(out, "%-11.2e", e->rms);
    }
}

static void print_finding(FILE *out, const struct seqmix_val_finding *finding, bool explaining)
{
    (void)fprintf(out, "  %s ", explaining ? "*" : " ");
    print_rms(out, &finding->verdict);
    (void)fprintf(out, "%s", finding->cause[0]->sentence);
    if (finding->cause[1] != NULL) (void)fprintf(out, "; and %s", finding->cause[1]->sentence);
    (void)fputc('\n', out);
}

/* Whether a hypothesis takes away most of the error without explaining it. */
static bool is_partial(const struct seqmix_val_finding *finding, const struct seqmix_val_verdict *verdict)
{
    for (int i = 0; i < 2; i++)
        if (finding->verdict.error[i].name != NULL && !(finding->verdict.error[i].rms < 0.1)) return false;
    return finding->verdict.ratio * 10 < verdict->ratio;
}

static void print_conclusion(FILE *out, const struct seqmix_val_verdict *verdict, const struct seqmix_val_findings *f)
{
    for (int i = 0; i < f->n_explaining; i++) {
        const struct seqmix_val_finding *finding = &f->found[i];
        (void)fprintf(out, "explained by: %s%s%s\n", finding->cause[0]->sentence,
                      finding->cause[1] != NULL ? "; and " : "",
                      finding->cause[1] != NULL ? finding->cause[1]->sentence : "");
    }
    if (f->n_explaining > 0) return;
    (void)fprintf(out, "explained by none of %d hypotheses%s\n", f->n_tried,
                  f->n_pairs > 0 ? ", alone or in pairs" : "");
    if (f->n > 0 && is_partial(&f->found[0], verdict))
        (void)fprintf(out, "nearest: %s (%.1fx the bound, from %.3gx)\n", f->found[0].cause[0]->sentence,
                      f->found[0].verdict.ratio, verdict->ratio);
    else if (verdict->ratio < 30)
        (void)fprintf(out, "the error is %.1fx the bound: more likely lost precision than a wrong formula\n",
                      verdict->ratio);
}

void seqmix_val_print(FILE *out, const char *path, const struct seqmix_val_dump *dump,
                      const struct seqmix_val_verdict *verdict, const struct seqmix_val_findings *f)
{
    (void)fprintf(out, "%s\n", path);
    print_sizes(out, dump);
    for (int i = 0; i < dump->n_notes; i++)
        (void)fprintf(out, "note: %s\n", dump->notes[i]);
    (void)fprintf(out, "\n%-9s  %-5s  %-9s  %-9s  %-26s  %-9s  %-8s  %s\n", "output", "dtype", "rms err", "worst vec",
                  "at", "max abs", "bound", "non-finite got/expected");
    for (int i = 0; i < 2; i++)
        if (verdict->error[i].name != NULL) print_error(out, dump, &verdict->error[i]);
    const bool pass = verdict->pass && !dump->initial_by_shape && !dump->state_out.transposed;
    if (pass) {
        (void)fprintf(out, "\npass\n");
        return;
    }
    (void)fputc('\n', out);
    for (int i = 0; i < 2; i++)
        print_failure(out, dump, &verdict->error[i]);
    if (dump->initial_by_shape || dump->state_out.transposed)
        (void)fprintf(out, "the shape of the state is taken as %c%c; if the engine means it, --set state_order=%c%c\n",
                      dump->base.family->state_order[1], dump->base.family->state_order[0],
                      dump->base.family->state_order[1], dump->base.family->state_order[0]);
    (void)fprintf(out, "\nif it were so (%s%" PRId64 " rows), rms error of output and of state_out:\n",
                  f->rows < dump->base.rows ? "first " : "all ", f->rows);
    (void)fputs("    ", out);
    print_rms(out, verdict);
    (void)fputs("(as it is)\n", out);
    for (int i = 0; i < f->n && i < f->n_explaining + SHOWN; i++)
        print_finding(out, &f->found[i], i < f->n_explaining);
    (void)fputc('\n', out);
    print_conclusion(out, verdict, f);
    (void)fprintf(out, "FAIL\n");
}

/* ---------------------------------------------------------------- JSON */

/* JSON has no infinity: such a number becomes null. */
static void add_number(cJSON *object, const char *key, double value)
{
    if (isfinite(value))
        (void)cJSON_AddNumberToObject(object, key, value);
    else
        (void)cJSON_AddNullToObject(object, key);
}

static cJSON *error_json(const struct seqmix_val_error *e)
{
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(o, "output", e->name);
    (void)cJSON_AddStringToObject(o, "dtype", seqmix_dtype_name(e->dtype));
    (void)cJSON_AddBoolToObject(o, "pass", e->pass);
    add_number(o, "rms", e->rms);
    add_number(o, "worst", e->worst);
    add_number(o, "worst_row", (double)e->worst_row);
    add_number(o, "worst_head", (double)e->worst_head);
    add_number(o, "bound", e->bound);
    add_number(o, "max_abs", e->max_abs);
    add_number(o, "max_row", (double)e->max_row);
    add_number(o, "max_head", (double)e->max_head);
    add_number(o, "max_element", (double)e->max_at);
    add_number(o, "max_got", e->max_got);
    add_number(o, "max_expected", e->max_expected);
    add_number(o, "first_bad_row", (double)e->bad_row);
    add_number(o, "first_bad_head", (double)e->bad_head);
    add_number(o, "bad_vectors", (double)e->bad_vectors);
    add_number(o, "nonfinite_got", (double)e->nonfinite_got);
    add_number(o, "nonfinite_expected", (double)e->nonfinite_expected);
    add_number(o, "nonfinite_differ", (double)e->nonfinite_differ);
    return o;
}

static cJSON *finding_json(const struct seqmix_val_finding *finding, bool explaining)
{
    cJSON *o = cJSON_CreateObject(), *causes = cJSON_AddArrayToObject(o, "causes");
    char sentence[2 * SEQMIX_VAL_TEXT];
    for (int i = 0; i < 2 && finding->cause[i] != NULL; i++)
        (void)cJSON_AddItemToArray(causes, cJSON_CreateString(finding->cause[i]->name));
    (void)snprintf(sentence, sizeof sentence, "%s%s%s", finding->cause[0]->sentence,
                   finding->cause[1] != NULL ? "; and " : "",
                   finding->cause[1] != NULL ? finding->cause[1]->sentence : "");
    (void)cJSON_AddStringToObject(o, "sentence", sentence);
    (void)cJSON_AddBoolToObject(o, "explains", explaining);
    add_number(o, "error_over_bound", finding->verdict.ratio);
    for (int i = 0; i < 2; i++)
        if (finding->verdict.error[i].name != NULL)
            add_number(o, i == 0 ? "rms_output" : "rms_state_out",
                       finding->verdict.error[i].nonfinite_differ > 0 ? (double)INFINITY
                                                                      : finding->verdict.error[i].rms);
    return o;
}

bool seqmix_val_print_json(FILE *out, const char *path, const struct seqmix_val_dump *dump,
                           const struct seqmix_val_verdict *verdict, const struct seqmix_val_findings *f)
{
    const bool pass = verdict->pass && !dump->initial_by_shape && !dump->state_out.transposed;
    cJSON *root = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(root, "file", path);
    (void)cJSON_AddStringToObject(root, "op", dump->base.op->name);
    (void)cJSON_AddStringToObject(root, "dtype", seqmix_dtype_name(dump->x));
    add_number(root, "rows", (double)dump->base.rows);
    if (dump->base.family->batch_offset != 0) add_number(root, "sequences", (double)dump->base.batch.n_seqs);
    (void)cJSON_AddBoolToObject(root, "pass", pass);
    cJSON *notes = cJSON_AddArrayToObject(root, "notes"), *outputs = cJSON_AddArrayToObject(root, "outputs");
    for (int i = 0; i < dump->n_notes; i++)
        (void)cJSON_AddItemToArray(notes, cJSON_CreateString(dump->notes[i]));
    for (int i = 0; i < 2; i++)
        if (verdict->error[i].name != NULL) (void)cJSON_AddItemToArray(outputs, error_json(&verdict->error[i]));
    if (!pass) {
        add_number(root, "hypotheses_tried", f->n_tried);
        add_number(root, "pairs_tried", f->n_pairs);
        add_number(root, "hypotheses_rows", (double)f->rows);
        cJSON *hypotheses = cJSON_AddArrayToObject(root, "hypotheses");
        for (int i = 0; i < f->n; i++)
            (void)cJSON_AddItemToArray(hypotheses, finding_json(&f->found[i], i < f->n_explaining));
    }
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (text == NULL) return false;
    (void)fprintf(out, "%s\n", text);
    cJSON_free(text);
    return true;
}
