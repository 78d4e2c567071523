"""kill -9 at every system call and at random moments: no bad load, no hang, no leftovers that gc does not remove."""

import os
import pathlib
import random
import signal
import time

import pytest
from torture import finish, killed_after, wait_until, whole, with_nvrtc

KILLS = 100


def recover(place, right):
    """The next process gets the right kernel at once, and all entries in the cache are intact."""
    start = time.monotonic()
    next_one = place.run()
    assert next_one.bits == right
    assert next_one.tier in ("cache", "compile")
    assert time.monotonic() - start < 10
    assert whole(place.entry.read_bytes())
    return next_one.tier


def expect_gc_leaves_only_entries(place):
    wait_until(lambda: not place.living_compilers(), 1)  # they ended with their callers
    time.sleep(2.1)  # gc's grace period for a new file to be locked
    left = place.verb("gc")
    assert left["litter"] == 0
    assert place.files() == [place.entry.name]
    assert place.leftovers() == []
    assert [entry for entry in place.verb("verify") if "problem" in entry] == []


class Aside:
    """Moves the leftovers of killed processes away, because the next process would spend system calls on them."""

    def __init__(self, place):
        self.place, self.folder, self.taken = place, place.folder / "aside", []
        self.folder.mkdir()

    def take(self):
        left = [path for path in self.place.cache.iterdir() if path.suffix in (".tmp", ".lock")]
        for path in [*left, *self.place.temporary.iterdir()]:
            self.taken.append((path.rename(self.folder / f"{len(self.taken)}"), path))

    def give_back(self):
        for here, path in self.taken:
            here.rename(path)


def test_killed_at_every_system_call(place, right):
    """Before and after each write, fsync, rename, lock, spawn and so on of a compile and publish."""
    counted = place.run("run", KILL_AT="1000000", COUNT_CALLS=str(place.folder / "calls"))
    assert counted.tier == "compile"
    calls = int((place.folder / "calls").read_text())
    assert calls >= 40
    aside = Aside(place)
    tiers = []
    for call in range(1, calls + 1):
        aside.take()
        for entry in place.entries:
            entry.unlink()
        killed = place.run("run", KILL_AT=str(call))
        # The run that counted the calls also made the folder, so the last calls may not be reached.
        assert killed.code == -signal.SIGKILL or (call > calls - 20 and killed.bits == right), call
        tiers.append(recover(place, right))
    assert set(tiers) == {"cache", "compile"}, calls  # killed before the rename, and after it
    aside.give_back()
    expect_gc_leaves_only_entries(place)


def test_killed_at_random_moments(place, right):
    chance = random.Random(4)
    place.run()
    for round_number in range(KILLS):
        place.entry.unlink()
        # Kills fall where time is spent: mostly in the compile, sometimes before or after it.
        process = place.start("run", PAUSE=f"{chance.choice((0, 0.01, 0.03))}")
        time.sleep(chance.uniform(0, 0.06))
        process.kill()
        process.communicate()
        if round_number % 2 == 0 or not place.entries:
            recover(place, right)
    expect_gc_leaves_only_entries(place)


@with_nvrtc
def test_killed_while_nvrtc_compiles(place, right):
    for asked_to_stop in (1, 20, 40):
        assert place.run("run", KILL_INSIDE=asked_to_stop).code == -signal.SIGKILL
    assert place.entries == []
    place.forget_compiles()  # killed ones never log their end
    assert recover(place, right) == "compile"
    expect_gc_leaves_only_entries(place)


def test_the_next_compile_removes_what_a_killed_one_left(place, right):
    with killed_after(place.start("run", PAUSE="20")):
        place.wait_for_compile()
        (in_use,) = place.leftovers()
        os.utime(place.temporary / in_use, (1, 1))
        assert place.run("run", "fwd fp32 h=1 s=16 d=65").tier == "compile"
        assert place.leftovers() == [in_use]  # in use, however old it is
    assert place.leftovers() == [in_use]
    os.utime(place.temporary / in_use, (1, 1))
    assert place.run().bits == right
    assert place.leftovers() == []


def test_a_dead_holder_is_followed_at_once(place, right):
    holder = place.start("run", PAUSE="20")
    place.wait_for_compile()
    waiter = place.start("run")
    time.sleep(0.3)
    assert waiter.poll() is None
    assert place.compiles == 1
    start = time.monotonic()
    holder.kill()
    holder.communicate()
    done = finish(waiter)
    assert time.monotonic() - start < 3  # the deadline is 60 s
    assert (done.bits, done.tier, done.warnings) == (right, "compile", [])


def forked_children(process):
    """The child processes that are not compilers."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(one) for one in children if "torture_child" in os.readlink(f"/proc/{one}/exe")]


def test_a_dead_holder_is_followed_at_once_though_its_forked_child_lives(place, right):
    with killed_after(place.start("leave", PAUSE="20")) as holder:
        place.wait_for_compile()
        wait_until(lambda: forked_children(holder.pid))
        (child,) = forked_children(holder.pid)
        time.sleep(0.1)
        holder.kill()
        start = time.monotonic()
        done = place.run()
        assert time.monotonic() - start < 3
        assert (done.bits, done.tier) == (right, "compile")
        os.kill(child, 0)  # raises unless it is alive
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_a_hanging_compiler_ends_with_the_process_that_is_killed(place, how):
    """So do the processes that it has started, here `sleep`."""
    # A shell may have started these tests with SIGINT ignored.
    process = place.start("run", PAUSE="600", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    with killed_after(process):
        place.wait_for_compile()
        wait_until(lambda: len(place.living_compilers()) == 2)
        process.send_signal(how)
        process.wait()
        wait_until(lambda: not place.living_compilers(), 1)


def test_a_forked_child_that_ends_leaves_its_parents_compiler_alone(place, right):
    done = place.run("fork", PAUSE="0.5", REGARD_CACHE="off")
    assert [line["bits"] for line in done.lines] == [right] * 2
    assert [line["plan"]["stages"][0]["tier"] for line in done.lines] == ["compile"] * 2


def test_a_live_holder_is_left_behind_after_the_deadline_and_named(place, right):
    with killed_after(place.start("run", PAUSE="20")) as holder:
        place.wait_for_compile()
        holder.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        done = place.run("run", REGARD_LOCK_SECONDS="1")
        assert 1 <= time.monotonic() - start < 5
        assert (done.bits, done.tier) == (right, "compile")
        (line,) = done.warnings
        assert line.startswith(f"regard: waited 1 s for process {holder.pid} on {os.uname().nodename}, since 2")
        assert line.endswith("to make a kernel; making it here too")
        assert place.run().tier == "cache"


def test_stopped_compiles_elsewhere_do_not_stop_everybody(place, right):
    """The operating system releases a killed process's slot among the compiles."""
    holders = [place.start("run", f"fwd fp32 h=1 s=16 d={d}", PAUSE="20") for d in (65, 66)]
    wait_until(lambda: place.compiles == 2)
    for holder in holders:
        holder.kill()
        holder.communicate()
    start = time.monotonic()
    assert place.run("run", REGARD_COMPILE_JOBS="2").bits == right
    assert time.monotonic() - start < 5
