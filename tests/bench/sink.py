"""The bare side of uploads: `python sink.py FILE` prints a port, and writes each connection's bytes there, fsynced."""

import os
import socket
import sys


def main() -> None:
    """Serve until terminated: one connection after the other, each answered with one byte when its file is on disk."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        buffer = memoryview(bytearray(1 << 20))
        while True:
            peer, _ = server.accept()
            with peer, open(sys.argv[1], "wb", buffering=0) as file:  # noqa: PTH123
                while count := peer.recv_into(buffer):
                    file.write(buffer[:count])
                os.fsync(file.fileno())
                peer.sendall(b".")


if __name__ == "__main__":
    main()
