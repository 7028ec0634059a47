#!/usr/bin/env python3
"""Stands in for NVIDIA's `nvidia-cuda-mps-control`: a daemon with `-f`, else what tells it."""

import os
import socket
import sys

FOLDER = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
PATH = os.path.join(FOLDER, "control")
# What it was told, for a test to read.
SAID = os.path.join(FOLDER, "said")


def answer(words):
    """What the daemon has to say to somebody; nothing for an end."""
    if words[:1] == ["quit"]:
        return None
    if words[:1] == ["get_server_list"]:
        return f"{os.getpid()}\n"
    with open(SAID, "a") as said:
        print(" ".join(words), file=said)
    return ""


def daemon():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(PATH)
    listener.listen()
    while True:
        client, _ = listener.accept()
        with client, client.makefile("rw") as stream:
            said = answer(stream.readline().split())
            if said is None:
                return
            stream.write(said)


def tell():
    for line in sys.stdin:
        with socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(PATH)
            daemon.sendall(line.encode())
            print(daemon.makefile().read(), end="", flush=True)


if __name__ == "__main__":
    daemon() if "-f" in sys.argv else tell()
