"""A remote store, as an HTTP server: it keeps what is PUT by its path. Each way in which a server can misbehave is an
answer that replaces the good one."""

import contextlib
import http.server
import ssl
import threading


class Store:
    """Serves at `url`; keeps files in `kept` and requests in `asked`; `answer(handler)` answers a GET instead."""

    def __init__(self, answer=None, certificate=None):
        self.kept, self.asked, self.answer = {}, [], answer
        self.closing = threading.Event()
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def setup(self):
                super().setup()
                self.store = store

            def do_GET(self):
                store.asked.append("GET")
                if store.answer:
                    store.answer(self)
                elif self.path in store.kept:
                    send(self, 200, store.kept[self.path])
                else:
                    send(self, 404, b"nothing")

            def do_PUT(self):
                store.asked.append("PUT")
                store.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
                send(self, 201, b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://localhost:{self.server.server_address[1]}/cas"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def body(self):
        """The body of the only kernel."""
        (body,) = self.kept.values()
        return body

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


def send(handler, status, body, length=None, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    with contextlib.suppress(OSError):  # the client may have closed the connection
        handler.wfile.write(body)


def status(number):
    return lambda handler: send(handler, number, b"no")


def body(data):
    return lambda handler: send(handler, 200, data)


def truncated(data):
    return lambda handler: send(handler, 200, data[: len(data) // 2], length=len(data))


def slow(handler):
    handler.store.closing.wait(30)


def drop_by_drop(handler):
    """Sends each byte in time, but never the whole body."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    with contextlib.suppress(OSError):
        while not handler.store.closing.wait(0.05):
            handler.wfile.write(b"x")


def closing(handler):
    handler.close_connection = True


def announced(handler):
    send(handler, 200, b"x", length=1 << 40)


def endless(handler):
    """Sends without end, and without a length."""
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    block = bytes(1 << 20)
    with contextlib.suppress(OSError):
        while not handler.store.closing.is_set():
            handler.wfile.write(block)


def long_header(handler):
    """Sends a header longer than libcurl accepts."""
    handler.send_response(200)
    handler.send_header("X", "x" * 200_000)
    handler.end_headers()


def redirect(to, code=302):
    """A redirect to `to`, in which {path} stands for the path that was asked for."""
    return lambda handler: send(handler, code, b"", Location=to.format(path=handler.path))
