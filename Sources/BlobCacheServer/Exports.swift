// `Data` and `URL` for all files of the target. Linux has them without the rest of Foundation, whose start-up each program would pay for.
#if canImport(FoundationEssentials)
  @_exported public import FoundationEssentials
#else
  @_exported public import Foundation
#endif
