import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// A suite whose tests act between two system calls of a store.
protocol BetweenCalls {
  var cache: Cache { get }
  var trace: CallTrace { get }
}

extension BetweenCalls {
  func tracedStore(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
    try cache.store(files: trace.files, change)
  }

  /// Performs an action immediately before the first call of a kind whose path ends with the suffix.
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
