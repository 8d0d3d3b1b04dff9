// The types of results and configurations, so that `import BlobCache` is sufficient.
@_exported public import BlobStore
@_exported public import MemoryCache

// `Data` and `URL`. On Linux, this avoids the full Foundation, which would slow down the start of each program.
#if canImport(FoundationEssentials)
  @_exported public import FoundationEssentials
#else
  @_exported public import Foundation
#endif
