"""A schema registry on this machine, for tests."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


@contextmanager
def serving(answers, user=None):
    """Serve a mapping of paths to answers; yield the URL, and the paths requested.

    With `user`, other values of ``Authorization`` are answered with 401.
    """
    requested = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            answer = answers.get(self.path)
            code = 404 if answer is None else 200
            if user is not None and self.headers["Authorization"] != user:
                code = 401
            body = json.dumps(answer if code == 200 else {"error_code": code}).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requested
        finally:
            server.shutdown()
            thread.join()
