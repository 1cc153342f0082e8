"""A standalone cluster on loopback, of real processes, and jobs to kill on it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from tests.spark import session

JOB = [sys.executable, "-m", "kafkalog.spark.job"]
DEPLOY = "org.apache.spark.deploy"
EXECUTOR = "CoarseGrainedExecutorBackend"
WORKER_SIZE = ("--cores", "1", "--memory", "600m", "--host", "127.0.0.1")
SETTINGS = {
    "spark.driver.extraJavaOptions": session.QUICK_START,
    "spark.executor.extraJavaOptions": session.QUICK_START,
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
DAEMON = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": session.QUICK_START}
PATIENCE_S = 180


class Cluster:
    """A master and two workers of one core each; `url` is the master's."""

    def __init__(self, folder):
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self.folder = folder
        self._processes = []
        address = ("--host", "127.0.0.1", "--port", str(port))
        self._start("master.Master", *address, "--webui-port", "0")
        until(lambda: listens(port), "the master to listen")
        for number in (1, 2):
            work = folder / f"work-{number}"
            tp = ("--webui-port", "0", "--work-dir", str(work))
            self._start("worker.Worker", *WORKER_SIZE, *tp, self.url)

    def _start(self, name, *arguments):
        from pyspark.find_spark_home import _find_spark_home

        command = [f"{_find_spark_home()}/bin/spark-class", f"{DEPLOY}.{name}"]
        with (self.folder / f"{name}-{len(self._processes)}.log").open("wb") as log:
            started = subprocess.Popen(
                [*command, *arguments],
                env=os.environ | session.environment() | DAEMON,
                stdout=log,
                stderr=log,
            )
        self._processes.append(started)

    def executors(self):
        """Return the ids of the processes that run tasks."""
        workers = {process.pid for process in self._processes}
        return [pid for pid in java_of(EXECUTOR) if parent_of(pid) in workers]

    def stop(self):
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(PATIENCE_S)


class Submitted:
    """A job that runs as a process of its own, with the Java machine of its driver."""

    def __init__(self, out, *arguments, master):
        self.out = Path(out)
        settings = [f"--conf={name}={value}" for name, value in SETTINGS.items()]
        self.process = subprocess.Popen(
            [*JOB, *map(str, arguments), str(out), "--master", master, *settings],
            env=os.environ | session.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def until_written(self, count, pattern="_kafkalog/staging-*/*.staged"):
        """Wait until tasks have written some of the files."""
        until(
            lambda: len(list(self.out.glob(pattern))) >= count,
            f"{count} files",
            running=lambda: self.process.poll() is None,
        )

    def kill(self):
        """Kill the driver at once, Python and Java."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def ended(self):
        """Wait for the end; return standard output if the exit code is 0."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, stderr
        return stdout

    def message(self):
        """Wait for the end; return what was printed as JSON."""
        return json.loads(self.ended())


@contextmanager
def running(folder):
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()


def until(is_so, what, running=lambda: True):
    """Wait until a condition holds; fail after a timeout."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert running(), f"ended before there were {what}"
        assert time.monotonic() < end, f"waited for {what} in vain"
        time.sleep(0.02)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def java_of(name):
    """Return the ids of processes with a word in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if name.encode() in words:
            found.append(int(folder.name))
    return found


def parent_of(pid):
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended
        return None
    return int(text.rpartition(")")[2].split()[1])
