"""Command-line tools as long-running processes, for the drivers of kcat and of
Kafka's own tools."""

import subprocess
import threading

import scenarios


class Reader:
    """A consuming process; every line of its output is one value."""

    def __init__(self, command, on_error_line=None):
        self.p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.received, self.assigned = [], set()
        self.on_error_line = on_error_line
        self.last_error = ""
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.read_out, self.read_err)]
        for t in self.threads:
            t.start()

    def read_out(self):
        for line in self.p.stdout:
            self.received.append(line.decode().rstrip("\n"))

    def read_err(self):
        for line in self.p.stderr:
            self.last_error = line.decode(errors="replace")
            if self.on_error_line:
                self.on_error_line(self, self.last_error)

    def partitions(self):
        if self.p.poll() is not None:
            raise scenarios.Failure("consumer ended with %s: %s" % (self.p.returncode, self.last_error[:200]))
        return set(self.assigned)

    def leave(self):
        self.p.terminate()
        self.p.wait(30)
        for t in self.threads:
            t.join(10)
        self.assigned = set()

    close = leave


class Writer:
    """A producing process fed line by line. It acknowledges nothing one by one:
    all counts as acknowledged once it has ended without an error."""

    def __init__(self, command, bad_words=()):
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.sent, self.output, self.bad_words = [], [], bad_words
        self.thread = threading.Thread(target=lambda: self.output.extend(self.p.stdout), daemon=True)
        self.thread.start()

    def send(self, key, value):
        self.p.stdin.write(("%s:%s\n" % (key, value)).encode())
        self.p.stdin.flush()
        self.sent.append(value)

    def close(self):
        self.p.stdin.close()
        code = self.p.wait(90)
        self.thread.join(10)
        text = b"".join(self.output).decode(errors="replace")
        if code != 0 or any(w in text for w in self.bad_words):
            raise scenarios.Failure("producer ended with %d: %s" % (code, text[-200:]))

    def acked(self):
        return list(self.sent)


def run(command, limit=60, stdin=None, env=None):
    """Runs a command to its end and returns its output; a failure carries it."""
    try:
        p = subprocess.run(command, input=stdin.encode() if stdin is not None else None,
                           stdin=None if stdin is not None else subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit, env=env)
    except subprocess.TimeoutExpired as e:
        raise scenarios.Failure("%s did not end within %d s: %s" % (command[0], limit, (e.stderr or b"").decode()[-200:]))
    if p.returncode != 0:
        raise scenarios.Failure("exit %d: %s" % (p.returncode, (p.stderr + p.stdout).decode(errors="replace")[-250:]))
    return p.stdout.decode(), p.stderr.decode()


def lines(records):
    return "".join("%s:%s\n" % r for r in records)


def parse(text):
    return [tuple(line.split(":", 1)) for line in text.splitlines()]
