#!/usr/bin/env python3
"""Reads packs by Spec/PackFormat.md alone: a reader of few lines, against which BlobCache's is held.

  Tools/Vectors/read_packs.py [--index | --checkpoint] DIRECTORY

DIRECTORY is the `.packs` of a cache. A line of JSON is printed for the newest record of each name, found by a walk of
all chunks, or with --index by the index, or with --checkpoint as after a boot: by the checkpoint, and by a walk of the
chunks that it does not cover. A damaged payload is passed over.
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
        "address": address, "offset": offset, "size": max(64, size), "sequence": first & (1 << 56) - 1, "refCount": count,
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


def packs(directory):
    """The files of all packs, by number."""
    paths = {number: os.path.join(directory, f"p-{number}") for number in range(1024)}
    return {number: os.open(path, os.O_RDONLY) for number, path in paths.items() if os.path.exists(path)}


def walk_of_all(files, covered=()):
    """The records of all chunks that are not covered, but for those that are dead or damaged."""
    for pack, file in files.items():
        for chunk in range(1024):
            quarters = list(sectors(file, chunk))
            if (pack, chunk) in covered or all(salt is None for salt, _ in quarters):
                continue
            for found in walk(read(file, CHUNKS_AT + chunk * CHUNK, CHUNK), pack, chunk, quarters):
                if found["isSound"] and not is_dead(quarters, found["offset"]):
                    yield found


def newest_of(records):
    newest = {}
    for found in records:
        rival = newest.get(found["name"])
        if rival is None or (rival["sequence"], rival["address"]) < (found["sequence"], found["address"]):
            newest[found["name"]] = found
    return newest.values()


def newest_by_walk(directory):
    return newest_of(walk_of_all(packs(directory)))


def digest(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def search(buckets, seed, name):
    """The entries that a search for a name meets, and their times of use."""
    count = len(buckets) // 64
    value = digest(name) ^ seed
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    value ^= value >> 31
    bucket = value * count >> 64
    for _ in range(min(64, count)):
        words = struct.unpack_from("<5Q6I", buckets, bucket * 64)
        yield from ((entry, words[5 + slot]) for slot, entry in enumerate(words[:5]) if entry and entry >> 48 == value & 0xFFFF)
        if not words[10]:
            return
        bucket = (bucket + 1) % count


def led_to(files, buckets, seed, counts=lambda pack, chunk, offset: True):
    """The records that entries lead to, each with the time of use that a search for its name finds."""
    for at in range(0, len(buckets), 64):
        for entry in filter(None, struct.unpack_from("<5Q", buckets, at)):
            pack, chunk, offset = entry >> 27 & 1023, entry >> 17 & 1023, (entry & 0x1FFFF) * 8
            if not counts(pack, chunk, offset):
                continue
            data = read(files[pack], CHUNKS_AT + chunk * CHUNK, CHUNK)
            salt = list(sectors(files[pack], chunk))[offset // QUARTER][0]
            found = record(data, offset, entry & (1 << 37) - 1, salt)
            times = [time for other, time in search(buckets, seed, found["name"]) if other == entry]
            assert len(times) == 1 and (entry >> 37 & 0x7FF) * 16 == (found["size"] + 15) // 16 * 16
            yield found | {"lastUse": 1_600_000_000 + times[0]}


def newest_by_index(directory):
    """Looks at each entry, and then finds its name as a load does."""
    index = open(os.path.join(directory, "index"), "rb").read()
    magic, version, _, count, seed = struct.unpack_from("<8s4Q", index)
    assert (magic, version) == (b"BLOBINDX", 1)
    return led_to(packs(directory), index[4096:4096 + count * 64], seed)


def checkpoint(directory):
    """The last sequence, the seed, the salts of chunks, and the buckets; nothing is covered where there is none."""
    path, none = os.path.join(directory, "checkpoint"), (0, 0, b"", b"")
    data = open(path, "rb").read() if os.path.exists(path) else b""
    if len(data) < 4096:
        return none
    magic, version, sequence, seed, count, pack_count = struct.unpack_from("<8s5Q", data)
    buckets_crc, crc = struct.unpack_from("<2I", data, 56)
    if (magic, version) != (b"BLOBCKPT", 1) or crc != zlib.crc32(data[:60]) or sequence >= 1 << 55:
        return none
    if not 1 <= pack_count <= 1024 or not 1 <= count <= 16_515_072 * pack_count:
        return none
    start = 4096 + 16_384 * pack_count
    if len(data) != start + 64 * count or buckets_crc != zlib.crc32(data[start:]):
        return none
    return sequence, seed, data[4096:start], data[start:]


def newest_by_checkpoint(directory):
    files = packs(directory)
    last, seed, covers, buckets = checkpoint(directory)
    covered = {}
    for at in range(0, len(covers), 16):
        cover, (pack, chunk) = struct.unpack_from("<4I", covers, at), divmod(at // 16, 1024)
        if not any(cover) or pack not in files:
            continue
        quarters = list(sectors(files[pack], chunk))
        state = read(files[pack], 4096 + chunk * 64, 1)
        if state in (b"\2", b"\3") and cover == tuple(salt for salt, _ in quarters):
            covered[pack, chunk] = quarters

    def counts(pack, chunk, offset):
        return (pack, chunk) in covered and not is_dead(covered[pack, chunk], offset)

    by_entry = list(led_to(files, buckets, seed, counts))
    assert all(found["sequence"] <= last for found in by_entry)
    walked = (found | {"lastUse": found["updateTime"]} for found in walk_of_all(files, covered))
    return newest_of([found for found in by_entry if found["isSound"]] + list(walked))


if __name__ == "__main__":
    ways = {"--index": newest_by_index, "--checkpoint": newest_by_checkpoint}
    *options, directory = sys.argv[1:] or [""]
    if not directory or len(options) > 1 or not ways.keys() >= set(options):
        sys.exit(__doc__)
    way = ways[options[0]] if options else newest_by_walk
    for found in sorted(way(directory), key=lambda found: found["address"]):
        print(json.dumps(found))
