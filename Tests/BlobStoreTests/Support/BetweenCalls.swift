import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// A suite that acts between two system calls of a store.
protocol BetweenCalls {
  var cache: Cache { get }
  var trace: CallTrace { get }
}

extension BetweenCalls {
  func tracedStore(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
    try cache.store(files: trace.files, change)
  }

  /// Does something just before a call, the first time that it is made at a path with this ending.
  func before(_ call: SystemCall, at suffix: String = "", _ action: @escaping @Sendable () throws -> Void) {
    let trace = trace
    trace.onCall { found, path in
      guard found == call, path.string.hasSuffix(suffix) else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try action() }
      return nil
    }
  }

  func removeFile(_ file: String) -> @Sendable () throws -> Void {
    let path = cache.path(file)
    return { try FileManager.default.removeItem(atPath: path) }
  }
}
