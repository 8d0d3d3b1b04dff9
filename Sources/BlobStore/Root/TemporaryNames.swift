internal import Locks
internal import Posix
internal import Synchronization

/// Names for temporary files that no other store gives: a random start, then counted. And what has them just now, for a
/// program that a signal ends.
package final class TemporaryNames: Sendable {
  /// Of up to fifteen digits, which are a string without an allocation.
  private let counter = Atomic(UInt64.random(in: 0..<1 << 60))
  private let isWatched = Atomic(false)
  private let inTheMaking: Lock<[String: OpenSubdirectory]> = Lock([:])

  init() {}

  /// Names of temporary files begin so. They are dot files, and so never records.
  static let prefix = ".tmp-"

  /// Whether a store may have given the name. Other programs' temporary files are foreign.
  static func isName(_ name: String) -> Bool {
    guard name.utf8.starts(with: prefix.utf8) else { return false }
    let number = name.utf8.dropFirst(prefix.utf8.count)
    return (1...16).contains(number.count)
      && number.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }

  func next() -> String {
    Self.prefix + String(counter.wrappingAdd(1, ordering: .relaxed).newValue, radix: 16)
  }

  /// A file is about to get the name.
  package func note(_ name: String, in subdirectory: OpenSubdirectory) {
    guard isWatched.load(ordering: .relaxed) else { return }
    inTheMaking.withLock { $0[name] = subdirectory }
  }

  /// No file of this store has the name any more.
  package func forget(_ name: String) {
    guard isWatched.load(ordering: .relaxed) else { return }
    inTheMaking.withLock { $0[name] = nil }
  }
}

extension TemporaryNames {
  /// From now on it is known which files have names. Before the first of them.
  package func watch() { isWatched.store(true, ordering: .relaxed) }

  /// Unlinks the files that have names just now; meanwhile, and while `end` runs, no other gets one.
  package func abandonAll<Result>(_ end: () -> Result) -> Result {
    inTheMaking.withLock { files in
      // The process is about to end; what cannot be unlinked now, a collection takes.
      for (name, subdirectory) in files { _ = try? subdirectory.directory.unlink(name) }
      return end()
    }
  }
}
