/* Failing disks and jumping clocks for one process tree, by LD_PRELOAD.
 *
 * The file named by FAULT_SHIM holds one line:
 *   io ERRNO PREFIX    writes, syncs, renames and new files below PREFIX fail with ERRNO
 *   clock SECONDS      the wall clock is SECONDS ahead (or behind, if negative)
 * An empty or missing file: nothing happens. It is read at every call, so a test can change it at any time.
 * A process that was failed, or was told another time, writes its id once to the file with ".hits" behind its name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static ssize_t read_control(char *line, size_t size) {
    const char *path = getenv("FAULT_SHIM");
    if (path == NULL) return 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = syscall(SYS_read, fd, line, size - 1);
    syscall(SYS_close, fd);
    if (got < 0) got = 0;
    line[got] = 0;
    return got;
}

static void note_hit(int *noted) {
    const char *path = getenv("FAULT_SHIM");
    char name[PATH_MAX], line[32];
    int pid = (int)syscall(SYS_getpid);
    if (*noted == pid || path == NULL) return;
    *noted = pid;
    int saved = errno;
    snprintf(name, sizeof name, "%s.hits", path);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        int size = snprintf(line, sizeof line, "%d\n", pid);
        if (syscall(SYS_write, fd, line, size) < 0) *noted = 0;
        syscall(SYS_close, fd);
    }
    errno = saved;
}

static int failing(const char *path) {
    static int noted;
    char line[PATH_MAX + 64], prefix[PATH_MAX];
    int number;
    int saved = errno;
    if (read_control(line, sizeof line) <= 0) { errno = saved; return 0; }
    if (sscanf(line, "io %d %4000s", &number, prefix) == 2 && path != NULL &&
        strncmp(path, prefix, strlen(prefix)) == 0) {
        note_hit(&noted);
        errno = number;
        return 1;
    }
    errno = saved;
    return 0;
}

static int failing_fd(int fd) {
    char line[8], link[64], path[PATH_MAX];
    int saved = errno;
    if (read_control(line, sizeof line) <= 0 || strncmp(line, "io", 2) != 0) {
        errno = saved;
        return 0;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (got <= 0) return 0;
    path[got] = 0;
    return failing(path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
    if (failing_fd(fd)) return -1;
    return NEXT(write)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    if (failing_fd(fd)) return -1;
    return NEXT(pwrite)(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    if (failing_fd(fd)) return -1;
    return NEXT(pwrite64)(fd, data, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (failing_fd(fd)) return -1;
    return NEXT(writev)(fd, parts, count);
}

int fsync(int fd) {
    if (failing_fd(fd)) return -1;
    return NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    if (failing_fd(fd)) return -1;
    return NEXT(fdatasync)(fd);
}

int rename(const char *from, const char *to) {
    if (failing(to)) return -1;
    return NEXT(rename)(from, to);
}

#define OPEN(name)                                             \
    int name(const char *path, int flags, ...) {               \
        mode_t mode = 0;                                       \
        if (flags & O_CREAT) {                                 \
            va_list more;                                      \
            va_start(more, flags);                             \
            mode = va_arg(more, mode_t);                       \
            va_end(more);                                      \
            if (failing(path)) return -1;                      \
        }                                                      \
        return NEXT(name)(path, flags, mode);                  \
    }
OPEN(open)
OPEN(open64)

static long clock_offset(void) {
    char line[64];
    long seconds;
    int saved = errno;
    static int noted;
    ssize_t got = read_control(line, sizeof line);
    errno = saved;
    if (got <= 0 || sscanf(line, "clock %ld", &seconds) != 1) return 0;
    note_hit(&noted);
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += clock_offset();
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where != NULL) *where = now.tv_sec;
    return now.tv_sec;
}
