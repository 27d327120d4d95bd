#!/usr/bin/env python3
"""Write a synthetic torch memory snapshot: gen_snapshot.py OUT MEGABYTES [SEED].

Laid out as torch.cuda.memory._dump_snapshot pickles it (protocol 4, every dictionary and list memoized, frames shared
between stacks): a training step of 400 allocations with stacks of 16 to 48 frames, over and over, each freed before
the step ends; 200 weights that stay. Written as it is made, so it takes no memory. Deterministic in its arguments.
"""

import argparse
import pickle
import random
import struct

STACKS, WEIGHTS, FRAMES = 400, 200, 3000
MIB = 1 << 20


class Writer:
    """The opcodes of protocol 4, and the numbers of what was memoized."""

    def __init__(self, file):
        self.file, self.memo, self.size = file, 0, 0

    def write(self, data, memoized=0):
        self.file.write(data)
        self.size += len(data)
        self.memo += memoized

    def text(self, text):
        """A text, memoized; the opcode that gets it again."""
        place, encoded = self.memo, text.encode()
        head = b"\x8c" + bytes([len(encoded)]) if len(encoded) < 256 else b"X" + struct.pack("<I", len(encoded))
        self.write(head + encoded + b"\x94", 1)
        return get(place)


def get(place):
    return b"h" + bytes([place]) if place < 256 else b"j" + struct.pack("<I", place)


def integer(value):
    return pickle.dumps(value, 2)[2:-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("megabytes", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    with open(asked.out, "wb", buffering=1 << 20) as file:
        write(Writer(file), chance, asked.megabytes * 1_000_000)


def write(out, chance, size):
    out.write(b"\x80\x04")
    out.write(b"}\x94(", 1)
    # what is shared stands first, under a key that no reader asks for
    names = ("action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata", "frames", "name")
    names += ("filename", "line", "alloc", "free_requested", "free_completed", "segment_alloc", "N/A", "")
    out.text("shared")
    out.write(b"]\x94(", 1)
    key = {name: out.text(name) for name in names}
    frames = []
    for number in range(FRAMES):
        place = out.memo
        out.write(b"}\x94(" + key["name"], 1)
        out.text(f"forward_{number}" if number % 3 else f"at::native::kernel_{number}<c10::BFloat16>()")
        out.write(key["filename"])
        out.text(f"/opt/model/layers_{number % 97}.py" if number % 3 else "??")
        out.write(key["line"] + integer(number) + b"u")
        frames.append(get(place))
    out.write(b"e")
    stacks = [b"".join(chance.choices(frames, k=chance.randrange(16, 49))) for _ in range(STACKS)]
    sizes = [chance.randrange(1, 64) * MIB for _ in range(STACKS + WEIGHTS)]
    starts = [0x7F0000000000 + sum(sizes[:place]) for place in range(STACKS + WEIGHTS)]
    out.text("segments")
    out.write(b"]\x94(", 1)
    for place, (start, bytes_) in enumerate(zip(starts, sizes, strict=True)):
        segment(out, start, bytes_, "active_allocated" if place >= STACKS else "inactive")
    out.write(b"e")
    out.text("device_traces")
    out.write(b"]\x94]\x94(", 2)
    order = list(range(STACKS))
    now, events = 1_790_000_000_000_000, 0

    def event(action, place, stack):
        nonlocal now, events
        now, events = now + chance.randrange(1, 9), events + 1
        out.write(
            b"}\x94(" + key["action"] + key[action] + key["addr"] + integer(starts[place]) + key["size"]
            + integer(sizes[place]) + key["stream"] + b"K\x00" + key["time_us"] + integer(now)
            + key["compile_context"] + key["N/A"] + key["user_metadata"] + key[""] + key["frames"]
            + b"]\x94(" + stack + b"eu",
            2,
        )  # fmt: skip
        if events % 1000 == 0:
            out.write(b"e(")

    for place in range(STACKS + WEIGHTS):
        event("segment_alloc", place, stacks[place % STACKS])
    for place in range(STACKS, STACKS + WEIGHTS):
        event("alloc", place, stacks[place % STACKS])
    while out.size < size:
        for place in order:
            event("alloc", place, stacks[place])
        for place in reversed(order):
            event("free_requested", place, stacks[place - 1])
            event("free_completed", place, stacks[place - 1])
    out.write(b"ea")
    out.text("allocator_settings")
    out.write(b"}\x94", 1)
    out.text("external_annotations")
    out.write(b"]\x94u.", 1)


def segment(out, start, size, state):
    block = {"address": start, "size": size, "requested_size": size, "state": state, "frames": []}
    used = size if state == "active_allocated" else 0
    made = {"device": 0, "address": start, "total_size": size, "allocated_size": used, "active_size": used,
            "requested_size": used, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": [], "blocks": [block]}  # fmt: skip
    plain(out, made)


def plain(out, value):
    """Any plain value, as Pickler.dump writes it, but for what it knows already."""
    if isinstance(value, dict):
        out.write(b"}\x94(", 1)
        for name, item in value.items():
            out.text(name)
            plain(out, item)
        out.write(b"u")
    elif isinstance(value, list):
        out.write(b"]\x94(", 1)
        for item in value:
            plain(out, item)
        out.write(b"e")
    elif isinstance(value, str):
        out.text(value)
    elif isinstance(value, tuple):
        for item in value:
            plain(out, item)
        out.write(b"\x86\x94", 1)
    else:
        out.write(integer(value))


if __name__ == "__main__":
    main()
