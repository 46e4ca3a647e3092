/*
 * What the bench programs share: commands come as one line of words on standard input, the answer
 * is one line of JSON on standard output.
 */
#ifndef SHP_TESTS_BENCH_COMMAND_H
#define SHP_TESTS_BENCH_COMMAND_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_WORDS_MAX 64

struct bench_command {
    char *word[BENCH_WORDS_MAX + 1]; /* ends with NULL: usable as an argv */
    int words;
};

/* Splits line in place at blanks; the words point into it. */
void bench_command_split(struct bench_command *command, char *line);

/* Word number index as a number; 0 when it is absent. */
long bench_command_number(const struct bench_command *command, int index);

/* Nanoseconds of the monotonic clock. */
uint64_t bench_now_ns(void);

/* Durations in nanoseconds. */
struct bench_samples {
    uint64_t *ns;
    size_t len;
    size_t size;
};

void bench_samples_start(struct bench_samples *samples, size_t size);
void bench_samples_add(struct bench_samples *samples, uint64_t ns);

/* {"us":[...]} as one line, flushed. */
void bench_samples_print(const struct bench_samples *samples);

/* Just the array, for answers with more fields. */
void bench_samples_write(const struct bench_samples *samples, FILE *out);

/* Ends the program: a measurement that failed measures nothing. */
_Noreturn void bench_die(const char *what, const char *why);

#endif
