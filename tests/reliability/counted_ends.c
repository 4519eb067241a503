/* The preset `coverage` links the daemon and the unit tests with these functions. A destructor
 * writes the counts of gcov at the end of a process. The daemon ends without destructors after a
 * failed start and where its memory is limited, and executes itself again after the loss of its
 * device. Processes that a unit test forks end without destructors too. */
#include <gcov.h>
#include <unistd.h>

_Noreturn void __wrap__exit(int status);
_Noreturn void __real__exit(int status);
int __wrap_execvpe(const char *file, char *const argv[], char *const environment[]);
int __real_execvpe(const char *file, char *const argv[], char *const environment[]);

_Noreturn void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}

int __wrap_execvpe(const char *file, char *const argv[], char *const environment[])
{
    __gcov_dump();
    const int status = __real_execvpe(file, argv, environment);
    __gcov_reset(); /* the program goes on, and must not be counted twice */
    return status;
}
