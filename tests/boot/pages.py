"""Web pages of a machine's tenants, as clients outside of the machine get them."""

import http.client
import threading
import time

from machine import same
from patience import MachineClock, watched

# A page that does not come at all hangs. How long one takes that comes is no matter of a test, seconds.
PATIENCE_S = 300
# Whoever waits until a tenant serves asks anew after so long, seconds.
TRY_S = 20


def page(port, path="/4k", timeout=PATIENCE_S):
    """The bytes of a page; an OSError or an HTTPException if it does not come whole, an AssertionError if its status is not 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        same(answer.status, 200, f"status of {path}")
        return body
    finally:
        connection.close()


def answers(port, path="/4k", timeout=TRY_S):
    """Whether a tenant serves a page now."""
    try:
        return bool(page(port, path, timeout))
    except (OSError, http.client.HTTPException, AssertionError):
        return False


def serves(machine, port, path="/4k", limit_s=90):
    """Waits until a tenant of the machine of this name serves a page, in the machine's own time."""
    clock = MachineClock(machine)
    while not watched(clock, answers, port, path):
        assert clock.passed() < limit_s, f"port {port} does not serve {path} ({clock.words()})"
        time.sleep(0.2)


class Load:
    """Clients of a tenant that serves, in the block of a `with`: each asks for a page, one request after the other. An answer that does not
    come, or is not the first one's, is an error."""

    def __init__(self, port, path="/4k", clients=1):
        self.port, self.path, self.served, self.errors, self.expected = port, path, 0, [], b""
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]

    def _run(self):
        while not self.is_over.is_set():
            try:
                assert page(self.port, self.path) == self.expected, "another page"
                self.served += 1
            except Exception as error:
                self.errors.append(repr(error))

    def __enter__(self):
        self.expected = page(self.port, self.path)
        [thread.start() for thread in self.threads]
        return self

    def __exit__(self, *_):
        self.is_over.set()
        [thread.join() for thread in self.threads]
