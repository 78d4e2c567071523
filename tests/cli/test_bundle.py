"""Bundles, written here byte by byte as docs/bundles.md describes them."""

import hashlib
import json
import resource
import shutil
import struct
import subprocess

import pytest
from test_messages import FOREIGN, HARMFUL, SHOWN

from conftest import COMMAND, environment

ABOUT = {"title": "acme", "version": "0.9", "undeclared": "error"}
OTHER_KEY = "0" * 64


def digest(text):
    return hashlib.sha256(text.encode()).digest()


def frame(data):
    """A zstd frame of up to 65,791 uncompressed bytes: a single segment, its length, one last raw block."""
    length = struct.pack("<H", len(data) - 256) if len(data) >= 256 else bytes([len(data)])
    descriptor = 0x60 if len(data) >= 256 else 0x20
    block = (len(data) << 3 | 1).to_bytes(3, "little")
    return struct.pack("<IB", 0xFD2FB528, descriptor) + length + block + data


def bundle(*kernels, about=ABOUT):
    """A bundle of kernels, given as (name, source, binary) in order."""
    packed, records, names = b"", b"", b""
    for name, source, binary in kernels:
        manifest = json.dumps({"kernel": name}).encode()
        entry = struct.pack("<Q", len(manifest)) + manifest + binary
        one = frame(entry)
        name = name.encode(errors="surrogateescape")
        records += digest(source) + digest(source + " by this compiler") + hashlib.sha256(one).digest()
        records += struct.pack("<4Q", 64 + len(packed), len(one), len(entry), len(name))
        packed, names = packed + one, names + name
    text = json.dumps(about).encode()
    index = struct.pack("<2Q", len(kernels), len(text)) + records + text + names
    header = struct.pack("<8s2I2Q", b"REGBND\x1a\n", 1, 0, 64 + len(packed), len(index))
    return header + hashlib.sha256(index).digest() + packed + index


A, B, C = (f"kernel {letter}" for letter in "abc")


@pytest.fixture
def files(tmp_path):
    """one.bundle with a and b, two.bundle with c, and the private key mine."""
    (tmp_path / "one.bundle").write_bytes(bundle((A, "1", b"x" * 100), (B, "2", b"y" * 1000)))
    (tmp_path / "two.bundle").write_bytes(bundle((C, "3", b"")))
    return tmp_path


def test_what_is_listed(regard, regard_json, files):
    printed = regard_json("bundle list one.bundle")
    assert {name: printed[name] for name in ABOUT} == ABOUT and printed["signer"] is None
    assert [kernel["name"] for kernel in printed["kernels"]] == [A, B]
    assert printed["kernels"][0]["source"] == digest("1").hex()
    assert printed["kernels"][1]["bytes"] == 8 + len('{"kernel": "kernel b"}') + 1000
    shown = regard("bundle list one.bundle").out
    assert A in shown and "2 kernels for acme by Regard 0.9, undeclared = error\nnot signed\n" in shown


def test_the_life_of_a_signature(regard, regard_json, files):
    mine = regard("bundle keygen mine").out.strip()
    other = regard_json("bundle keygen other")["public_key"]
    assert len(mine) == 64 and mine != other
    assert (files / "mine").stat().st_mode & 0o777 == 0o600
    assert regard("bundle verify one.bundle").out == "one.bundle: ok, 2 kernels, 1.2 KiB, not signed\n"
    refused = regard(f"bundle verify one.bundle --trusted={mine}")
    assert refused.code == 1 and "it is not signed, and only what has the signature" in refused.out

    assert regard_json("bundle sign one.bundle --key=mine")["signer"] == mine
    assert regard(f"bundle verify one.bundle --trusted {other},{mine}").out.endswith(f"signed with {mine}\n")
    assert regard_json("bundle list one.bundle")["signer"] == mine
    refused = regard(f"bundle verify one.bundle --trusted={other}")
    assert refused.code == 1 and f"one.bundle: it is signed with the key {mine}, which is not" in refused.out

    moved = (files / "two.bundle").read_bytes() + (files / "one.bundle").read_bytes()[-104:]
    (files / "two.bundle").write_bytes(moved)
    refused = regard("bundle verify one.bundle two.bundle")
    assert refused.code == 1 and "two.bundle: its signature is wrong: it was changed after it was signed" in refused.out
    assert "its signature is wrong" in regard("bundle list two.bundle").out


def test_keys_that_are_not_private(regard, refused, files):
    regard("bundle keygen mine")
    (files / "empty").touch(0o600)
    assert "'empty' cannot be used: it has no private key" in refused("bundle sign one.bundle --key=empty")
    for mode in (0o640, 0o620, 0o604, 0o602):
        (files / "mine").chmod(mode)
        printed = refused("bundle sign one.bundle --key=mine")
        assert (
            f"users other than its owner can read or write it (its mode is {mode:o}); `chmod 600` fixes that" in printed
        )
    (files / "mine").chmod(0o400)
    assert regard("bundle sign one.bundle --key=mine").code == 0


def test_verify_asks_for_the_trusted_keys_of_the_settings(regard, regard_json, refused, files):
    mine, other = (regard_json("bundle keygen", name)["public_key"] for name in ("mine", "other"))
    regard("bundle sign one.bundle --key=mine")
    done = regard("bundle verify one.bundle", REGARD_TRUSTED_KEYS=other)
    assert done.code == 1 and "which is not a trusted one" in done.out
    assert regard("bundle verify one.bundle", REGARD_TRUSTED_KEYS=mine).code == 0
    assert regard(f"bundle verify one.bundle --trusted={mine}", REGARD_TRUSTED_KEYS=other).code == 0
    assert "REGARD_TRUSTED_KEYS: 'x' is not a public key" in refused(
        "bundle verify one.bundle", REGARD_TRUSTED_KEYS="x"
    )


def test_what_is_not_there_is_not_damaged(regard, files):
    done = regard("bundle verify none.bundle one.bundle")
    assert done.code == 2 and "none.bundle: it cannot be opened" in done.out and "one.bundle: ok" in done.out
    assert regard("bundle list none.bundle").code == 2


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")
def test_the_signature_is_that_of_others(regard, files):
    mine = regard("bundle keygen mine").out.strip()
    regard("bundle sign one.bundle --key=mine")
    signed = (files / "one.bundle").read_bytes()

    def openssl(*words):
        return subprocess.run(["openssl", *words], cwd=files, check=True, capture_output=True).stdout

    assert openssl("pkey", "-in", "mine", "-pubout", "-outform", "DER")[-32:].hex() == mine
    assert signed[-104:-64] == b"REGSIGN\n" + bytes.fromhex(mine)
    openssl("pkey", "-in", "mine", "-pubout", "-out", "public")
    (files / "header").write_bytes(signed[:64])
    (files / "signature").write_bytes(signed[-64:])
    openssl("pkeyutl", "-verify", "-pubin", "-inkey", "public", "-rawin", "-in", "header", "-sigfile", "signature")


def test_several_become_one(regard, regard_json, files):
    shown = regard("bundle merge -o all.bundle two.bundle one.bundle")
    assert (shown.code, shown.out) == (0, "all.bundle: 3 kernels\n"), shown.err
    printed = regard_json("bundle list all.bundle")
    assert [kernel["name"] for kernel in printed["kernels"]] == [A, B, C] and printed["title"] == "acme"
    assert regard("bundle verify all.bundle").code == 0
    assert regard_json("bundle merge --out one.bundle one.bundle two.bundle")["kernels"] == 3
    assert (files / "one.bundle").read_bytes() == (files / "all.bundle").read_bytes()


def test_what_does_not_fit_together(refused, files):
    (files / "two.bundle").write_bytes(bundle((A, "1", b"z")))
    printed = refused("bundle merge -o all.bundle one.bundle two.bundle")
    assert "'one.bundle' and 'two.bundle' have kernel 'kernel a' of the same source with different bytes" in printed
    (files / "two.bundle").write_bytes(bundle((C, "3", b""), about=ABOUT | {"undeclared": "jit"}))
    printed = refused("bundle merge -o all.bundle one.bundle two.bundle")
    assert (
        "'one.bundle' was built with undeclared = 'error' and 'two.bundle' with 'jit'; build them the same way"
        in printed
    )
    assert not (files / "all.bundle").exists()


def test_damage_is_told_of_each_kernel_and_file(regard, files):
    damaged = bytearray((files / "one.bundle").read_bytes())
    damaged[100] ^= 1
    (files / "one.bundle").write_bytes(damaged)
    (files / "short.bundle").write_bytes(damaged[:300])
    shown = regard("bundle verify one.bundle two.bundle short.bundle none.bundle")
    assert shown.code == 2 and shown.err == ""  # as one of them does not exist
    assert regard("bundle verify one.bundle two.bundle short.bundle").code == 1
    assert shown.out.splitlines() == [
        "one.bundle: its kernel 'kernel a' is damaged: the checksum is wrong",
        "two.bundle: ok, 1 kernels, 39 bytes, not signed",
        "short.bundle: its index is beyond the end of the file",
        "none.bundle: it cannot be opened: No such file or directory",
    ]
    rows = json.loads(regard("bundle verify one.bundle two.bundle --json").out)
    assert [len(row.get("problems", [])) for row in rows] == [1, 0] and rows[0]["kernels"] == 2
    assert regard("bundle list one.bundle").code == 0


def test_a_full_disk_leaves_nothing(files):
    before = sorted(file.name for file in files.iterdir())
    done = subprocess.run(
        [COMMAND, "bundle", "merge", "-o", "all.bundle", "one.bundle", "two.bundle"],
        env=environment(),
        cwd=files,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert done.returncode == 4 and done.stderr == "regard: cannot write all.bundle: File too large\n"
    assert sorted(file.name for file in files.iterdir()) == before


CASES = [
    ("bundle", "verb is required"),
    ("bundle lst one.bundle", "unknown bundle verb 'lst'; did you mean 'list'?"),
    ("bundle list", "bundle list needs a file"),
    ("bundle list one.bundle two.bundle", "bundle list takes one file"),
    ("bundle list none.bundle", "none.bundle: it cannot be opened: No such file"),
    ("bundle list .", ".: it is not a file"),
    ("bundle list one.bundle --key=mine", "bundle list takes no --key"),
    ("bundle keygen mine --out=x", "bundle keygen takes no --out"),
    ("bundle keygen one.bundle", "cannot write one.bundle: it is there already"),
    ("bundle sign one.bundle", "bundle sign needs --key"),
    (
        "bundle sign one.bundle --key=two.bundle",
        "the key file 'two.bundle' cannot be used: users other than its owner can",
    ),
    ("bundle sign one.bundle --key=none", "the key file 'none' cannot be used: it cannot be opened"),
    (f"bundle sign one.bundle --key=mine --trusted={OTHER_KEY}", "bundle sign takes no --trusted"),
    ("bundle verify one.bundle --trusted=abc", "--trusted: 'abc' is not a public key, which is the 64 digits"),
    ("bundle merge one.bundle", "bundle merge needs --out"),
    ("bundle merge -o x one.bundle none.bundle", "none.bundle: it cannot be opened"),
    ("bundle merge -o /proc/no one.bundle", "cannot write /proc/no: No such file or directory"),
    ("bundle merge -o . one.bundle", "cannot write .: Is a directory"),
    ("bundle merge --otu x one.bundle", "unknown option '--otu'; did you mean '--out'?"),
]


@pytest.mark.parametrize(("line", "sentence"), CASES, ids=[line for line, _ in CASES])
def test_one_sentence(refused, files, line, sentence):
    assert sentence in refused(line)
    assert sorted(file.name for file in files.iterdir()) == ["one.bundle", "two.bundle"]


def test_what_others_wrote_into_it_is_shown_printable(regard_words, tmp_path):
    name = f"{FOREIGN}.bundle"
    (tmp_path / name).write_bytes(bundle((FOREIGN, "1", b""), about=ABOUT | {"title": "x\n\x1b[31m"}))
    for verb in ("list", "verify"):
        shown = regard_words("bundle", verb, name)
        assert SHOWN in shown.out and not HARMFUL.search(shown.out), shown.err
        json.loads(regard_words("bundle", verb, name, "--json").out)
