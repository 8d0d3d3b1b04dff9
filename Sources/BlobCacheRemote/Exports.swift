@_exported public import BlobCache

// Exports `Data` and `URL` to all files of the target. On Linux, this avoids the startup cost of the full Foundation.
#if canImport(FoundationEssentials)
  @_exported public import FoundationEssentials
#else
  @_exported public import Foundation
#endif
