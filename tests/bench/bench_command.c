#include "tests/bench/bench_command.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

void bench_command_split(struct bench_command *command, char *line)
{
    command->words = 0;
    for (char *rest = line, *word; command->words < BENCH_WORDS_MAX; rest = NULL) {
        word = strtok(rest, " \n");
        if (!word)
            break;
        command->word[command->words++] = word;
    }
    command->word[command->words] = NULL;
}

long bench_command_number(const struct bench_command *command, int index)
{
    return index < command->words ? strtol(command->word[index], NULL, 10) : 0;
}

uint64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void bench_samples_start(struct bench_samples *samples, size_t size)
{
    free(samples->ns);
    samples->len = 0;
    samples->size = size ? size : 1;
    samples->ns = calloc(samples->size, sizeof(*samples->ns));
    if (!samples->ns)
        bench_die("samples", "no memory");
}

void bench_samples_add(struct bench_samples *samples, uint64_t ns)
{
    if (samples->len < samples->size)
        samples->ns[samples->len++] = ns;
}

void bench_samples_write(const struct bench_samples *samples, FILE *out)
{
    fputc('[', out);
    for (size_t i = 0; i < samples->len; i++)
        fprintf(out, "%s%.1f", i ? "," : "", (double)samples->ns[i] / 1000.0);
    fputc(']', out);
}

void bench_samples_print(const struct bench_samples *samples)
{
    fputs("{\"us\":", stdout);
    bench_samples_write(samples, stdout);
    fputs("}\n", stdout);
    fflush(stdout);
}

_Noreturn void bench_die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}
