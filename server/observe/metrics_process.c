/* Reads /proc/self (proc_pid_stat(5)). */
#include "server/observe/metrics_shard.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/number.h"

struct process_stat {
    uint64_t threads, start_ticks, virtual_bytes, resident_pages;
};
/* The last field of /proc/self/stat that is read. */
enum { LAST_FIELD = 24 };

/* The member of `stat` that a field of /proc/self/stat is read into; NULL: the field is not needed.
 */
static uint64_t *member_of_field(struct process_stat *stat, int field)
{
    switch (field) {
    case 20:
        return &stat->threads;
    case 22:
        return &stat->start_ticks;
    case 23:
        return &stat->virtual_bytes;
    case LAST_FIELD:
        return &stat->resident_pages;
    default:
        return NULL;
    }
}

static bool read_stat(struct process_stat *stat)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    /* The second field is the name of the program in parentheses, and may contain any characters.
     */
    char *rest = strrchr(text, ')');
    for (int field = 2; rest; field++) {
        const char *word = strsep(&rest, " ");
        uint64_t *wanted = member_of_field(stat, field);
        if (wanted && !number_u64(word, wanted))
            return false;
        if (field == LAST_FIELD)
            return true;
    }
    return false;
}

static uint64_t count_fds(void)
{
    /* Since Linux 6.2 the directory's size is the number of descriptors; counting thousands of
     * entries would take longer than the rest of the scrape. */
    struct stat status;
    if (stat("/proc/self/fd", &status) == 0 && status.st_size > 0)
        return (uint64_t)status.st_size;
    DIR *directory = opendir("/proc/self/fd");
    uint64_t count = 0;
    if (!directory)
        return 0;
    for (const struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count - 1; /* without the descriptor of the directory itself */
}

void metrics_process_read(struct metrics_process *process)
{
    struct process_stat stat;
    struct timespec cpu;
    struct rlimit limit;
    memset(process, 0, sizeof(*process));
    if (read_stat(&stat)) {
        process->threads = stat.threads;
        process->virtual_bytes = stat.virtual_bytes;
        process->resident_bytes = stat.resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
        process->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        process->max_fds = limit.rlim_cur;
    process->open_fds = count_fds();
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double metrics_process_start_seconds(void)
{
    struct process_stat stat;
    double age = 0;
    if (read_stat(&stat))
        age = seconds(CLOCK_BOOTTIME) - (double)stat.start_ticks / (double)sysconf(_SC_CLK_TCK);
    return seconds(CLOCK_REALTIME) - age;
}
