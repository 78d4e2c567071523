"""Every path that the command writes to: a file replaces a file, and nothing else. A device, a pipe, a socket, a
folder, or a link to one of these stays what it was."""

import os
import pathlib
import socket
import stat
import subprocess

import pytest

from conftest import COMMAND, environment

PROBLEM = "fwd fp32 h=2 s=16 d=64"
RUN = ("run", *PROBLEM.split(), "--repeat=0", "--no-check")


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Two bundles, a key, and a cache with a kernel."""
    folder = tmp_path_factory.mktemp("there")
    settings = {"REGARD_CACHE_DIR": str(folder / "cache"), "REGARD_CPU_TARGET": "cpu-avx2"}

    def regard(*words):
        done = subprocess.run(
            [COMMAND, *words], env=environment(**settings), capture_output=True, text=True, cwd=folder
        )
        assert done.returncode == 0, done.stderr

    regard("run", *["fwd", "fp32", "b=1", "h=1", "s=24", "d=61"])
    regard("cache", "export", "a.bundle")
    regard("bundle", "keygen", "key")
    return folder


# The command of each writer, for a path and the files of `there`.
WRITERS = {
    "a result": lambda path, there: [*RUN, f"--out={path}"],
    "a bundle of bundles": lambda path, there: ["bundle", "merge", "-o", path, there / "a.bundle"],
    "a bundle of the cache": lambda path, there: ["cache", "export", path],
    "a key": lambda path, there: ["bundle", "keygen", path],
    "a bundle that is signed": lambda path, there: ["bundle", "sign", path, f"--key={there / 'key'}"],
}
NAMES = {"a result": ["o.npy", "o.safetensors"]}


def make(kind, path):
    """Creates something that is not a regular file."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        folder = os.open(path.parent, os.O_RDONLY)
        socket.socket(socket.AF_UNIX).bind(f"/proc/self/fd/{folder}/{path.name}")  # a short path
        os.close(folder)
    elif kind == "folder":
        path.mkdir()
    elif os.geteuid() == 0:
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # like /dev/null
        except OSError:
            pytest.skip("makes no devices")
    else:
        pytest.skip("needs root to make a device")


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "device"])
def test_what_is_no_file_stays_what_it_was(kind, there, regard_words, tmp_path):
    for writer, words in WRITERS.items():
        for name in NAMES.get(writer, ["a.bundle"]):
            for through_a_link in (False, True):
                path = tmp_path / "elsewhere" / name
                path.parent.mkdir(exist_ok=True)
                make(kind, path)
                before = path.lstat()
                link = tmp_path / name
                if through_a_link:
                    link.symlink_to(path)
                given = link if through_a_link else path
                done = regard_words(*words(given, there), REGARD_CACHE_DIR=str(there / "cache"))
                assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), (writer, given, done)
                assert str(given) in done.err
                after = path.lstat()
                assert (after.st_ino, after.st_mode, after.st_rdev) == (before.st_ino, before.st_mode, before.st_rdev)
                if through_a_link:
                    assert os.readlink(link) == str(path)
                    link.unlink()
                path.rmdir() if kind == "folder" else path.unlink()
                assert not list(path.parent.iterdir()), writer


@pytest.mark.parametrize("writer", ["a result", "a bundle of bundles", "a bundle of the cache"])
def test_a_link_to_a_file_is_written_through(writer, there, regard_words, tmp_path):
    for name in NAMES.get(writer, ["a.bundle"]):
        target, link = tmp_path / "elsewhere" / name, tmp_path / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(b"before")
        link.symlink_to(target)
        done = regard_words(*WRITERS[writer](link, there), REGARD_CACHE_DIR=str(there / "cache"))
        assert done.code == 0, done.err
        assert link.is_symlink() and len(target.read_bytes()) > 200
        link.unlink()
        link.symlink_to(tmp_path / "nothing")
        done = regard_words(*WRITERS[writer](link, there), REGARD_CACHE_DIR=str(there / "cache"))
        assert (done.code, done.err) == (2, f"regard: cannot write {link}: it is a dangling link\n")


def test_a_key_is_written_through_no_link(there, regard_words, tmp_path):
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    done = regard_words("bundle", "keygen", "key")
    assert done.code == 2 and "it is there already" in done.err and not (tmp_path / "elsewhere").exists()


def test_standard_output_is_no_file(there, tmp_path):
    """Whether it is a pipe or redirected to a file, into which the command's messages would go."""
    settings = environment(REGARD_CACHE_DIR=str(there / "cache"))
    device = pathlib.Path("/dev/stdout").lstat()
    for writer, words in WRITERS.items():
        if writer == "a key":
            continue  # whose name must be a new one
        words = [COMMAND, *words("/dev/stdout", there)] if writer != "a result" else [COMMAND, *RUN, "--out=o.npy"]
        if writer != "a result":
            done = subprocess.run(words, env=settings, capture_output=True, text=True, cwd=tmp_path)
            assert done.returncode == 2 and done.stdout == "", (writer, done)
        with open(tmp_path / "o.npy", "a+") as out:
            out.write("before")
            out.flush()
            done = subprocess.run(words, env=settings, stdout=out, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        assert done.returncode == 2, (writer, done)
        assert (tmp_path / "o.npy").read_text() == "before"
        (tmp_path / "o.npy").unlink()
    now = pathlib.Path("/dev/stdout").lstat()
    assert (now.st_ino, now.st_mode) == (device.st_ino, device.st_mode)


@pytest.mark.parametrize("words", [[*RUN, "--out=-"], ["bundle", "merge", "-o", "-", "a"], ["cache", "export", "-"]])
def test_a_dash_is_no_name(words, regard_words, tmp_path):
    done = regard_words(*words)
    assert done.code == 2 and "'-' does not stand for a stream here; name a file" in done.err, done
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "device"])
def test_a_record_is_written_into_a_file_alone(kind, regard_words, tmp_path):
    make(kind, tmp_path / "elsewhere")
    (tmp_path / "record").symlink_to("elsewhere")
    before = (tmp_path / "elsewhere").lstat()
    done = regard_words(*RUN, REGARD_RECORD=str(tmp_path / "record"))
    assert done.code == 0 and done.err.count("problems are not recorded") == 1, done
    after = (tmp_path / "elsewhere").lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode) and (tmp_path / "record").is_symlink()
