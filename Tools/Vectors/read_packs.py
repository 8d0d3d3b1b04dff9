#!/usr/bin/env python3
"""Reads packs by Spec/PackFormat.md alone: a reader of few lines, against which BlobCache's is held.

  Tools/Vectors/read_packs.py [--index] DIRECTORY

DIRECTORY is the `.packs` of a cache. A line of JSON is printed for the newest record of each name, found by a walk of
all chunks, or with --index by the index. A damaged payload is passed over.
"""
import json
import os
import struct
import sys
import zlib

CHUNK, QUARTER, CHUNKS_AT, TABLE_OF_DEAD = 1_032_192, 258_048, 2_166_784, 69_632


def record(data, offset, address, salt):
    """The record that begins at an offset of a chunk's bytes; None if there is none."""
    if offset % 512 > 472 or len(data) - offset < 64 or data[offset + 36:offset + 40] != b"PREC":
        return None
    crc, checksum, first, second, third, count = struct.unpack_from("<IIQQQI", data, offset)
    name_size, flags, mask = first >> 56, second >> 56, (1 << 40) - 1
    payload_size, tail_size = second >> 40 & 0xFFFF, third >> 40 & 0xFFFF
    start = offset + 40 + name_size
    size = 40 + name_size + payload_size + tail_size
    if flags != (14 if tail_size else 6) or 0 < tail_size < 16 or third >> 56 or not name_size or size > 32_752:
        return None
    if max(64, size) > min(len(data), CHUNK) - offset:
        return None
    if crc != zlib.crc32(struct.pack("<IQ", salt, address) + data[offset + 4:start]):
        return None
    payload = data[start:start + payload_size]
    ttl = third & mask
    return {
        "offset": offset, "size": max(64, size), "sequence": first & (1 << 56) - 1, "refCount": count,
        "name": data[offset + 40:start].decode(), "updateTime": second & mask, "ttl": 2**63 - 1 if ttl == mask else ttl,
        "payloadCRC32": "0x%08x" % zlib.crc32(payload), "isSound": zlib.crc32(payload) == checksum,
        "payloadSize": payload_size, "extensionSize": tail_size,
    }


def read(file, offset, size):
    return os.pread(file, size, offset)


def sectors(file, chunk):
    """The four dead sectors of a chunk: the salt, None where the two words do not fit, and the sector."""
    data = read(file, TABLE_OF_DEAD + chunk * 2048, 2048)
    for quarter in (data[at:at + 512] for at in range(0, 2048, 512)):
        salt, inverse = struct.unpack_from("<II", quarter.ljust(512, b"\0"))
        yield salt if salt ^ inverse == 0xFFFFFFFF else None, quarter


def is_dead(quarters, offset):
    cell = offset % QUARTER // 64
    return quarters[offset // QUARTER][1][8 + cell // 8] >> cell % 8 & 1 == 1


def walk(data, pack, chunk, quarters):
    offset = 0
    while offset + 64 <= len(data):
        salt = quarters[offset // QUARTER][0]
        found = salt is not None and record(data, offset, pack << 27 | chunk << 17 | offset // 8, salt)
        if found:
            yield found
        # A record's end may be no multiple of 8.
        offset = (offset + found["size"] + 7) // 8 * 8 if found else offset + 8


def newest_by_walk(directory):
    newest = {}
    for pack in range(1024):
        path = os.path.join(directory, f"p-{pack}")
        if not os.path.exists(path):
            continue
        file = os.open(path, os.O_RDONLY)
        for chunk in range(1024):
            quarters = list(sectors(file, chunk))
            if all(salt is None for salt, _ in quarters):
                continue
            for found in walk(read(file, CHUNKS_AT + chunk * CHUNK, CHUNK), pack, chunk, quarters):
                if is_dead(quarters, found["offset"]) or not found["isSound"]:
                    continue
                rival = newest.get(found["name"])
                if rival is None or rival["sequence"] < found["sequence"]:
                    newest[found["name"]] = found
    return newest.values()


def digest(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def search(index, count, seed, name):
    """The entries that a search for a name meets, and their times of use."""
    value = digest(name) ^ seed
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    value ^= value >> 31
    bucket = value * count >> 64
    for _ in range(min(64, count)):
        words = struct.unpack_from("<5Q6I", index, 4096 + bucket * 64)
        yield from ((entry, words[5 + slot]) for slot, entry in enumerate(words[:5]) if entry and entry >> 48 == value & 0xFFFF)
        if not words[10]:
            return
        bucket = (bucket + 1) % count


def newest_by_index(directory):
    """Looks at each entry, and then finds its name as a load does."""
    index = open(os.path.join(directory, "index"), "rb").read()
    magic, version, _, count, seed = struct.unpack_from("<8s4Q", index)
    assert (magic, version) == (b"BLOBINDX", 1)
    for at in range(4096, 4096 + count * 64, 64):
        for entry in filter(None, struct.unpack_from("<5Q", index, at)):
            pack, chunk, offset = entry >> 27 & 1023, entry >> 17 & 1023, (entry & 0x1FFFF) * 8
            file = os.open(os.path.join(directory, f"p-{pack}"), os.O_RDONLY)
            data = read(file, CHUNKS_AT + chunk * CHUNK, CHUNK)
            salt = list(sectors(file, chunk))[offset // QUARTER][0]
            found = record(data, offset, entry & (1 << 37) - 1, salt)
            times = [time for other, time in search(index, count, seed, found["name"]) if other == entry]
            assert len(times) == 1 and (entry >> 37 & 0x7FF) * 16 == (found["size"] + 15) // 16 * 16
            yield found | {"lastUse": 1_600_000_000 + times[0]}


if __name__ == "__main__":
    arguments = sys.argv[1:]
    by_index = "--index" in arguments and not arguments.remove("--index")
    if len(arguments) != 1:
        sys.exit(__doc__)
    for found in sorted((newest_by_index if by_index else newest_by_walk)(arguments[0]), key=lambda r: r["offset"]):
        print(json.dumps(found))
