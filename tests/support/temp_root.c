#include "tests/support/temp_root.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(bool ok, const char *what, const char *path)
{
    if (ok)
        return;
    fprintf(stderr, "temp_root: %s %s\n", what, path);
    abort();
}

char *temp_root_make(void)
{
    const char *base = getenv("TMPDIR");
    char *path = temp_path(base != NULL && base[0] == '/' ? base : "/tmp", "shp-test-XXXXXX");
    must(mkdtemp(path) != NULL && chmod(path, 0755) == 0, "cannot make", path);
    return path;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void temp_root_remove(char *path)
{
    must(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, "cannot remove", path);
    free(path);
}

char *temp_path(const char *root, const char *name)
{
    char *path = NULL;
    must(asprintf(&path, "%s/%s", root, name) > 0, "no memory for", name);
    return path;
}

void temp_write(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    must(file != NULL, "cannot open", path);
    must(fwrite(bytes, 1, len, file) == len && fclose(file) == 0, "cannot write", path);
}

char *temp_read(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    must(file != NULL, "cannot open", path);
    struct stat st;
    must(fstat(fileno(file), &st) == 0, "cannot stat", path);
    char *bytes = malloc((size_t)st.st_size + 1);
    must(bytes != NULL && fread(bytes, 1, (size_t)st.st_size, file) == (size_t)st.st_size,
         "cannot read", path);
    fclose(file);
    bytes[st.st_size] = '\0';
    if (len != NULL)
        *len = (size_t)st.st_size;
    return bytes;
}

size_t temp_entries(const char *path)
{
    DIR *dir = opendir(path);
    must(dir != NULL, "cannot list", path);
    size_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            count++;
    closedir(dir);
    return count;
}

int temp_root_setup(void **state)
{
    *state = temp_root_make();
    return 0;
}

int temp_root_teardown(void **state)
{
    temp_root_remove(*state);
    return 0;
}
