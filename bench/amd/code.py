"""The machine code of a kernel for an AMD GPU: its instructions by kind, and those that a wave executes for one tile.

`bench_amd_listing` (a build with -DREGARD_BENCH=ON) finds the instructions; what the numbers of operations mean is
here, from AMD's ISA documents.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

# Rows, columns and depth of the matrix operations, of MFMA and of WMMA.
MFMA = {
    0x44: (32, 32, 2), 0x45: (16, 16, 4),  # fp32
    0x4C: (32, 32, 8), 0x4D: (16, 16, 16), 0x54: (16, 16, 32), 0x55: (32, 32, 16),  # fp16
    0x60: (32, 32, 8), 0x61: (16, 16, 16), 0x66: (32, 32, 8), 0x67: (16, 16, 16), 0x35: (16, 16, 32),
    0x37: (32, 32, 16),  # bf16
}  # fmt: skip
WMMA = {0x40: (16, 16, 16), 0x41: (16, 16, 16)}

VALU = {"VOP1", "VOP2", "VOP3", "VOP3P", "VOPC", "VOPD"}
# Of VOP1: exponentials, logarithms, reciprocals, roots, sines, in fp32, fp64 and fp16.
TRANSCENDENTAL = {
    "gfx9": {*range(0x20, 0x2B), *range(0x3D, 0x42), 0x49, 0x4A, 0x4B, 0x4C},
    "rdna": {0x25, 0x27, 0x2A, 0x2B, 0x2E, 0x2F, 0x31, *range(0x33, 0x37), *range(0x54, 0x59), 0x60, 0x61},
}

# Bytes that a lane accesses. Numbers of LDS operations are the same in all families.
LDS_WRITES = {0x0D: 4, 0x0E: 8, 0x0F: 8, 0x1E: 1, 0x1F: 2, 0x4D: 8, 0x4E: 16, 0x4F: 16, 0x54: 1, 0x55: 2, 0xA0: 1,
              0xA1: 2, 0xDE: 12, 0xDF: 16}  # fmt: skip
LDS_READS = {0x36: 4, 0x37: 8, 0x38: 8, **dict.fromkeys((0x39, 0x3A), 1), **dict.fromkeys((0x3B, 0x3C), 2), 0x76: 8,
             0x77: 16, 0x78: 16, 0xE3: 8, 0xFE: 12, 0xFF: 16}  # fmt: skip
LDS_READS |= dict.fromkeys((*range(0x56, 0x5A), *range(0xA2, 0xA6)), 1) | dict.fromkeys((0x5A, 0x5B, 0xA6, 0xA7), 2)
LDS_EXCHANGES = dict.fromkeys((0x3D, 0x3E, 0x3F, 0x35, 0xB2, 0xB3), 4)  # swizzle, permute, bpermute
GLOBAL_LOADS = {0x10: 1, 0x11: 1, 0x12: 2, 0x13: 2, 0x14: 4, 0x15: 8, 0x16: 12, 0x17: 16}
GLOBAL_TO_LDS = {"gfx9": {0x2A: 4, 0x7D: 16, 0x7E: 12}, "rdna": {}}

BRANCHES = {
    "gfx9": {2: "always"} | dict.fromkeys(range(4, 10), "if"),
    "rdna": {32: "always"} | dict.fromkeys(range(33, 39), "if"),
}
END = {"gfx9": 1, "rdna": 48}


@dataclass(frozen=True)
class Work:
    """What instructions keep busy, for one wave."""

    matrix: Counter[tuple[int, int, int]] = field(default_factory=Counter)  # instructions by shape
    valu: int = 0  # slots: a transcendental one is 4
    transcendental: int = 0  # instructions
    lds_read: int = 0  # bytes of a lane
    lds_written: int = 0
    global_read: int = 0
    instructions: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def times(self, count: int) -> Work:
        scaled = (getattr(self, name) * count for name in list(self.__dataclass_fields__)[1:])
        return Work(Counter({shape: number * count for shape, number in self.matrix.items()}), *scaled)

    @property
    def multiplies(self) -> int:
        """Multiply-adds of the matrix unit."""
        return sum(m * n * k * number for (m, n, k), number in self.matrix.items())

    @property
    def rank(self) -> tuple[int, int]:
        """A full tile is multiplied whole, and nothing in it is masked or rescaled."""
        return self.multiplies, -self.valu


def work_of(encoding: str, op: int, kind: str) -> Work:
    """The work of one instruction; `kind` is gfx9 or rdna."""
    if encoding == "matrix":
        shapes = MFMA if kind == "gfx9" else WMMA
        if op not in shapes:
            raise ValueError(f"matrix operation {op:#x} is not in the table of shapes; add it to bench/amd/code.py")
        return Work(matrix=Counter([shapes[op]]), instructions=1)
    if encoding in VALU:
        transcendental = encoding == "VOP1" and op in TRANSCENDENTAL[kind]
        return Work(valu=4 if transcendental else 1, transcendental=int(transcendental), instructions=1)
    if encoding == "DS":
        read = LDS_READS.get(op, 0) + LDS_EXCHANGES.get(op, 0)
        return Work(lds_read=read, lds_written=LDS_WRITES.get(op, 0), instructions=1)
    if encoding == "GLOBAL":
        to_lds = GLOBAL_TO_LDS[kind].get(op, 0)
        return Work(lds_written=to_lds, global_read=to_lds + GLOBAL_LOADS.get(op, 0), instructions=1)
    return Work(instructions=1)


@dataclass
class Block:
    """Instructions that are executed one after the other."""

    work: Work = field(default_factory=Work)
    next: list[int] = field(default_factory=list)  # blocks by the word that they begin at


def blocks_of(lines: Iterable[str], chip: str) -> dict[int, Block]:
    """The graph of the lines that bench_amd_listing printed."""
    kind = "gfx9" if chip.startswith("gfx9") else "rdna"
    code = [(int(at), encoding, int(op), *map(int, target)) for at, encoding, op, *target in map(str.split, lines)]
    after = [instruction[0] for instruction in code[1:]]
    starts = {code[0][0]} | {target[0] for _, _, _, *target in code if target}
    starts |= {following for (_, _, _, *target), following in zip(code, after, strict=False) if target}
    blocks: dict[int, Block] = {}
    current = Block()
    for (at, encoding, op, *target), following in zip(code, [*after, None], strict=True):
        if at in starts:
            current = blocks.setdefault(at, Block())
        current.work += work_of(encoding, op, kind)
        if encoding == "SOPP" and op == END[kind]:
            following = None
        elif target and BRANCHES[kind][op] == "always":
            following = target[0]
        elif target:
            current.next.append(target[0])
        if following is not None and (target or following in starts):
            current.next.append(following)
    return blocks


def _loops(blocks: dict[int, Block]) -> list[tuple[int, frozenset[int]]]:
    """Each loop's first block and all of its blocks."""
    order = _order(blocks, min(blocks))
    before: dict[int, list[int]] = {name: [] for name in order}
    for name in order:
        for following in blocks[name].next:
            before[following].append(name)
    dominators = {name: set(order) for name in order} | {order[0]: {order[0]}}
    changed = True
    while changed:
        changed = False
        for name in order[1:]:
            found = set.intersection(*(dominators[one] for one in before[name])) | {name}
            changed |= found != dominators[name]
            dominators[name] = found
    loops: dict[int, set[int]] = {}
    for name in order:
        for head in blocks[name].next:
            if head in dominators[name]:
                inside = loops.setdefault(head, {head})
                waiting = [name]
                while waiting:
                    one = waiting.pop()
                    if one not in inside:
                        inside.add(one)
                        waiting += before[one]
    return [(head, frozenset(inside)) for head, inside in loops.items()]


def _order(blocks: dict[int, Block], first: int, inside: frozenset[int] | None = None) -> list[int]:
    """The blocks that can be reached, each before those that follow it but for steps back in loops."""
    seen, done = {first}, []
    stack = [(first, iter(blocks[first].next))]
    while stack:
        name, following = stack[-1]
        for one in following:
            if one not in seen and (inside is None or one in inside):
                seen.add(one)
                stack.append((one, iter(blocks[one].next)))
                break
        else:
            done.append(name)
            stack.pop()
    return done[::-1]


def _ways(
    blocks: dict[int, Block], head: int, inside: frozenset[int], repeated: dict[int, int], copied: int
) -> list[Work]:
    """What is executed once around the loop: for each number of bytes that are read from memory, `copied` at most, the
    way of the highest rank. Loops inside go around once, but their blocks count as often as `repeated` says."""
    order = _order(blocks, head, inside)
    position = {name: i for i, name in enumerate(order)}
    best: dict[int, dict[int, Work]] = {}
    for name in reversed(order):
        here = blocks[name].work.times(repeated.get(name, 1))
        rests = [Work()] if head in blocks[name].next else []
        for one in blocks[name].next:
            if position.get(one, 0) > position[name]:
                rests += best[one].values()
        ways = best[name] = {}
        for way in (here + rest for rest in rests):
            known = ways.get(way.global_read)
            if way.global_read <= copied and (known is None or way.rank > known.rank):
                ways[way.global_read] = way
    return list(best[head].values())


@dataclass(frozen=True)
class Product:
    """One of the products of matrices of a tile."""

    multiplies: int  # multiply-adds of a wave
    length: int  # numbers of a sum, of one part


def _matched(loops: list[int], products: list[Product], parts: int, depth: int) -> list[tuple[int, int]] | None:
    """How often each loop goes around, and in which product, for multiply-adds of loops in the order of the code. A
    loop is a product, with some steps together, or the parts of one or more; the other products are unrolled."""
    if not loops:
        return []
    for first in range(len(products)):
        for end in range(first + 1, len(products) + 1):
            total = sum(product.multiplies for product in products[first:end])
            around = parts * (products[first].length // depth if end == first + 1 else 1)
            count = total // loops[0]
            if count < 2 or total % loops[0] or around % count:
                continue
            rest = _matched(loops[1:], products[end:], parts, depth)
            if rest is not None:
                return [(count, first), *((more, end + index) for more, index in rest)]
    return None


def _repeated(
    blocks: dict[int, Block], loops: list[frozenset[int]], products: list[Product], parts: int
) -> dict[int, int]:
    """How often blocks of the inner loops with matrix operations are executed; `loops` in the order of the code."""
    innermost = [loop for loop in loops if not any(other < loop for other in loops)]
    shapes = {shape for block in blocks.values() for shape in block.work.matrix}
    depth = max(k for _, _, k in shapes)
    matched = _matched([_multiplies(blocks, loop) for loop in innermost], products, parts, depth)
    if matched is None:
        return {}
    repeated: dict[int, int] = {}
    for loop, (count, product) in zip(innermost, matched, strict=True):
        if count > products[product].length // depth:  # it is in a loop over parts
            around = min((other for other in loops if loop < other), key=len, default=frozenset())
            repeated = dict.fromkeys(around, parts) | repeated
        repeated |= dict.fromkeys(loop, count)
    return repeated


def _multiplies(blocks: dict[int, Block], loop: frozenset[int]) -> int:
    return sum(blocks[name].work.multiplies for name in loop)


def tile_work(blocks: dict[int, Block], products: list[Product], copied: int, parts: int = 1) -> Work:
    """What a wave executes for a full tile: once around the smallest loop that has the most of the matrix unit's work.

    A tile has these products, in the order of the code, some of them in `parts` for which operands are copied one after
    the other. A lane copies `copied` bytes from memory for the next tile. How often loops inside go around follows from
    that. Of all ways through branches, the one that copies most and then has the fewest slots of VALU is taken.
    """
    loops = _loops(blocks)
    if not loops:
        raise ValueError("the code has no loop")
    head, inside = max(loops, key=lambda loop: (_multiplies(blocks, loop[1]), -len(loop[1])))
    order = {name: i for i, name in enumerate(_order(blocks, head, inside))}
    inner = [loop for _, loop in sorted(loops, key=lambda loop: order.get(loop[0], -1)) if loop < inside]
    inner = [loop for loop in inner if _multiplies(blocks, loop) > 0]
    expected = sum(product.multiplies for product in products)
    found = set()
    # First as if inner loops went around once, as one does that multiplies a tile again; then with products as loops.
    for repeated in ({}, _repeated(blocks, inner, products, parts)):
        ways = _ways(blocks, head, inside, repeated, copied)
        whole = [way for way in ways if way.multiplies == expected]
        if whole:
            return max(whole, key=lambda way: way.global_read)
        found |= {way.multiplies for way in ways}
    raise ValueError(f"a tile takes {expected} multiply-adds of a wave, and the loop has {sorted(found)}")


def listing(program: Path, code_object: Path) -> list[str]:
    done = subprocess.run([program, code_object], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"{code_object}: {done.stderr.strip()}")
    return done.stdout.splitlines()
