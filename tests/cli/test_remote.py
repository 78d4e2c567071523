"""A remote store, from the compile that fills it to a process that takes a kernel from it."""

import contextlib
import getpass
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

import pytest
import remote_server

from conftest import COMMAND, environment

PROBLEM = "fwd fp32 b=1 h=1 s=24 d=59"  # not compiled into the library
# Settings of every process here; no proxy between it and the server.
ALWAYS = {"REGARD_CPU_TARGET": "cpu-avx2", "no_proxy": "*", "REGARD_REMOTE_SECONDS": "20"}
READ_ONLY = ALWAYS | {"REGARD_JIT": "off"}


@pytest.fixture
def store():
    """store(answer) starts a server."""
    with contextlib.ExitStack() as stack:

        def start(answer=None, certificate=None):
            made = remote_server.Store(answer, certificate)
            stack.callback(made.close)
            return made

        yield start


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The files of two private keys, and the public keys."""
    folder = tmp_path_factory.mktemp("keys")
    made = {}
    for name in ("own", "other"):
        done = subprocess.run([COMMAND, "bundle", "keygen", folder / name], capture_output=True, text=True, check=True)
        made[name] = (str(folder / name), done.stdout.split()[-1])
    return made


@pytest.fixture(scope="module")
def filled(tmp_path_factory, keys):
    """A store with the signed kernel of a process, and the name of that kernel on the server."""
    made = remote_server.Store()
    done = subprocess.run(
        [COMMAND, "run", PROBLEM, "--json"],
        env=environment()
        | ALWAYS
        | {
            "REGARD_CACHE_DIR": str(tmp_path_factory.mktemp("first")),
            "REGARD_REMOTE": made.url + "/",
            "REGARD_REMOTE_WRITE": "on",
            "REGARD_SIGNING_KEY": keys["own"][0],
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    (stage,) = json.loads(done.stdout)["plan"]["stages"]
    assert stage["tier"] == "compile" and made.asked == ["GET", "PUT"]
    made.asked.clear()
    yield made
    made.close()


@pytest.fixture
def run(regard, tmp_path):
    """run(url) runs the problem with a separate cache and returns the stage and all output."""

    def call(url, cache="cache", words=("run", PROBLEM, "--json"), **settings):
        settings = READ_ONLY | {"REGARD_CACHE_DIR": str(tmp_path / cache), "REGARD_REMOTE": url} | settings
        done = regard(*words, **settings)
        assert done.code == 0, done.err
        answer = json.loads(done.out)
        (stage,) = answer["plan"]["stages"]
        return stage, answer, done.err

    return call


def test_what_one_has_compiled_another_one_fetches(filled, run):
    stage, answer, err = run(filled.url)
    assert (stage["tier"], err, filled.asked[-1]) == ("remote", "", "GET")
    assert (answer["counters"]["remote"], answer["counters"]["compiled"]) == (1, 0)
    assert "not in the cache" in stage["missed"][1]
    asked = len(filled.asked)
    stage, *_ = run(filled.url)  # it is in the cache now
    assert stage["tier"] == "cache" and len(filled.asked) == asked


def test_what_is_sent_is_an_entry_of_the_cache_by_its_key(filled, run, tmp_path):
    run(filled.url)
    (entry,) = (path for path in (tmp_path / "cache").glob("*.regard") if path.stat().st_size > 4096)
    assert list(filled.kept) == [f"/cas/{entry.stem}"]
    sent, kept = filled.body[:-104], entry.read_bytes()
    assert filled.body[-104:-96] == b"REGSIGN\n"
    # The cached entry records its signer; the transferred one has no record of its origin.
    assert (sent[12:16], kept[12:16], kept[64:96]) == (bytes(4), b"\2\0\0\0", filled.body[-96:-64])
    assert (sent[:12] + sent[16:-32], len(sent)) == (kept[:12] + kept[16:64] + kept[96:-32], len(kept) - 32)


def test_explain_says_that_the_store_has_it_and_keeps_nothing(filled, regard, tmp_path):
    settings = READ_ONLY | {"REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_REMOTE": filled.url}
    (stage,) = json.loads(regard("explain", PROBLEM, "--json", **settings).out)["plan"]["stages"]
    assert stage["tier"] == "remote"
    (stage,) = json.loads(regard("explain", PROBLEM, "--json", **settings).out)["plan"]["stages"]
    assert stage["tier"] == "remote"


def test_without_the_cache(filled, run):
    stage, _, err = run(filled.url, REGARD_CACHE="off")
    assert (stage["tier"], err) == ("remote", "")


def test_what_it_does_not_have_is_no_failure(store, run):
    server = store()
    _, answer, err = run(server.url)
    reason = answer["plan"]["fallback_reason"]
    assert f"not in the remote store {server.url}, and REGARD_JIT=off forbids" in reason
    assert "not used any more" not in err and server.asked == ["GET"]


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


BAD = {
    "status 500": (lambda _: remote_server.status(500), "it answers a GET with status 500"),
    "status 204": (lambda _: remote_server.status(204), "status 204"),
    "slow": (lambda _: remote_server.slow, "it did not answer in full within 1 s"),
    "drop by drop": (lambda _: remote_server.drop_by_drop, "it did not answer in full within 1 s"),
    "closing": (lambda _: remote_server.closing, "libcurl says: "),
    "truncated": (lambda good: remote_server.truncated(good), "libcurl says: "),
    "cut": (lambda good: remote_server.body(good[:-104][:-1]), "its length is not what its header says"),
    "empty": (lambda _: remote_server.body(b""), "it is shorter than an entry's header"),
    "a page": (lambda _: remote_server.body(b"<html>" * 100), "it is not a cache entry"),
    "another schema": (lambda good: remote_server.body(flipped(good[:-104], 8)), "it has schema 5, not 1"),
    "another key": (lambda good: remote_server.body(flipped(good[:-104], 20)), "another key"),
    "flipped, unsigned": (lambda good: remote_server.body(flipped(good[:-104], 9000)), "its checksum is wrong"),
    "flipped, signed": (lambda good: remote_server.body(flipped(good, 9000)), "its signature is wrong"),
    "huge": (lambda _: remote_server.announced, "its answer has more than 68157"),
    "endless": (lambda _: remote_server.endless, "its answer has more than 68157"),
    "a long header": (lambda _: remote_server.long_header, "libcurl cannot take its answer, whose header may be too"),
    "elsewhere": (lambda _: remote_server.redirect("http://127.0.0.1:1/x"), "'http://127.0.0.1:1/x', and only"),
    "to a file": (lambda _: remote_server.redirect("file:///etc/passwd"), "'file:///etc/passwd', and only"),
    "in circles": (lambda _: remote_server.redirect("{path}"), "it redirects more than 3 times"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_bad_server_costs_a_warning(how, filled, store, run, tmp_path):
    answer, said = BAD[how]
    server = store(answer(filled.body))
    start = time.monotonic()
    seconds = "1" if "within 1 s" in said else "20"
    stage, report, err = run(server.url, REGARD_REMOTE_SECONDS=seconds)
    assert time.monotonic() - start < 15
    assert err.startswith(f"regard: the remote store {server.url} is not used any more: ") and said in err
    assert err.count("not used any more") == 1 and server.asked in (["GET"], ["GET"] * 4)  # four for a redirect loop
    assert stage["tier"] == "built-in" and "cpu_generic_forward" in stage["kernel"]
    assert "not available from the remote store" in report["plan"]["fallback_reason"]
    assert not [path for path in (tmp_path / "cache").glob("*.regard") if path.stat().st_size > 4096]


def test_a_dead_server_is_asked_once_by_a_process(store, regard_words, tmp_path):
    server = store(remote_server.slow)
    settings = READ_ONLY | {"REGARD_REMOTE": server.url, "REGARD_REMOTE_SECONDS": "1"}
    settings["REGARD_CACHE_DIR"] = str(tmp_path / "cache")
    kernels = [f"cpu-avx2 | fwd fp32 b=1 h=1 s=24 d={d}" for d in (59, 60, 61, 62)]
    (tmp_path / "record").write_text("".join(kernel + "\n" for kernel in kernels))
    words = ["prebuild", "--target=cpu-avx2", "--record=record", "--threads=1", "--json"]
    start = time.monotonic()
    done = regard_words(*words, **settings)
    rows = json.loads(done.out)
    assert time.monotonic() - start < 15 and server.asked == ["GET"] and done.err.count("not used any more") == 1
    assert done.code == 3 and len(rows) == 4
    assert sum("which failed before" in row["error"] for row in rows) == 3


def test_prebuild_fetches(filled, regard, tmp_path):
    (tmp_path / "record").write_text(f"cpu-avx2 | {PROBLEM}\n")
    settings = READ_ONLY | {"REGARD_REMOTE": filled.url, "REGARD_CACHE_DIR": str(tmp_path / "cache")}
    done = regard("prebuild --target=cpu-avx2 --record=record", **settings)
    assert done.code == 0 and ", 1 fetched, 0 there before, 0 failed" in done.out, done.out + done.err


def test_nothing_listens(run):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        stage, _, err = run(f"http://127.0.0.1:{reserved.getsockname()[1]}")
    assert stage["tier"] == "built-in" and "is not used any more: libcurl says: " in err


def test_without_libcurl(store, run, tmp_path):
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        (tmp_path / name).touch()  # the loader finds it first
    server = store()
    stage, _, err = run(server.url, LD_LIBRARY_PATH=str(tmp_path))
    assert stage["tier"] == "built-in" and "it takes libcurl, which cannot be opened" in err and server.asked == []


def test_redirects_within_the_host_are_followed(filled, store, run):
    server = store()
    server.kept = {path.replace("/cas/", "/b/"): body for path, body in filled.kept.items()}

    def answer(handler):
        name = handler.path.rpartition("/")[2]
        if handler.path.startswith("/cas/"):
            remote_server.redirect(f"/a/{name}")(handler)
        elif handler.path.startswith("/a/"):
            remote_server.redirect(server.url.replace("/cas", "/b/") + name, 307)(handler)
        else:
            remote_server.send(handler, 200, server.kept[handler.path])

    server.answer = answer
    stage, _, err = run(server.url)
    assert (stage["tier"], err, len(server.asked)) == ("remote", "", 3)


@pytest.mark.parametrize(("first", "second"), [("h.test", "h.TEST:80"), ("H.test:80", "h.test")])
def test_a_host_in_capital_letters_or_with_its_port_is_the_same(filled, store, run, first, second):
    proxy = store()  # its requests have whole URLs

    def answer(handler):
        name = handler.path.rpartition("/")[2]
        if "/b/" in handler.path:
            return remote_server.send(handler, 200, filled.kept[f"/cas/{name}"])
        remote_server.redirect(f"http://{second}/b/{name}")(handler)

    proxy.answer = answer
    through = {"http_proxy": proxy.url.removesuffix("/cas"), "no_proxy": ""}
    stage, _, err = run(f"http://{first}/a", **through)
    assert (stage["tier"], err, len(proxy.asked)) == ("remote", "", 2)


def test_only_what_a_trusted_key_has_signed(filled, store, run, keys, tmp_path):
    (_, own), (_, other) = keys["own"], keys["other"]
    stage, _, err = run(filled.url, "trusted", REGARD_TRUSTED_KEYS=f"{other},{own}")
    assert (stage["tier"], err) == ("remote", "")
    _, _, err = run(filled.url, "untrusted", REGARD_TRUSTED_KEYS=other)
    assert "it is signed with the key " + own in err
    unsigned = store(remote_server.body(filled.body[:-104]))
    _, _, err = run(unsigned.url, "unsigned", REGARD_TRUSTED_KEYS=own)
    assert "it is not signed" in err
    stage, _, err = run(unsigned.url, "nobody is trusted")
    assert (stage["tier"], err) == ("remote", "")
    # A signature by another key under the name of a trusted one.
    forged = store(remote_server.body(flipped(filled.body, len(filled.body) - 1)))
    _, _, err = run(forged.url, "forged", REGARD_TRUSTED_KEYS=own)
    assert "its signature is wrong" in err


def test_eight_processes_ask_and_compile_once(store, tmp_path):
    server = store()
    settings = {"REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_REMOTE": server.url, "REGARD_REMOTE_WRITE": "on"}
    processes = [
        subprocess.Popen(
            [COMMAND, "run", "fwd fp32 b=1 h=1 s=8 d=61", "--json"],
            env=environment() | ALWAYS | settings,
            stdout=subprocess.PIPE,
        )
        for _ in range(8)
    ]
    counters = [json.loads(process.communicate(timeout=60)[0])["counters"] for process in processes]
    assert sum(one["compiled"] for one in counters) == 1 and sum(one["cached"] for one in counters) == 7
    assert server.asked == ["GET", "PUT"]


def test_a_put_that_fails_is_not_the_callers(store, run):
    server = store()
    server.server.RequestHandlerClass.do_PUT = lambda handler: remote_server.send(handler, 403, b"")
    stage, _, err = run(server.url, REGARD_JIT="on", REGARD_REMOTE_WRITE="on")
    assert stage["tier"] == "compile" and "it answers a PUT with status 403" in err
    stage, *_ = run(server.url)
    assert stage["tier"] == "cache"


def test_bad_settings(refused, keys, tmp_path):
    def sentence(**settings):
        return refused("run", PROBLEM, **READ_ONLY | {"REGARD_CACHE_DIR": str(tmp_path)} | settings)

    for url in ("ftp://host/x", "host/x", "file:///etc", "http://", "https:///x", "http://h/x?a=b", "http://h/#"):
        assert "REGARD_REMOTE: " in sentence(REGARD_REMOTE=url), url
    assert "leaves no time" in sentence(REGARD_REMOTE="http://h", REGARD_REMOTE_SECONDS="0")
    trusting = {"REGARD_REMOTE_WRITE": "on", "REGARD_TRUSTED_KEYS": keys["own"][1]}
    assert "set REGARD_SIGNING_KEY" in sentence(REGARD_REMOTE="http://h", **trusting)
    writing = {"REGARD_REMOTE": "http://h", "REGARD_REMOTE_WRITE": "on", "REGARD_JIT": "on"}
    printed = sentence(**writing, REGARD_SIGNING_KEY=f"{tmp_path}/none")
    assert f"REGARD_SIGNING_KEY: the key file '{tmp_path}/none' cannot be used: it cannot be opened" in printed
    shutil.copy(keys["own"][0], tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    printed = sentence(**writing, REGARD_SIGNING_KEY=str(tmp_path / "key"))
    assert "users other than its owner can read or write it (its mode is 640); `chmod 600` fixes that" in printed
    assert "cannot be listed" in refused("list", "--tier=remote")


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hidden@h/x",
        "https://hidden@h",
        "ftp://me:hidden@h/x",
        "me:hidden@h/x",
        "http://me:hid/den@h/x",
        "http://h/x?token=hidden",
        "http://h/x#hidden",
    ],
)
def test_passwords_are_shown_nowhere(url, regard, tmp_path):
    (tmp_path / "record").write_text(f"cpu-avx2 | {PROBLEM}\n")
    settings = READ_ONLY | {"REGARD_REMOTE": url, "REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_LOG": "all"}
    for words in (f"run {PROBLEM}", f"explain {PROBLEM} --json", "prebuild --target=cpu-avx2 --record=record"):
        done = regard(words, **settings)
        said = done.out + done.err
        assert "hid" not in said and "REGARD_REMOTE: " in said, words
    for words in ("info", "info --json"):
        done = regard(words, **settings)
        assert (done.code, "hid" in done.out + done.err, "***" in done.out) == (0, False, True)


def test_a_redirect_with_a_password_is_told_without_it(store, run):
    _, _, err = run(store(remote_server.redirect("http://me:hidden@elsewhere/x?hidden")).url)
    assert "it redirects to 'http://***@elsewhere/x?***', and only" in err


def test_without_a_compiler_nothing_is_asked(store, run):
    server = store()
    _, answer, _ = run(server.url, REGARD_CXX="/dev/null/c++")
    assert "whose keys depend on the compiler" in answer["plan"]["fallback_reason"] and server.asked == []


def test_names_and_passwords_of_netrc(filled, store, run, tmp_path):
    server = store()
    server.kept = filled.kept
    given = []
    server.answer = lambda handler: (
        given.append(handler.headers["Authorization"]),
        remote_server.send(handler, 200, server.kept[handler.path]),
    )
    home = tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text("machine localhost login me password secret\n")
    (home / ".netrc").chmod(0o600)
    stage, *_ = run(server.url, HOME=str(home))
    assert stage["tier"] == "remote" and given == ["Basic bWU6c2VjcmV0"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for localhost."""
    file = tmp_path_factory.mktemp("certificate") / "pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    alternative = ["-addext", "subjectAltName=DNS:localhost", "-keyout", file, "-out", file.with_suffix(".crt")]
    subprocess.run([*words.split(), *alternative], check=True, capture_output=True)
    file.write_text(file.read_text() + file.with_suffix(".crt").read_text())
    return file


def test_https(filled, store, run, certificate):
    server = store(certificate=certificate)
    server.kept = filled.kept
    trusted = {"SSL_CERT_FILE": str(certificate.with_suffix(".crt"))}
    stage, _, err = run(server.url, "trusted", **trusted)
    assert (stage["tier"], err) == ("remote", "")
    stage, _, err = run(server.url, "not trusted", SSL_CERT_FILE="")
    assert stage["tier"] == "built-in" and "certificate" in err
    stage, _, err = run(server.url.replace("localhost", "127.0.0.1"), "another name", **trusted)
    assert stage["tier"] == "built-in" and "127.0.0.1" in err
    server.answer = remote_server.redirect(filled.url + "/x")  # without TLS
    stage, _, err = run(server.url, "downgraded", **trusted)
    assert stage["tier"] == "built-in" and "only redirects within https://localhost" in err


def test_ctrl_c_ends_a_request(store, tmp_path):
    server = store(remote_server.slow)
    settings = {"REGARD_CACHE_DIR": str(tmp_path), "REGARD_REMOTE": server.url}
    process = subprocess.Popen([COMMAND, "run", PROBLEM], env=environment() | READ_ONLY | settings, stderr=-1)
    while not server.asked:
        time.sleep(0.01)
    start = time.monotonic()
    process.send_signal(2)
    process.communicate(timeout=20)
    assert time.monotonic() - start < 5 and process.returncode != 0


NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log; {user}
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/body; client_max_body_size 100m;
  proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ root {folder}/kept; dav_methods PUT; create_full_put_path on; }}
  }}
}}
"""


def test_nginx(run, tmp_path):
    """A widely used server, with its WebDAV module."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    assert program, "no nginx here: ./dev setup installs it"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path / "nginx"
    (folder / "kept").mkdir(parents=True)
    user = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
    (folder / "conf").write_text(NGINX.format(folder=folder, port=port, user=user))
    server = subprocess.Popen([program, "-e", folder / "start.log", "-c", folder / "conf", "-p", folder])
    try:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.02)
        url = f"http://127.0.0.1:{port}/regard/cas"
        settings = {"REGARD_JIT": "on", "REGARD_REMOTE_WRITE": "on"}
        stage, _, err = run(url, "first", **settings)
        assert (stage["tier"], err) == ("compile", "")
        assert len(list(pathlib.Path(folder, "kept/regard/cas").iterdir())) == 1
        stage, _, err = run(url, "second")
        assert (stage["tier"], err) == ("remote", "")
    finally:
        server.terminate()
        server.wait(10)
