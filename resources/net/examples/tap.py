#!/usr/bin/env python3
"""A tap device as a wire with QEMU's stream framing: tap.py DEVICE PORT [LOSS REORDER] (percentages, both ways)."""
import fcntl, os, random, select, socket, struct, sys

device, port = sys.argv[1], int(sys.argv[2])
loss, reorder = (float(word) for word in (sys.argv[3:5] or ("0", "0")))
tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH", device.encode(), 0x1002))  # TUNSETIFF, tap without header
server = socket.create_server(("127.0.0.1", port))
wire, _ = server.accept()
wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
held = {}
buffer = b""
random.seed(1)


def weather(way, frame, put):
    """Loses some frames and lets some be overtaken by the next one."""
    if random.random() * 100 < loss:
        return
    if random.random() * 100 < reorder and way not in held:
        held[way] = frame
        return
    put(frame)
    if way in held:
        put(held.pop(way))


def to_wire(frame):
    wire.sendall(struct.pack(">I", len(frame)) + frame)


def to_tap(frame):
    try:
        os.write(tap, frame)
    except BlockingIOError:
        pass


while True:
    ready, _, _ = select.select([tap, wire], [], [], 0.05)
    for way, put in (("in", to_wire), ("out", to_tap)):
        if not ready and way in held:
            put(held.pop(way))
    if tap in ready:
        try:
            for _ in range(64):
                weather("in", os.read(tap, 65536), to_wire)
        except BlockingIOError:
            pass
    if wire in ready:
        data = wire.recv(1 << 18)
        if not data:
            break
        buffer += data
        while len(buffer) >= 4:
            length = struct.unpack(">I", buffer[:4])[0]
            if len(buffer) < 4 + length:
                break
            weather("out", buffer[4 : 4 + length], to_tap)
            buffer = buffer[4 + length :]
