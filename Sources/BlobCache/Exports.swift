// The types of results and configurations, so that `import BlobCache` is sufficient.
@_exported public import BlobStore
@_exported public import MemoryCache

// `Data` and `URL`, on Linux without all of Foundation, whose start-up each program would pay for.
#if canImport(FoundationEssentials)
  @_exported public import FoundationEssentials
#else
  @_exported public import Foundation
#endif
