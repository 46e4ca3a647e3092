/* Runs a fuzz target over the files of its corpus, where no libFuzzer is present.
 *
 * usage: fuzz_<name> <folder or file>...
 *
 * Ends non-zero when no input was found: an empty corpus would pass without testing anything. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Corpus inputs are small; a larger file is a mistake in the corpus. */
#define REPLAY_INPUT_BYTES_MAX ((long)16 * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "replay: cannot open %s: %s\n", path, strerror(errno));
        return -1;
    }
    int result = -1;
    uint8_t *bytes = NULL;
    if (fseek(file, 0, SEEK_END) != 0)
        goto out;
    long size = ftell(file);
    if (size < 0 || size > REPLAY_INPUT_BYTES_MAX) {
        fprintf(stderr, "replay: %s has an unusable size\n", path);
        goto out;
    }
    rewind(file);
    /* Exactly the input's size, so that a sanitizer sees a read behind its end. */
    bytes = malloc(size > 0 ? (size_t)size : 1);
    if (bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size)
        goto out;
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    result = 0;
out:
    free(bytes);
    fclose(file);
    return result;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Returns the number of inputs, or a negative value. */
static int replay_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "replay: cannot look at %s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path) == 0 ? 1 : -1;

    struct dirent **entries = NULL;
    int entry_count = scandir(path, &entries, NULL, by_name);
    if (entry_count < 0) {
        fprintf(stderr, "replay: cannot list %s: %s\n", path, strerror(errno));
        return -1;
    }
    int inputs = 0;
    for (int i = 0; i < entry_count; i++) {
        char child[4096];
        int length = snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && inputs >= 0) {
            if (length < 0 || (size_t)length >= sizeof(child) || replay_file(child) != 0)
                inputs = -1;
            else
                inputs++;
        }
        free(entries[i]);
    }
    free(entries);
    return inputs;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int inputs = replay_path(argv[i]);
        if (inputs < 0)
            return 1;
        total += inputs;
    }
    if (total == 0) {
        fprintf(stderr, "replay: no input\n");
        return 1;
    }
    printf("replayed %d inputs\n", total);
    return 0;
}
