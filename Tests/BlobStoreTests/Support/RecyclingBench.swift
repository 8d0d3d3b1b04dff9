#if os(Linux)
  import BlobRecord
  import BlobStore
  import Foundation
  import Posix
  import Synchronization
  import SystemPackage
  import TestSupport
  import Testing

  #if canImport(Glibc)
    import Glibc
  #elseif canImport(Musl)
    import Musl
  #elseif canImport(Android)
    import Android
  #endif

  /// A cache with recycling.
  struct RecyclingBench {
    let cache: Cache
    let trace = CallTrace()
    private let ages = CallCount()

    /// A key with a low digest, whose file any other record may overwrite.
    static let dead: BlobKey = "bea"

    init() throws { cache = try Cache() }

    func store(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
      try cache.store(files: trace.files, change)
    }

    func bin() throws -> [String] {
      guard try cache.exists(".recycled") else { return [] }
      return try FileManager.default.contentsOfDirectory(atPath: cache.path(".recycled")).sorted()
    }

    func inode(_ file: String) throws -> UInt64? { try cache.state(file)?.inode }

    /// Sets the time of the last write to a number of seconds ago, with unique nanoseconds.
    func setAge(_ seconds: Int64, of key: BlobKey) throws {
      ages.add(1)
      let time = timespec(tv_sec: Int(SystemClock.unixSeconds() - seconds), tv_nsec: ages.value)
      try cache.setModified("\(key.string.prefix(2))/\(key.string)", time)
    }

    func open(_ file: String, _ flags: CInt = O_RDONLY) throws -> CInt {
      let descriptor = Glibc.open(cache.path(file), flags | O_CLOEXEC)
      try check(descriptor < 0 ? -1 : 0, "open")
      return descriptor
    }

    /// Stores and removes a record, whose file is then in the bin.
    ///
    /// - Parameter age: The age of the record in seconds.
    /// - Returns: The inode of the file.
    func warm(
      _ store: BlobStore, _ byteCount: Int = 1000, key: BlobKey = Self.dead, age: Int64 = 0
    ) throws -> UInt64 {
      try store.store(payload(byteCount), for: key)
      if age != 0 { try setAge(age, of: key) }
      let inode = try #require(try inode("\(key.string.prefix(2))/\(key.string)"))
      #expect(try store.remove(key) == .done)
      return inode
    }
  }

  /// A flag that is `true` on the first access only.
  final class Once: Sendable {
    private let wasAsked = Atomic(false)

    func isFirst() -> Bool { !wasAsked.exchange(true, ordering: .relaxed) }
  }
#endif
