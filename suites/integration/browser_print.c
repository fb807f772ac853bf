/* A page on paper: a PDF by the browser; its pages are counted here, its text and picture read by poppler's tools. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/program.h"
#include "suites/integration/browser.h"
#include <check.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* /MediaBox stands in each page's object, which the browser does not compress. In points: A4 is 595.28 x 841.89. */
static void count_pages(const char *pdf, size_t size_bytes, struct kg_printed *printed) {
    static const char BOX[] = "/MediaBox [";
    for (const char *at = pdf; (at = memmem(at, size_bytes - (size_t)(at - pdf), BOX, strlen(BOX)));) {
        double left, bottom, right, top;
        char text[64];
        at += strlen(BOX);
        snprintf(text, sizeof text, "%.*s", (int)strcspn(at, "]") < 63 ? (int)strcspn(at, "]") : 63, at);
        ck_assert_msg(sscanf(text, "%lf %lf %lf %lf", &left, &bottom, &right, &top) == 4, "/MediaBox [%s]", text);
        printed->n_pages++;
        printed->n_a4 += fabs(right - left - 595.28) < 1 && fabs(top - bottom - 841.89) < 1;
    }
}

/* What the tool prints; false where there is none. */
static bool tool(const char *const *argv, struct kg_program_result *result) {
    const struct kg_program program = { .argv = argv, .max_out_bytes = 64 << 20 };
    struct kg_error err;
    if (kg_program_run(&program, result, &err) != KG_OK) return kg_program_result_free(result), false;
    ck_assert_msg(result->exit_code == 0, "%s: %.400s", argv[0], kg_buffer_text(&result->errors));
    return true;
}

static void read_text(const char *path, struct kg_printed *printed) {
    const char *const argv[] = { "pdftotext", "-raw", "-enc", "UTF-8", path, "-", NULL };
    struct kg_program_result result;
    if (!tool(argv, &result)) return;
    const char *text = kg_buffer_text(&result.out);
    size_t n = 0;
    printed->text = kg_xmalloc(strlen(text) + 1);
    for (; *text; text++)
        if (!isspace((unsigned char)*text)) printed->text[n++] = *text;
    printed->text[n] = '\0';
    kg_program_result_free(&result);
}

/* A grey map (PGM): "P5 <width> <height> 255" and a byte a pixel. */
static void read_lightness(const char *path, struct kg_printed *printed) {
    const char *const argv[] = { "pdftoppm", "-gray", "-r", "30", "-f", "1", "-l", "1", path, NULL };
    struct kg_program_result result;
    int width, height, header;
    if (!tool(argv, &result)) return;
    const char *data = kg_buffer_text(&result.out);
    ck_assert_int_eq(sscanf(data, "P5 %d %d 255%n", &width, &height, &header), 2);
    const size_t n = (size_t)width * (size_t)height;
    ck_assert_uint_eq(result.out.len, (size_t)header + 1 + n);
    printed->lightness = 0;
    for (size_t i = 0; i < n; i++)
        printed->lightness += (unsigned char)data[(size_t)header + 1 + i] / 255.0 / (double)n;
    kg_program_result_free(&result);
}

bool kg_browser_print(struct kg_record *rec, const char *html, struct kg_printed *printed) {
    char *url = kg_browser_file(rec, "print.html", html), *path = kg_path_join(kg_scratch_dir(rec), "page.pdf");
    char *to = kg_xasprintf("--print-to-pdf=%s", path), *pdf;
    const char *const args[] = { "--blink-settings=preferredColorScheme=0", "--no-pdf-header-footer", to, url, NULL };
    struct kg_process_result result;
    size_t size_bytes;
    struct kg_error err;
    *printed = (struct kg_printed){ .lightness = NAN };
    const bool came_out = kg_browser_run(rec, args, &result);
    if (came_out) {
        ck_assert_msg(kg_file_read(path, &pdf, &size_bytes, &err) == KG_OK, "%s", err.message);
        count_pages(pdf, size_bytes, printed);
        read_text(path, printed);
        read_lightness(path, printed);
        free(pdf);
        kg_process_result_free(&result);
    }
    free(to);
    free(path);
    free(url);
    return came_out;
}
