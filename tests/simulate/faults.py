#!/usr/bin/env python3
"""Plants faults in the scheduler and in the calls that it gets, and shows that gemmd-simulate finds each of them.

    python tests/simulate/faults.py BUILD [--seeds 1000] [--only WORD]

BUILD is the folder of a build that has tests/gemmd-simulate. A fault is a change of a few words in one file. The
changed file is compiled and linked in place of the file of the library, in a temporary folder; the sources and
BUILD stay as they are. Prints for each fault the seed and the promise that was broken, and exits with status 1 if
a fault was not found within the given number of seeds, or if a text to be changed is not in its file.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What is wrong, the file, the text, and the text with the fault.
FAULTS = [
    ("idle time counts as a stall", "server/scheduler/dispatch.c",
     "if (!busy || progress != watch->progress", "if (progress != watch->progress"),
    ("a flow that is served out of turn moves the level of newcomers", "server/base/sfq.c",
     "    if (sfq->flows == &flow->node)\n        sfq->now = flow->start;", "    sfq->now = flow->start;"),
    ("flows are not made equal after all were served to the end", "server/base/sfq.c",
     "        sfq->now = sfq->last_start;\n", "        sfq->now += 0;\n"),
    ("a copy that takes the place of a tensor has no entity tag", "server/tensors/tensor_store.c",
     "    atomic_store(&copy->has_etag, atomic_load(&resident->has_etag));\n", ""),
    ("a push does not wake the dispatch thread", "server/scheduler/queue.c",
     "    pthread_cond_signal(&queue->changed);\n", ""),
    ("the dispatch thread sleeps although a work has arrived", "server/scheduler/queue.c",
     "    if (!has_arrived(queue))\n        error =", "    error ="),
    ("the lowest priority runs first", "server/scheduler/fair_queue.c",
     "31 - __builtin_clz(flow->occupied)", "__builtin_ctz(flow->occupied)"),
    ("works with a later deadline pass works with an earlier one", "server/scheduler/fair_queue.c",
     "? step_of_one < step_of_other :", "? step_of_one > step_of_other :"),
    ("a work that was taken back stays in the queue", "server/scheduler/queue.c",
     "        fair_queue_drop(&queue->works, work);\n        work->started_ns", "        work->started_ns"),
    ("the timer does not know the earliest deadline", "server/scheduler/queue.c",
     "            queue->earliest_ns = work->deadline_ns;\n", "            queue->earliest_ns = UINT64_MAX;\n"),
    ("memory is given back while early copies use it", "server/scheduler/early_copy.c",
     "body->announced_bytes == 0 || body->copies.over", "true"),
    ("a call that has ended stays charged to its device", "server/api/compute/compute_call.c",
     "    call_device_discharge(call);\n", ""),
    ("one request more than its limit is admitted of a tenant", "server/scheduler/admission.c",
     "or_none(limits.tenant_requests)", "or_none(limits.tenant_requests) + 1"),
    ("a result that fails its check is answered", "server/scheduler/dispatch.c",
     "work->residual <= 1 ? VERIFY_PASS : VERIFY_FAIL", "VERIFY_PASS"),
    ("the subproblems of a divided call are not verified", "server/api/compute/call_split.c",
     "        .verify = whole->verify,\n", ""),
    ("a divided call ends before its last subproblem", "server/api/compute/call_split.c",
     "atomic_init(&split->left, count + 1);", "atomic_init(&split->left, count);"),
    ("all subproblems of a divided call compute its first units", "server/api/compute/call_split.c",
     "        first += shares[i];\n", ""),
    ("a subproblem that was taken back is counted as left", "server/api/compute/call_split.c",
     "        ended++;\n", ""),
    ("the devices of subproblems stay charged", "server/api/compute/call_split.c",
     "        executor_discharge(sub->executor, sub->charged_ns);\n", ""),
    ("a subproblem of an attention reads the keys of another entry", "kernels/subproblem.c",
     "moved(p->k, entry * p->k_strides.batch + kv_head", "moved(p->k, kv_head"),
    ("a part of a convolution reads the first images", "kernels/conv_problem.c",
     "problem->x + first * x * dtype_size", "problem->x + 0 * first * x * dtype_size"),
    ("the result of every operation is looked for where that of a product is", "server/api/compute/call_placement.c",
     "first = task->operation->operands;", "first = OPERATION_OPERANDS_MAX;"),
    ("a job that has ended counts as unfinished", "server/jobs/job.c", "    jobs->unfinished--;\n", ""),
]


def compile_fault(build, file, old, new, folder):
    """The object of a file with the fault."""
    text = (ROOT / file).read_text()
    if text.count(old) < 1:
        sys.exit(f"faults.py: {file} has no longer the text {old!r}")
    source, compiled = folder / Path(file).name, folder / "fault.o"
    source.write_text(text.replace(old, new, 1))
    entries = json.loads((build / "compile_commands.json").read_text())
    entry = next(e for e in entries if e["file"] == str(ROOT / file))
    words = shlex.split(entry["command"])
    words = [str(source) if word == entry["file"] else word for word in words]
    words[words.index("-o") + 1] = str(compiled)
    subprocess.run(words + ["-w", "-Wno-error", f"-I{(ROOT / file).parent}"], cwd=entry["directory"], check=True)
    return compiled


def link(build, compiled, folder):
    """gemmd-simulate with an object in place of that of the library."""
    program = folder / "gemmd-simulate"
    commands = subprocess.run(["ninja", "-C", build, "-t", "commands", "tests/gemmd-simulate"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.splitlines()
    command = commands[-1].replace("-o tests/gemmd-simulate", f"-o {program} {compiled}")
    subprocess.run(command, shell=True, cwd=build, check=True)
    return program


def run(program, seeds):
    """The first line of a run, and whether the fault was found. A run that does not end is a find."""
    try:
        done = subprocess.run([program, "--seeds", str(seeds)], stdout=subprocess.PIPE, text=True, check=False,
                              timeout=1200)
    except subprocess.TimeoutExpired:
        return "the run does not end", True
    return done.stdout.splitlines()[0], done.returncode == 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--only", default="", help="faults whose description has this text")
    arguments = parser.parse_args()
    missed = 0
    for what, file, old, new in FAULTS:
        if arguments.only not in what:
            continue
        with tempfile.TemporaryDirectory() as name:
            compiled = compile_fault(arguments.build.resolve(), file, old, new, Path(name))
            said, found = run(link(arguments.build.resolve(), compiled, Path(name)), arguments.seeds)
        missed += not found
        print(f"{'found' if found else 'MISSED'}: {what} ({file})\n    {said}", flush=True)
    print(f"{missed} faults were missed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
