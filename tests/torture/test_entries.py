"""Whatever is in the place of an entry is recompiled and replaced, or refused with a sentence; it is never loaded."""

import json
import os
import random
import shutil
import subprocess
import sys

import pytest
from places import BUILD
from torture import OTHER, ROOT_USER, sealed


def cut(length):
    return lambda data: data[:length]


def flip(bit):
    def damage(data):
        changed = bytearray(data)
        place = bit % (8 * len(data))
        changed[place // 8] ^= 1 << place % 8
        return bytes(changed)

    return damage


def other_schema(data):
    return sealed(data[:8] + (2).to_bytes(4, "little") + data[12:-32])


def other_key_inside(data):
    return sealed(data[:16] + bytes(32) + data[48:-32])


def with_payload(payload):
    """An entry in which everything but the payload is right."""

    def damage(data):
        manifest = int.from_bytes(data[48:56], "little")
        head = data[:56] + len(payload).to_bytes(8, "little") + data[64 : 64 + manifest]
        return sealed(head + payload)

    return damage


random_bits = random.Random(5)
DAMAGES = {
    "zero length": cut(0),
    "one byte": cut(1),
    "cut in the header": cut(40),
    "cut after the header": cut(64),
    "cut in the manifest": cut(100),
    "cut in the payload": cut(5000),
    "cut in the checksum": cut(-7),
    "a byte more": lambda data: data + b"\0",
    "schema": other_schema,
    "key": other_key_inside,
    "no ELF": with_payload(b"not a shared object"),
    "empty payload": with_payload(b""),
    **{f"bit flipped, {n}": flip(random_bits.getrandbits(40)) for n in range(25)},
}


def expect_replaced(place, right):
    done = place.run("run", REGARD_JIT="off")
    assert done.tier == "built-in"  # nothing was loaded from there
    assert "generic_forward" in done.plan["stages"][0]["kernel"]
    assert f"not in the cache ({place.cache}" in done.fallback
    place.forget_compiles()
    done = place.run()
    assert (done.bits, done.tier, place.compiles, done.warnings) == (right, "compile", 1, [])
    done = place.run()
    assert (done.bits, done.tier, place.compiles) == (right, "cache", 1)


@pytest.fixture
def filled(place):
    assert place.run().tier == "compile"
    return place


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_replaced(filled, right, damage):
    data = filled.entry.read_bytes()
    filled.entry.write_bytes(damage(data))
    expect_replaced(filled, right)


def test_the_entry_of_another_kernel_is_replaced(filled, right):
    mine = filled.entry
    filled.run("run", OTHER)
    (other,) = [path for path in filled.entries if path != mine]
    other.rename(mine)
    expect_replaced(filled, right)


def test_the_binary_of_another_target_is_replaced(filled, right):
    """The entry has this key and a correct checksum, but its symbol is that of another kernel."""
    mine, data = filled.entry, filled.entry.read_bytes()
    filled.run("run", REGARD_CPU_TARGET="cpu-generic")
    (other,) = [path for path in filled.entries if path != mine]
    foreign = other.read_bytes()
    manifest = int.from_bytes(foreign[48:56], "little")
    mine.write_bytes(with_payload(foreign[64 + manifest : -32])(data))
    other.unlink()
    expect_replaced(filled, right)


def test_a_link_is_replaced_and_its_target_left_alone(filled, right):
    mine, elsewhere = filled.entry, filled.folder / "elsewhere"
    mine.rename(elsewhere)
    mine.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    expect_replaced(filled, right)
    assert elsewhere.read_bytes() == before
    assert not mine.is_symlink()


def test_a_folder_is_replaced(filled, right):
    mine = filled.entry
    mine.unlink()
    (mine / "with" / "content").mkdir(parents=True)
    expect_replaced(filled, right)
    assert mine.is_file()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_can_write_is_replaced(filled, right, mode):
    filled.entry.chmod(mode)
    expect_replaced(filled, right)
    assert filled.entry.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not ROOT_USER, reason="only root can give files away")
def test_an_entry_of_another_user_is_replaced(filled, right):
    os.chown(filled.entry, 12345, 12345)
    expect_replaced(filled, right)


def in_place(path, data):
    """Puts something other than a regular file under an entry's name."""
    elsewhere = path.parent.parent / f"elsewhere than {path.name}"
    elsewhere.write_bytes(data)

    def written(mode):
        path.write_bytes(data)
        path.chmod(mode)

    return {
        "a link": lambda: path.symlink_to(elsewhere),
        "a dangling link": lambda: path.symlink_to(path.parent / "nothing"),
        "a folder": lambda: (path / "with" / "content").mkdir(parents=True),
        "a pipe": lambda: os.mkfifo(path),
        "writable by others": lambda: written(0o666),
        "writable by the group": lambda: written(0o620),
        "4 GiB, most of them on no disk": lambda: (written(0o600), os.truncate(path, 4 << 30)),
    }


def with_manifest(manifest):
    return lambda data: sealed(data[:48] + len(manifest).to_bytes(8, "little") + bytes(8) + manifest)


BYTES = DAMAGES | {
    "cut at 70": cut(70),
    "cut at 200": cut(200),
    "no entry": lambda data: b"damaged",
    "random bytes": lambda data: random.Random(6).randbytes(len(data)),
    **{f"manifest {text!r}": with_manifest(text) for text in (b"", b"no JSON", b"[]", b'{"a":', b'{"a":"\xff"}')},
    "manifest longer than the file": lambda data: sealed(data[:48] + b"\xff" * 8 + data[56:-32]),
}
# Intact as far as the cache knows: their checksums are right, and it does not look into payloads.
WHOLE = {"no ELF", "empty payload"}


def test_whatever_lies_there_the_verbs_tell_it_of_each_and_of_the_whole_ones_too(filled):
    """All kinds of damage in one folder, and one good entry."""
    good, data = filled.entry, filled.entry.read_bytes()
    damages = list(BYTES) + list(in_place(filled.folder / "nothing", data))
    keys = {f"{number:064x}": name for number, name in enumerate(damages)}
    for key, name in keys.items():
        path = filled.cache / f"{key}.regard"
        own = sealed(data[:16] + bytes.fromhex(key) + data[48:-32])  # right but for the damage
        if name in BYTES:
            path.write_bytes(BYTES[name](own))
            path.chmod(0o600)
        else:
            in_place(path, own)[name]()
    keys[good.stem] = "good"

    listed, verified = (filled.cli("cache", verb, "--json") for verb in ("list", "verify"))
    assert (listed.returncode, listed.stderr) == (0, "")
    assert (verified.returncode, verified.stderr) == (1, "")
    for done in (listed, verified):
        assert {keys[entry["key"]] for entry in json.loads(done.stdout)} == set(keys.values())
        for entry in json.loads(done.stdout):
            assert isinstance(entry["manifest"], dict) or (entry["manifest"] is None and entry["problem"])
    problems = {keys[entry["key"]]: entry.get("problem", "") for entry in json.loads(verified.stdout)}
    assert {name for name, problem in problems.items() if not problem} == {"good"} | WHOLE
    assert not any("defect" in problem for problem in problems.values())
    damaged = len(problems) - 1 - len(WHOLE)
    for verb, code in (("list", 0), ("verify", 1)):
        shown = filled.cli("cache", verb)
        assert shown.returncode == code and "DAMAGED: it is a link" in shown.stdout, shown.stderr
        assert verb == "list" or f"{len(problems)} entries, {damaged} damaged" in shown.stdout

    for verb, done in (("list", listed), ("verify", verified)):
        assert in_python(filled, f"regard.cache({verb!r})") == json.loads(done.stdout)
    assert in_python(filled, "regard.list()")  # looks into the manifests too
    assert filled.run().tier == "cache"
    assert filled.verb("gc")["entries"] == 1 + len(WHOLE)
    assert filled.cli("cache", "verify").returncode == 0
    assert filled.verb("clean")["entries"] == 0
    assert filled.files() == []


def in_python(place, expression):
    done = subprocess.run(
        [sys.executable, "-c", f"import json, regard; print(json.dumps({expression}))"],
        env=place.environment | {"PYTHONPATH": str(BUILD / "python")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_folder_in_place_of_a_lock_is_litter(filled, right):
    lock = filled.entry.with_suffix(".lock")
    for verb in ("gc", "clean"):
        (lock / "with" / "content").mkdir(parents=True)
        done = filled.run()
        assert (done.bits, done.warnings) == (right, [])
        assert filled.verb("stat")["litter"] == 1
        assert filled.verb(verb)["litter"] == 0
        assert not lock.exists()


def expect_not_used(place, right, words):
    for _ in range(2):
        done = place.run()
        assert (done.bits, done.tier) == (right, "compile")
        (warning,) = done.warnings
        assert words in warning
        assert place.verb("stat")["state"] in warning
    assert place.verb("list") == []


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_used(filled, right, mode):
    filled.cache.chmod(mode)
    expect_not_used(filled, right, "can be written by others")
    filled.cache.chmod(0o700)
    assert filled.run().tier == "cache"


@pytest.mark.skipif(not ROOT_USER, reason="only root can give folders away")
def test_a_folder_of_another_user_is_not_used(filled, right):
    os.chown(filled.cache, 12345, 12345)
    expect_not_used(filled, right, "belongs to user 12345")


def test_the_folder_may_go_at_any_time(filled, right):
    shutil.rmtree(filled.cache)
    assert filled.run().tier == "compile"
    assert filled.run().tier == "cache"
