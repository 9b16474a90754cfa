"""Measures what a path carries: the time of a TCP handshake, and the rate of one TCP stream.

    measure.py serve                         listens on PORT until it is ended
    measure.py probe ADDRESS WARM SECONDS    prints a JSON object

The prober dials, as only that works out of a NAT, and measures both directions:

    rtt            median over handshakes of the time until the other kernel's answer
    up, down       bytes a second that arrive in SECONDS after a start of WARM seconds: what a
                   program gets, without the headers of IP and TCP
"""

import json
import os
import select
import socket
import statistics
import struct
import sys
import threading
import time

PORT = 7077
BLOCK = bytes(1 << 18)
HANDSHAKES = 15
TCPI_RTT = slice(68, 72)  # of struct tcp_info in linux/tcp.h, in microseconds
ORDER = struct.Struct("!cdd")  # up or down, WARM, SECONDS


class Unmeasured(Exception):
    """Nothing, or not for long enough, came over the path."""


def receive_exactly(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise Unmeasured("the other side hung up")
        data += piece
    return data


def receive(connection, warm, seconds):
    """Bytes a second, from the first arrival after `warm` to the last within `seconds` of it."""
    block = bytearray(1 << 20)
    connection.settimeout(warm + seconds + 10)
    while not connection.recv_into(block):
        raise Unmeasured("nothing came")
    begin = time.monotonic() + warm
    first = last = None
    total = 0
    while last is None or last < first + seconds:
        size = connection.recv_into(block)
        now = time.monotonic()
        if not size:
            raise Unmeasured("the stream ended early")
        if first is None:
            if now < begin:
                continue
            first = now  # what came until now does not count
            last = now
            continue
        total += size
        last = now
    return total / (last - first)


def send(connection):
    """As fast as it goes, until the other side has had enough and says something."""
    connection.setblocking(False)
    while True:
        readable, _, _ = select.select([connection], [connection], [], 60)
        if readable:
            return
        try:
            connection.send(BLOCK)
        except BlockingIOError:
            pass


def drop(connection):
    """What is still on the way is of no use: a reset, no end in order."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def answer(connection):
    try:
        direction, warm, seconds = ORDER.unpack(receive_exactly(connection, ORDER.size))
        if direction == b"u":
            rate = receive(connection, warm, seconds)
            connection.sendall(struct.pack("!d", rate))
            connection.settimeout(60)
            while connection.recv(1 << 20):  # until the sender drops it
                pass
        else:
            send(connection)
    except (OSError, Unmeasured, struct.error):
        pass  # a handshake alone, or a prober that has dropped the rest
    finally:
        connection.close()


def serve():
    listener = socket.create_server(("0.0.0.0", PORT), backlog=128)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def handshake(address):
    """What the kernel has measured between its SYN and the answer, in seconds: a busy machine
    wakes this program late, but not its kernel."""
    connection = socket.create_connection((address, PORT), timeout=10)
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCPI_RTT.stop)
    drop(connection)
    return int.from_bytes(info[TCPI_RTT], sys.byteorder) / 1e6


def rate(address, direction, warm, seconds):
    connection = socket.create_connection((address, PORT), timeout=10)
    connection.sendall(ORDER.pack(direction, warm, seconds))
    try:
        if direction == b"d":
            return receive(connection, warm, seconds)
        send(connection)
        connection.setblocking(True)
        connection.settimeout(10)
        return struct.unpack("!d", receive_exactly(connection, 8))[0]
    finally:
        drop(connection)


def probe(address, warm, seconds):
    return {"rtt": statistics.median(handshake(address) for _ in range(HANDSHAKES)),
            "up": rate(address, b"u", warm, seconds),
            "down": rate(address, b"d", warm, seconds)}


def main():
    # The line is measured, not who else wants the CPU.
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        pass  # without the right to it, a busy machine shows
    if sys.argv[1:2] == ["serve"]:
        serve()
    address, warm, seconds = sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    try:
        print(json.dumps(probe(address, warm, seconds)))
    except (OSError, Unmeasured) as error:
        print(f"{address}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
