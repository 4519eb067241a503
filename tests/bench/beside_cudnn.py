"""What attention_cudnn.py, conv_cudnn.py and the ladder share: participants that are timed in turns, and tables.

A participant's launches are recorded in a CUDA graph; its figure is the median over the rounds.
"""

import datetime
import random
import statistics
import subprocess
import sys
import time

import torch

ROUNDS = 9
BLOCK_MS = 6.0
L2_BYTES = 50 << 20


class Table:
    """Lines that are printed, and in a file as soon as they are known."""

    def __init__(self, path):
        self.path = path
        if path:
            open(path, "w", encoding="utf-8").close()

    def append(self, line):
        print(line, flush=True)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")


class Participant:
    """Something that computes set `i`, and its time."""

    def __init__(self, name, call, sets):
        self.name, self.call, self.sets = name, call, sets
        self.times, self.graph, self.launches = [], None, 1

    def record(self, stream):
        """Runs it once, then records as many launches as last for BLOCK_MS."""
        for i in range(self.sets):
            self.call(i)
        stream.synchronize()
        each = max(self.direct(stream, 3), 1e-3)
        self.launches = max(1, min(400, round(BLOCK_MS / each)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(self.launches):
                self.call(i % self.sets)
        self.graph = graph
        self.replay(stream)

    def direct(self, stream, count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(stream)
        for i in range(count):
            self.call(i % self.sets)
        end.record(stream)
        end.synchronize()
        return start.elapsed_time(end) / count

    def replay(self, stream):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(stream)
        self.graph.replay()
        end.record(stream)
        end.synchronize()
        return start.elapsed_time(end) / self.launches

    def median(self):
        return statistics.median(self.times)


def recorded(calls, sets, stream):
    """A participant for each of {name: call} that runs; the others are named on stderr."""
    participants = []
    for name, call in calls.items():
        participant = Participant(name, call, sets)
        try:
            participant.record(stream)
        except RuntimeError as error:
            print(f"{name} left out: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        participants.append(participant)
    return participants


def in_turns(participants, stream):
    """{name: median ms} of participants that were recorded."""
    order = random.Random(1)
    for _ in range(ROUNDS):
        # In an order that is drawn, because the power that a participant takes and what it leaves in
        # the L2 change the figure of the next one.
        for participant in order.sample(participants, len(participants)):
            participant.times.append(participant.replay(stream))
    return {p.name: p.median() for p in participants}


def output_of(*command):
    """What a program that may not be there prints."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return run.stdout.strip() or "unknown"


def now():
    return f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"


def machine(revision):
    """The GPU, the versions of all that is measured, and how the GPU runs."""
    smi = output_of(
        "nvidia-smi", "--query-gpu=driver_version,clocks.sm,power.draw", "--format=csv,noheader"
    )
    return (
        f"{torch.cuda.get_device_name()}; gemmd {revision}; PyTorch "
        f"{torch.__version__}, cuDNN {torch.backends.cudnn.version()}; driver, clock and watts: {smi}"
    )


def warm_up(stream):
    """Three seconds of work, so that the clock has settled."""
    a = torch.rand(8192, 8192, device="cuda").to(torch.bfloat16)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        for _ in range(20):
            a @ a
        stream.synchronize()
