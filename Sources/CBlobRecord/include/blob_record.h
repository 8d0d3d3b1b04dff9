// The 64 bytes at the start of every record file, as Spec/RecordFormat.md defines them.

#ifndef BLOB_RECORD_H
#define BLOB_RECORD_H

#include <stddef.h>
#include <stdint.h>

/// The bytes `SPTF`, read as a little-endian integer.
static const uint32_t blob_record_magic = 0x46545053;

typedef struct blob_record_header {
  uint32_t magic;
  uint32_t header_size;
  uint32_t ref_count;
  uint32_t reserved1;
  uint64_t ttl;
  uint64_t update_time;
  uint64_t payload_size;
  uint64_t reserved2;
  uint32_t reserved3;
  uint32_t reserved4;
  uint32_t flags;
  uint32_t crc;
} blob_record_header;

_Static_assert(sizeof(blob_record_header) == 64, "the header is 64 bytes");
_Static_assert(offsetof(blob_record_header, magic) == 0, "magic");
_Static_assert(offsetof(blob_record_header, header_size) == 4, "headerSize");
_Static_assert(offsetof(blob_record_header, ref_count) == 8, "refCount");
_Static_assert(offsetof(blob_record_header, reserved1) == 12, "reserved1");
_Static_assert(offsetof(blob_record_header, ttl) == 16, "ttl");
_Static_assert(offsetof(blob_record_header, update_time) == 24, "updateTimeSec");
_Static_assert(offsetof(blob_record_header, payload_size) == 32, "payloadSizeBytes");
_Static_assert(offsetof(blob_record_header, reserved2) == 40, "reserved2");
_Static_assert(offsetof(blob_record_header, reserved3) == 48, "reserved3");
_Static_assert(offsetof(blob_record_header, reserved4) == 52, "reserved4");
_Static_assert(offsetof(blob_record_header, flags) == 56, "flags");
_Static_assert(offsetof(blob_record_header, crc) == 60, "crc is last: it covers all before it");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the struct is stored as it lies in memory, little-endian");

#endif
