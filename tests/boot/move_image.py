#!/usr/bin/env python3
"""Writes a copy of a kernel that loads elsewhere: usage: move_image.py KERNEL OUTPUT BYTES

Moves the physical addresses of all segments and the entry of the PVH note by BYTES, a multiple of 2 MiB. The code stays as it
was linked; the kernel must find out by itself where it lies.
"""
import struct
import sys

source, output, distance = sys.argv[1], sys.argv[2], int(sys.argv[3], 0)
image = bytearray(open(source, "rb").read())
headers, = struct.unpack_from("<Q", image, 32)
size, count = struct.unpack_from("<HH", image, 54)
for number in range(count):
    at = headers + number * size
    kind, = struct.unpack_from("<I", image, at)
    offset, = struct.unpack_from("<Q", image, at + 8)
    physical, = struct.unpack_from("<Q", image, at + 24)
    struct.pack_into("<Q", image, at + 24, physical + distance)
    if kind == 4:  # PT_NOTE: name size, descriptor size, type, "Xen\0", entry
        entry, = struct.unpack_from("<Q", image, offset + 16)
        struct.pack_into("<Q", image, offset + 16, entry + distance)
entry, = struct.unpack_from("<Q", image, 24)
struct.pack_into("<Q", image, 24, entry + distance)
open(output, "wb").write(image)
