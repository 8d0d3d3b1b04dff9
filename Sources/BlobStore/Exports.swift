// The types of a record that the store's interface names. The rest of `BlobRecord` is for programs that read record files themselves.
@_exported public import struct BlobRecord.BlobKey
@_exported public import enum BlobRecord.PayloadKind
@_exported public import enum BlobRecord.RecordError
@_exported public import enum BlobRecord.RecordField
@_exported public import struct BlobRecord.RecordFlags
@_exported public import struct BlobRecord.RecordHeader
@_exported public import struct BlobRecord.RecordLayout
@_exported public import enum BlobRecord.RecordNaming
@_exported public import struct BlobRecord.StoredHeader
@_exported public import struct BlobRecord.UnixTime
@_exported public import struct Logging.Logger
@_exported public import struct SystemPackage.FilePath

// `Data` and `URL` for all files of the target. Linux has them without the rest of Foundation, whose start-up each program would pay for.
#if canImport(FoundationEssentials)
  @_exported public import FoundationEssentials
#else
  @_exported public import Foundation
#endif
