/*
 * shift_clock - shifts the wall clock of a program while it runs. To be preloaded (LD_PRELOAD).
 *
 * SHIFT_CLOCK names a file of 8 bytes: the shift in seconds, a signed number in the machine's order
 * of bytes. Another process may change the number at any time. Only CLOCK_REALTIME is shifted, as
 * by an administrator's or NTP's step; the monotonic clocks go on as before.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t *shift_s;

__attribute__((constructor)) static void open_shift(void)
{
    const char *path = getenv("SHIFT_CLOCK");
    const int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *shift_s, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        shift_s = map;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    const int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && shift_s != NULL &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += (time_t)atomic_load(shift_s);
    return result;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}
