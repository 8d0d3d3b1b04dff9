// The record types of the store's interface. Programs that read record files import `BlobRecord` for the other ones.
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

// `Data` and `URL`. On Linux they exist without the rest of Foundation, whose start-up would cost every program time.
#if canImport(FoundationEssentials)
  @_exported public import FoundationEssentials
#else
  @_exported public import Foundation
#endif
