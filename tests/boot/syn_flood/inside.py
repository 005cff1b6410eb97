#!/usr/bin/env python3
"""The far end of a machine's wire: floods a tenant's port 80 with SYN segments, or asks it for a page.

usage: inside.py flood ADDRESS FIRST LEAST      until its input ends and LEAST segments are sent; it says so when it has sent FIRST
       inside.py ask ADDRESS TIMES BYTES        how long each took, and how often a client's first segment was sent again
"""

import json
import random
import socket
import struct
import sys
import threading
import time

DEVICE = "wire0"
# A client that gets no answer at all gives up after so long, seconds.
PATIENCE_S = 300
# The place of the count of segments that a socket has sent again in struct tcp_info (linux/tcp.h).
TOTAL_RETRANS = 100


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff


def syn(source, target, dice):
    """A packet that opens a connection from an address where nobody is."""
    tcp = struct.pack("!HHIIBBHHH", dice.randrange(1024, 65536), 80, dice.getrandbits(32), 0, 6 << 4, 2, 65535, 0, 0) + b"\x02\x04\x05\xb4"
    tcp = tcp[:16] + struct.pack("!H", checksum(source + target + struct.pack("!HH", 6, len(tcp)) + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), dice.getrandbits(16), 0, 64, 6, 0) + source + target
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp


def hardware_address(address):
    """That of a neighbour who was asked before."""
    socket.create_connection((address, 80), PATIENCE_S).close()
    for line in open("/proc/net/arp").readlines()[1:]:
        if line.split()[0] == address:
            return bytes.fromhex(line.split()[3].replace(":", ""))
    raise SystemExit(f"no neighbour {address}")


def flood(address, first, least):
    target, dice = socket.inet_aton(address), random.Random(17)
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind((DEVICE, 0))
    head = hardware_address(address) + raw.getsockname()[4] + b"\x08\x00"
    sent, is_told, is_over = 0, False, threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    while sent < least or not is_over.is_set():
        for _ in range(10):
            source = bytes([198, 18, dice.randrange(256), dice.randrange(1, 255)])
            try:
                raw.send(head + syn(source, target, dice))
                sent += 1
            except OSError:
                pass
        if sent >= first and not is_told:
            is_told = True
            print("floods", flush=True)
        time.sleep(0.002)
    return {"sent": sent}


def ask(address, times, length):
    took, again, wrong = [], 0, []
    for _ in range(times):
        begun = time.time()
        try:
            with socket.create_connection((address, 80), PATIENCE_S) as stream:
                again += struct.unpack_from("I", stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), TOTAL_RETRANS)[0]
                stream.sendall(b"GET /page HTTP/1.0\r\n\r\n")
                answer = b""
                while piece := stream.recv(65536):
                    answer += piece
            if len(answer.partition(b"\r\n\r\n")[2]) != length:
                wrong.append(f"{len(answer)} bytes")
        except OSError as error:
            wrong.append(str(error))
        took.append(round(1000 * (time.time() - begun), 1))
    return {"ms": took, "again": again, "wrong": wrong}


kind, address, *numbers = sys.argv[1:]
print(json.dumps({"flood": flood, "ask": ask}[kind](address, *map(int, numbers))))
