"""A shell into which a test types, as somebody at a terminal does."""

import os
import queue
import signal
import subprocess
import threading
import time

MARK = "-- the shell is at its prompt again: "


class Shell:
    """One session: what a command leaves (variables, its folder) is there for the next."""

    def __init__(self, folder, environment):
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            errors="replace", start_new_session=True)
        self.lines = queue.Queue()
        self.output = ""  # of the command begun last
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.send("trap : INT")  # Ctrl-C ends the command, not the session

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def begin(self, command):
        """Types a command and does not wait for its end."""
        self.output = ""
        self.send(f"{{ {command}\n}} </dev/null\nprintf '\\n{MARK}%d\\n' $?")

    def end(self, seconds, until=None):
        """Waits for the end of the command and returns its exit code; or, with `until`, for that
        text in its output, and returns None. TimeoutError if neither comes."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"not done after {seconds} s") from None
            if line is None:
                raise AssertionError("the shell itself has ended")
            if line.startswith(MARK):
                return int(line[len(MARK):])
            self.output += line
            if until is not None and until in line:
                return None

    def type(self, command, seconds=60):
        """Returns the exit code; the output is in `output`."""
        self.begin(command)
        return self.end(seconds)

    def interrupt(self):
        """Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self):
        """Ends what still runs in the session, and the session."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.reader.join(timeout=10)
        self.process.stdout.close()
