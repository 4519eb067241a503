/*
 * thread_dump.h - writes to the log what each thread of the process is doing, when the watchdog
 * (liveness.h) finds a thread or a device without progress. The dump has no call stacks; a core
 * dump has them (WatchdogSignal= of systemd.service(5)).
 */
#ifndef SERVER_OBSERVE_THREAD_DUMP_H
#define SERVER_OBSERVE_THREAD_DUMP_H

struct log;

/* Writes one line for each thread: its name and number, its state (a letter of proc_pid_stat(5)),
 * the CPU time that it has used, the system call that it is in and the function of the kernel that
 * it waits in. A part that the system does not tell is "?". Any thread. */
void thread_dump(struct log *log);

#endif
