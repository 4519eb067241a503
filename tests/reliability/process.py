"""What the system says of a process: memory, descriptors, threads, CPU time."""

import os


def status(pid, name):
    """A number of /proc/PID/status, in bytes where the line is in kB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                words = line.split()
                return int(words[1]) * (1024 if words[-1] == "kB" else 1)
    raise KeyError(name)


def resident_bytes(pid):
    return status(pid, "VmRSS")


def threads(pid):
    return status(pid, "Threads")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds(pid):
    """CPU time of all threads, those that have ended included."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wakeups(pid):
    """How often the threads that exist now have been given a core of their own accord."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("voluntary_ctxt_switches"):
                    total += int(line.split()[1])
    return total
