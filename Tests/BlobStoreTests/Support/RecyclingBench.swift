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

  /// A cache whose files are recycled.
  struct RecyclingBench {
    let cache: Cache
    let trace = CallTrace()
    private let ages = CallCount()

    /// A key with a low digest: any other one's record may overwrite its file.
    static let dead: BlobKey = "bea"

    init() throws { cache = try Cache() }

    func store(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
      try cache.store(files: trace.files, change)
    }

    /// Names of the things in the bin.
    func bin() throws -> [String] {
      guard try cache.exists(".recycled") else { return [] }
      return try FileManager.default.contentsOfDirectory(atPath: cache.path(".recycled")).sorted()
    }

    func inode(_ file: String) throws -> UInt64? { try cache.state(file)?.inode }

    /// Makes a record's file one that was written to so many seconds ago, at a time that is no other file's.
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

    /// A store whose bin holds the file of a record of so many payload bytes.
    ///
    /// - Parameter age: of the file's record, in seconds.
    /// - Returns: the file's inode.
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

  /// True once.
  final class Once: Sendable {
    private let wasAsked = Atomic(false)

    func isFirst() -> Bool { !wasAsked.exchange(true, ordering: .relaxed) }
  }
#endif
