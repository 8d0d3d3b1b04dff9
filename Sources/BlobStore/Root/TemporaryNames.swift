internal import Locks
internal import Posix
internal import Synchronization

/// Unique temporary names from a random start. The files of watched names are unlinked if a signal ends the program.
package final class TemporaryNames: Sendable {
  /// A number of at most fifteen digits, which form a string without an allocation.
  private let counter = Atomic(UInt64.random(in: 0..<1 << 60))
  private let isWatched = Atomic(false)
  private let inTheMaking: Lock<[String: OpenSubdirectory]> = Lock([:])

  init() {}

  /// The prefix of temporary names. They begin with a dot, and therefore never belong to records.
  static let prefix = ".tmp-"

  /// Returns whether a store may have generated the name. The temporary files of other programs are foreign.
  static func isName(_ name: String) -> Bool {
    guard name.utf8.starts(with: prefix.utf8) else { return false }
    let number = name.utf8.dropFirst(prefix.utf8.count)
    return (1...16).contains(number.count)
      && number.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }

  func next() -> String {
    Self.prefix + String(counter.wrappingAdd(1, ordering: .relaxed).newValue, radix: 16)
  }

  /// Notes a file before it gets the name.
  package func note(_ name: String, in subdirectory: OpenSubdirectory) {
    guard isWatched.load(ordering: .relaxed) else { return }
    inTheMaking.withLock { $0[name] = subdirectory }
  }

  package func forget(_ name: String) {
    guard isWatched.load(ordering: .relaxed) else { return }
    inTheMaking.withLock { $0[name] = nil }
  }
}

extension TemporaryNames {
  /// Starts to track the files with temporary names, and must be called before the first one is created.
  package func watch() { isWatched.store(true, ordering: .relaxed) }

  /// Unlinks the files that have temporary names now, and prevents new ones until `end` has returned.
  package func abandonAll<Result>(_ end: () -> Result) -> Result {
    inTheMaking.withLock { files in
      // The process is about to end, so a collection removes any file that cannot be unlinked now.
      for (name, subdirectory) in files { _ = try? subdirectory.directory.unlink(name) }
      return end()
    }
  }
}
