"""Untrusted text (arguments, paths, files, settings) is shown on one line and cannot affect a terminal."""

import json
import os
import re
import struct

import numpy
import pytest

from conftest import FORWARD

# A newline, a colour, a terminal's string terminator, another text direction, and a byte that is not UTF-8.
FOREIGN = b"x\n\x1b[31m\x07\xe2\x80\xae\xf6".decode(errors="surrogateescape")
SHOWN = r"x\n\x1b[31m\x07\u202e\xf6"
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")

# The words of a command line. FOREIGN replaces %; without its newline, at which problem text is split, it replaces &.
WORDS = {
    "a verb": ["%"],
    "an option": ["run", "--%"],
    "an option with a word of a problem": ["run", "--mask=%"],
    "an option with a word of another library": ["run", "--causal-%"],
    "one word too many": ["list", "&"],
    "a word of a problem": ["run", "fwd", "fp32", "s=8", "d=64", "&"],
    "a value of a problem": ["run", "fwd", "fp32", "s=8", "d=64", "mask=&"],
    "a problem without a length": ["run", "fwd fp32 d=64 &"],
    "a target": ["run", *FORWARD.split(), "--target", "%"],
    "a target to explain": ["explain", *FORWARD.split(), "--target", "%"],
    "a target to list": ["list", "--target", "%"],
    "a family": ["run", *FORWARD.split(), "--family", "%"],
    "a word of a family": ["run", *FORWARD.split(), "--family", "forward %=1"],
    "a profile": ["list", "--profile", "%"],
    "a profile to prebuild": ["prebuild", "--target", "cpu-avx2", "--profile", "%"],
    "a manifest": ["build", "%.toml"],
    "a manifest to prebuild": ["prebuild", "--manifest", "%"],
    "a record": ["prebuild", "--target", "cpu-avx2", "--record", "&"],
    "a tier": ["list", "--tier", "%"],
    "a verb of cache": ["cache", "%"],
    "a verb of bundle": ["bundle", "%"],
    "a public key": ["bundle", "verify", "x", "--trusted", "%"],
    "a file of a bundle": ["bundle", "list", "%"],
    "a file to merge into": ["bundle", "merge", "-o", "/proc/%", "%"],
    "a shell": ["completion", "%"],
    "a topic": ["help", "%"],
    "a number": ["run", *FORWARD.split(), "--repeat", "%"],
    "lengths": ["run", *FORWARD.split(), "--lengths-q", "1%"],
    "a file": ["run", *FORWARD.split(), "--q", "%.npy"],
    "a file of lengths": ["run", *FORWARD.split(), "--lengths-q", "%.npy"],
    "a file of another format": ["run", *FORWARD.split(), "--q", "%"],
    "a file of all": ["run", *FORWARD.split(), "--in", "%.safetensors"],
    "a file of all in another format": ["run", *FORWARD.split(), "--in", "%"],
    "a file for one": ["run", *FORWARD.split(), "--out", "%.npy"],
    "a folder": ["run", "fwd", "fp32", "s=8", "d=64", "--out", "/proc/%/"],
    "problems": ["bench", "--problems", "%"],
    "a file that the problem does not read": ["run", *FORWARD.split(), "--sink", "%.npy"],
}


def sentence(shown):
    assert shown.err.startswith("regard: ") and shown.err.count("\n") == 1, shown.err
    assert not HARMFUL.search(shown.err), shown.err
    return shown.err


@pytest.mark.parametrize("name", WORDS)
def test_words_of_the_command_line(regard_words, name):
    part, part_shown = FOREIGN[2:], SHOWN[3:]
    shown = regard_words(*(word.replace("%", FOREIGN).replace("&", part) for word in WORDS[name]))
    assert shown.code == 2, (shown.out, shown.err)
    assert (part_shown if "&" in " ".join(WORDS[name]) else SHOWN) in sentence(shown)


def test_a_long_word_is_shortened(regard_words):
    for name, words in WORDS.items():
        if "file" in name or name in ("lengths", "a folder", "problems"):  # a path is shown in full
            continue
        printed = sentence(
            regard_words(*(word.replace("%", "x" * 100000).replace("&", "x" * 100000) for word in words))
        )
        assert len(printed) < 2000 and "xx [...] xx" in printed, name


SETTINGS = [
    "REGARD_JIT",
    "REGARD_THREADS",
    "REGARD_LOG",
    "REGARD_CPU_TARGET",
    "REGARD_DISABLE",
    "REGARD_DATA_DIR",
    "REGARD_VERIFY",
]


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(regard_words, name):
    shown = regard_words("run", *FORWARD.split(), **{name: FOREIGN})
    assert shown.code == 2 and SHOWN in sentence(shown)


def test_names_of_settings_and_unusable_folders_in_warnings(regard_words):
    settings = {f"REGARD_{FOREIGN}": "1", "REGARD_CACHE_DIR": f"/proc/{FOREIGN}"}
    shown = regard_words("run", "fwd", "fp32", "s=8", "d=20", "--repeat=0", **settings)
    assert shown.code == 0, shown.err
    assert f"unknown setting REGARD_{SHOWN}" in shown.err and f"'/proc/{SHOWN}' is not used" in shown.err
    assert all(line.startswith("regard: ") for line in shown.err.splitlines())
    assert not HARMFUL.search(shown.err)


def test_a_compiler_and_a_folder_that_are_not_there(regard_words, tmp_path):
    problem = ["run", "fwd", "fp32", "s=8", "d=21", "--repeat=0", "--no-check"]
    strict = {"REGARD_STRICT": "1", "REGARD_CACHE_DIR": str(tmp_path / "cache")}
    for settings in ({"REGARD_CXX": FOREIGN}, {"TMPDIR": f"/proc/{FOREIGN}"}):
        shown = regard_words(*problem, **strict, **settings)
        assert shown.code == 3 and SHOWN in sentence(shown)
        shown = regard_words(*problem, **{**strict, "REGARD_STRICT": "0"}, **settings)
        (fallback,) = [line for line in shown.out.splitlines() if line.startswith("fallback")]
        assert shown.code == 0 and SHOWN in fallback and not HARMFUL.search(shown.out)


def test_what_a_compiler_says_keeps_its_lines_and_does_nothing(regard_words, tmp_path):
    compiler = tmp_path / "c++"
    says = r"printf 'one\n\033[31mtwo\377\n'; exit 1"
    compiler.write_text(f"#!/bin/sh\n[ $1 = -v ] && {{ echo 'fake version 1'; exit 0; }}\n{says}\n")
    compiler.chmod(0o755)
    settings = {"REGARD_CXX": str(compiler), "REGARD_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    words = ["run", "fwd", "fp32", "s=8", "d=22", "--repeat=0"]
    shown = regard_words(*words, REGARD_STRICT="1", **settings)
    assert shown.code == 3 and "the compiler said:\none\n\\x1b[31mtwo\\xff\n" in shown.err, shown.err
    assert not HARMFUL.search(shown.err)


def test_paths_in_what_is_printed(regard_words, tmp_path):
    folder = {"REGARD_CACHE_DIR": str(tmp_path / FOREIGN)}
    shown = regard_words("run", "fwd", "fp32", "s=8", "d=64", "--repeat=0", "--out", f"{FOREIGN}.npy", **folder)
    assert f"wrote     {SHOWN}.npy\n" in shown.out, shown.err
    assert (tmp_path / f"{FOREIGN}.npy").exists()
    for verb in (["info"], ["cache", "stat"]):
        shown = regard_words(*verb, **folder)
        in_json = SHOWN.replace(r"\xf6", "\ufffd")  # the form in which the command reads it
        assert in_json in shown.out and not HARMFUL.search(shown.out)
        printed = json.loads(regard_words(*verb, "--json", **folder).out)  # unchanged, but for invalid UTF-8
        assert json.dumps("x\n\x1b[31m\x07\u202e\ufffd")[1:-1] in json.dumps(printed)


def test_names_and_types_in_files(regard_words, tmp_path):
    def save(header, data=b""):
        text = json.dumps(header).encode()
        (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)

    name = "x\n\x1b[31m"
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    for header in (
        {name: {}},
        {name: entry},
        {name: {**entry, "data_offsets": [0, 400]}},
        {name: {**entry, "shape": [2]}},
        {"q": {**entry, "dtype": name}},
    ):
        save(header, bytes(4))
        assert r"x\n\x1b[31m" in sentence(regard_words("run", *FORWARD.split(), "--in", "x.safetensors"))
    numpy.save(tmp_path / "x.npy", numpy.zeros(1, "<f4"))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes().replace(b"<f4", b"\n\x1bX"))
    assert r"'\n\x1bX'" in sentence(regard_words("run", *FORWARD.split(), "--q", "x.npy"))


def test_entries_of_the_cache_that_others_wrote(regard_words, tmp_path):
    """A manifest is JSON from anyone who can write to the folder."""
    import hashlib

    manifest = json.dumps({"kernel": "x\n\x1b[31m\u202e"}).encode()
    key = "ab" * 32
    entry = struct.pack("<8sII32sQQ", b"REGARD\x1a\n", 1, 0, bytes.fromhex(key), len(manifest), 0) + manifest
    (tmp_path / "cache").mkdir(mode=0o700)
    path = tmp_path / "cache" / f"{key}.regard"
    path.write_bytes(entry + hashlib.sha256(entry).digest())
    os.chmod(path, 0o600)
    shown = regard_words("cache", "list", REGARD_CACHE_DIR=str(tmp_path / "cache"))
    assert shown.out.count("\n") == 3 and not HARMFUL.search(shown.out), shown.out
    json.loads(regard_words("cache", "list", "--json", REGARD_CACHE_DIR=str(tmp_path / "cache")).out)
