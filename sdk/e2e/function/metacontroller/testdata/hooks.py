"""Serves hooks of Metacontroller: each is a function of the request, at the path of its name."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def serve(*hooks):
    by_path = {"/" + hook.__name__.replace("_", "-"): hook for hook in hooks}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(by_path[self.path](request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
