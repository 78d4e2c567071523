"""Many processes at once: one compile per key, a limit on concurrent compiles, never a partial file."""

import concurrent.futures
import os
import re
import threading
import time

from torture import each_compiler, finish, killed_after, libc, whole

PROBLEMS = [f"fwd fp32 h=1 s=16 d={d} mask=causal" for d in range(65, 97)]


@each_compiler
def test_32_processes_and_one_key_are_one_compile_and_32_right_results(place, right):
    done = [finish(process) for process in [place.start("run", PAUSE="0.3") for _ in range(32)]]
    assert [one.bits for one in done] == [right] * 32
    assert place.compiles == 1
    assert sorted(one.tier for one in done) == ["cache"] * 31 + ["compile"]
    assert sum(one.counters["compiled"] for one in done) == 1
    assert sum(one.counters["cached"] for one in done) == 31
    assert all(one.warnings == [] for one in done)
    assert place.files() == [place.entry.name]
    assert place.leftovers() == []


def most_at_once(log):
    running = most = 0
    for line in log.splitlines():
        running += 1 if line.startswith("start") else -1
        most = max(most, running)
    assert running == 0
    return most


def test_32_processes_with_a_key_each_compile_two_at_a_time(place):
    processes = [place.start("run", problem, REGARD_COMPILE_JOBS="2") for problem in PROBLEMS]
    done = [finish(process, 120) for process in processes]
    assert [one.tier for one in done] == ["compile"] * 32
    assert place.compiles == 32
    assert most_at_once(place.log.read_text()) == 2
    assert len(place.entries) == 32
    # The same from the cache, in one process.
    again = place.run("loop", *PROBLEMS)
    assert [line["bits"] for line in again.lines] == [one.bits for one in done]
    assert len({one.bits for one in done}) == 32
    assert (again.counters["cached"], again.counters["compiled"]) == (32, 0)
    assert place.leftovers() == []


def test_places_among_the_compiles_lie_where_the_user_runs(place, right):
    """In the folder of the login session if there is one, to which no other user can write."""
    runtime = place.folder / "runtime"
    runtime.mkdir(mode=0o700)
    with killed_after(place.start("run", PAUSE="20", XDG_RUNTIME_DIR=runtime)) as holder:
        place.wait_for_compile()
        (held,) = (runtime / "regard").iterdir()
        assert str(holder.pid) in held.read_text()
        assert held.name not in place.files()
    assert place.run("run", XDG_RUNTIME_DIR=runtime).bits == right
    assert list((runtime / "regard").iterdir()) == []


def start_all(place, problems, **how):
    return [place.start("run", problem, PAUSE="0.05", **how) for problem in problems]


def test_without_an_explicit_bound_cores_bound_the_compiles(place):
    done = [finish(process) for process in start_all(place, PROBLEMS[:12])]
    assert most_at_once(place.log.read_text()) <= done[0].lines[0]["info"]["machine"]["cores"]


def test_without_an_explicit_bound_memory_bounds_the_compiles(may_mount, place):
    """Each process sees a machine with memory for only one compile, for which the gate assumes 300 MB."""
    little = place.folder / "meminfo"
    little.write_text("MemTotal: 900000 kB\nMemAvailable: 400000 kB\n")

    def with_little_memory():
        private = 0x40000 | 0x4000  # MS_PRIVATE | MS_REC: for this process only
        new_mounts, bind = 0x20000, 4096
        assert libc.unshare(new_mounts) == 0
        assert libc.mount(None, b"/", None, private, None) == 0
        assert libc.mount(os.fsencode(little), b"/proc/meminfo", None, bind, None) == 0

    done = [finish(process, 120) for process in start_all(place, PROBLEMS, preexec_fn=with_little_memory)]
    assert [one.tier for one in done] == ["compile"] * 32
    assert most_at_once(place.log.read_text()) == 1


def test_writers_without_working_locks_are_right_and_show_no_partial_file(place, right):
    """As in a shared folder on NFS: each compiles for itself, and the last one wins."""
    partial, over = [], threading.Event()

    def look():
        while not over.is_set():
            for path in place.cache.glob("*.regard"):
                if not whole(path.read_bytes()):
                    partial.append(path)

    reader = threading.Thread(target=look)
    reader.start()
    done = [finish(process) for process in [place.start("run", NO_LOCKS="1", PAUSE="0.2") for _ in range(8)]]
    over.set()
    reader.join()
    assert [one.bits for one in done] == [right] * 8
    assert {one.tier for one in done} == {"compile"}  # they all started before the first was done
    assert not partial
    assert place.run().tier == "cache"
    assert place.files() == [place.entry.name]


def test_verbs_work_while_others_use_the_cache(place):
    """The size limit holds, too: entries come and go while processes use them."""
    first = place.run("loop", *PROBLEMS[:8])
    expected = {line["plan"]["problem"]: line["bits"] for line in first.lines}
    bound = str(3 * place.entries[0].stat().st_size)
    users = [place.start("loop", *(PROBLEMS[:8] * 2)[i:][:8], REGARD_CACHE_BYTES=bound) for i in range(4)]
    seen = []
    with concurrent.futures.ThreadPoolExecutor() as readers:  # they would block if no one read their output
        ends = [readers.submit(finish, user) for user in users]
        while not all(end.done() for end in ends):
            for verb in ("list", "stat", "verify", "gc", "clean"):
                answer = place.verb(verb)
                if verb == "verify":
                    seen += [entry["problem"] for entry in answer if "problem" in entry]
    for end in ends:
        done = end.result()
        assert done.code == 0, done.err
        assert {line["plan"]["problem"]: line["bits"] for line in done.lines} == expected
    assert set(seen) <= {"it has just been removed"}
    assert place.verb("clean")["entries"] == 0
    assert place.files() == []


def test_the_least_recently_used_go_first_and_what_runs_runs_on(place):
    place.run("loop", *PROBLEMS[:3])
    first = place.run("run", PROBLEMS[0])
    sizes = [path.stat().st_size for path in place.entries]  # they differ slightly, in the digits of the compile time
    room_for_three = str(sum(sizes) + min(sizes) // 2)
    # Least recently used: 2, then 1; 0 was used last.
    key = {json_kernel(entry): entry["key"] for entry in place.verb("list")}
    for age, d in ((9000, 67), (8000, 66), (7300, 65)):
        path = place.cache / f"{key[d]}.regard"
        os.utime(path, (time.time() - age,) * 2)
    hit = place.run("run", PROBLEMS[0])  # a hit makes it the newest
    assert (hit.tier, hit.bits) == ("cache", first.bits)
    place.run("run", PROBLEMS[3], REGARD_CACHE_BYTES=room_for_three)
    left = {json_kernel(entry) for entry in place.verb("list")}
    assert left == {65, 66, 68}


def json_kernel(entry):
    return int(re.search(r" d=(\d+)", entry["manifest"]["kernel"]).group(1))
