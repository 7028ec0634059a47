"""Starts the link emulator between the remote side and its server."""

import json
import shlex
import signal
import subprocess
import threading


class LinkError(Exception):
    """The emulator could not be started."""


class Link:
    """A running emulator; a context manager. `address` is where to connect."""

    def __init__(self, binary, preset, server, extra=""):
        command = [*shlex.split(binary), "--listen", "127.0.0.1:0", "--to", server]
        # `busbar` needs its subcommand; an emulator of its own does not.
        if command[0].rsplit("/", 1)[-1] == "busbar" and "link" not in command[1:2]:
            command.insert(1, "link")
        command += ["--preset", preset, "--json", "--control", "-", *shlex.split(extra)]
        self.preset, self.report = preset, None
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise LinkError(f"cannot start {command[0]!r}: {error.strerror}") from error
        first = self.process.stdout.readline()
        try:
            self.address = json.loads(first)["listening"]
        except (ValueError, KeyError, TypeError) as error:
            self.process.kill()
            self.process.wait()
            raise LinkError(f"{shlex.join(command)} did not say where it listens") from error
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        self.lines.extend(self.process.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the emulator and keeps its counters in `report`."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(timeout=10)
        for line in self.lines:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict) and "stats" in value:
                self.report = value["stats"]
