"""Serve the built book on a free port and print its address; Ctrl-C ends it quietly."""

import argparse
import contextlib
import gzip
from collections.abc import Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

TYPES = {
    ".mjs": "text/javascript",
    ".js": "text/javascript",
    ".wasm": "application/wasm",
    ".svg": "image/svg+xml",
}
PACKED = {".html", ".css", ".js", ".mjs", ".json", ".svg"}  # what web hosts compress on the way


@cache
def packed(file: Path, changed: int) -> bytes:
    """A file's content compressed; once for each version of it."""
    return gzip.compress(file.read_bytes(), mtime=0)


class Handler(SimpleHTTPRequestHandler):
    """Files below `prefix`; a place below a sub-path is where GitHub Pages puts a book."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, **TYPES}

    def __init__(self, *args: object, prefix: str = "/", policy: str = "", **kwargs: object):
        self.prefix, self.policy = prefix, policy
        super().__init__(*args, **kwargs)

    def do_GET(self) -> None:
        if not self.path.startswith(self.prefix):
            return self.send_error(404)
        self.path = "/" + self.path.removeprefix(self.prefix)
        file = Path(self.translate_path(self.path))
        if (
            file.suffix in PACKED
            and file.is_file()
            and "gzip" in self.headers.get("Accept-Encoding", "")
        ):
            return self.send_packed(file)
        return super().do_GET()

    def send_packed(self, file: Path) -> None:
        content = packed(file, file.stat().st_mtime_ns)
        self.send_response(200)
        for name, value in (
            ("Content-Type", self.guess_type(str(file))),
            ("Content-Encoding", "gzip"),
            ("Content-Length", str(len(content))),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def end_headers(self) -> None:
        if self.policy:
            self.send_header("Content-Security-Policy", self.policy)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path, prefix: str = "/", port: int = 0, policy: str = "") -> Iterator[str]:
    """The folder's address while the block runs."""
    handler = partial(Handler, directory=str(folder), prefix=prefix, policy=policy)
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}{prefix}"
        server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    args = parser.parse_args()
    with served(args.folder, port=args.port) as address, contextlib.suppress(KeyboardInterrupt):
        print(f"The book is at {address} (Ctrl-C ends)", flush=True)
        Event().wait()


if __name__ == "__main__":
    main()
