#include "util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void *sim_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p)
        abort();
    return p;
}

void *sim_realloc(void *old, size_t size)
{
    void *p = realloc(old, size);
    if (!p)
        abort();
    return p;
}

char *sim_strdup(const char *s)
{
    if (!s)
        return NULL;
    size_t n = strlen(s) + 1;
    char *p = sim_alloc(n);
    memcpy(p, s, n);
    return p;
}

char *sim_format(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *out = NULL;
    int n = vasprintf(&out, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    return out;
}

void str_add(struct str *s, const void *data, size_t len)
{
    if (s->len + len + 1 > s->cap) {
        size_t cap = s->cap ? s->cap : 256;
        while (cap < s->len + len + 1)
            cap *= 2;
        s->data = sim_realloc(s->data, cap);
        s->cap = cap;
    }
    if (len)
        memcpy(s->data + s->len, data, len);
    s->len += len;
    s->data[s->len] = '\0';
}

void str_puts(struct str *s, const char *text)
{
    str_add(s, text, strlen(text));
}

void str_free(struct str *s)
{
    free(s->data);
    memset(s, 0, sizeof *s);
}

const char *str_text(const struct str *s)
{
    return s->data ? s->data : "";
}

uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

uint64_t wall_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

bool utf8_valid(const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;
    for (size_t i = 0; i < len;) {
        unsigned c = p[i];
        unsigned need, min, cp;
        if (c < 0x80) {
            i++;
            continue;
        }
        if (c >= 0xC2 && c <= 0xDF) {
            need = 1, min = 0x80, cp = c & 0x1F;
        } else if (c >= 0xE0 && c <= 0xEF) {
            need = 2, min = 0x800, cp = c & 0x0F;
        } else if (c >= 0xF0 && c <= 0xF4) {
            need = 3, min = 0x10000, cp = c & 0x07;
        } else {
            return false;
        }
        if (len - i <= need)
            return false;
        for (unsigned k = 1; k <= need; k++) {
            if ((p[i + k] & 0xC0) != 0x80)
                return false;
            cp = cp << 6 | (p[i + k] & 0x3Fu);
        }
        if (cp < min || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
            return false;
        i += need + 1;
    }
    return true;
}

bool text_blank(const char *s)
{
    for (; s && *s; s++)
        if (!isspace((unsigned char)*s))
            return false;
    return true;
}

bool text_has_control(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s == 0x7F)
            return true;
    return false;
}

int make_dirs(const char *path, unsigned mode)
{
    char *copy = sim_strdup(path);
    int err = 0;
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char keep = *p;
        *p = '\0';
        if (mkdir(copy, (mode_t)mode) < 0 && errno != EEXIST) {
            err = -errno;
            break;
        }
        *p = keep;
        if (!keep)
            break;
    }
    free(copy);
    return err;
}

char *read_file(const char *path, size_t max, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct str s = {0};
    char chunk[4096];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) > 0) {
        str_add(&s, chunk, (size_t)n);
        if (s.len > max) {
            n = -1;
            errno = EFBIG;
            break;
        }
    }
    int saved = errno;
    close(fd);
    if (n < 0) {
        str_free(&s);
        errno = saved;
        return NULL;
    }
    str_add(&s, "", 0);
    if (len)
        *len = s.len;
    return s.data;
}

int write_file_atomic(const char *path, const char *data, size_t len)
{
    char *tmp = sim_format("%s.%ld.tmp", path, (long)getpid());
    int err = 0;
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        err = -errno;
        goto out;
    }
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(fd, data + done, len - done);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            err = -errno;
            break;
        }
        done += (size_t)n;
    }
    close(fd);
    if (!err && rename(tmp, path) < 0)
        err = -errno;
    if (err)
        unlink(tmp);
out:
    free(tmp);
    return err;
}
