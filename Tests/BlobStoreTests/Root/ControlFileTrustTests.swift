import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/ControlFile.md, "Who may write to it": a control file is mapped only if users without write access to the
/// cache can neither truncate nor write it. Users with read access cannot take a lock that a change waits for.
@Suite struct ControlFileTrustTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private static let stranger: uid_t = 54_321

  /// Returns the size of a complete control file.
  private func wholeByteCount() throws -> Int64? {
    let other = try Cache()
    try other.store().store(payload(1), for: "key")
    return try other.state(".blobcache")?.size
  }

  private func makeRoot(_ mode: mode_t) throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), mode), "chmod")
  }

  /// Returns the bytes of a complete control file with a harmful modification.
  private func planted() throws -> [UInt8] {
    let other = try Cache()
    let store = try other.store()
    try other.makeDirectory("")
    #expect(try store.lock("key") == .notFound)
    return try other.bytes(".blobcache")
  }

  /// Another user's control file is locked but not mapped: its counts, limits and generations are ignored, because it
  /// may be truncated at any moment. One warning reports this.
  @Test(
    .enabled(if: geteuid() == 0, "only the superuser gives files away"),
    arguments: [0o755, 0o1777] as [mode_t], [0, 1, .max] as [Int])
  func aStrangersControlFileIsLockedOnly(root: mode_t, byteCount: Int) throws {
    try makeRoot(root)
    let file = cache.path(".blobcache")
    try cache.write(Array(try planted().prefix(byteCount)), to: ".blobcache")
    try check(chown(file, Self.stranger, Self.stranger), "chown")
    try check(chmod(file, 0o666), "chmod")
    let inode = try cache.state(".blobcache")?.inode
    let log = RecordedLog()
    let store = try cache.store { $0.logger = log.logger }
    try store.store(payload(5), for: "key")
    // In a sticky directory, this is expected for other users' files and causes no warning.
    let warnings = root == 0o1777 ? 0 : 1
    #expect(log.warnings.count == warnings)
    #expect(log.warnings.allSatisfy { $0.contains("it belongs to user 54321") })
    #expect(try store.generation(of: "key") == nil)
    // Its content and size do not matter.
    for size in [0, 1 << 20] as [off_t] {
      try check(truncate(file, size), "truncate")
      #expect(try store.load("key")?.payload == payload(5))
      try store.store(payload(6), for: "other")
      #expect(try store.lock("other") == .done)
      #expect(try store.usage().records == 2)
      #expect(try store.usageEstimate() == nil)
      try store.collect()
      #expect(try store.remove("other") == .done)
    }
    // The locks of the stranger's file are respected, and the file is not replaced.
    let holder = try controlFile()
    #expect(try holder.tryLock(bytes: 0..<4096))
    expect(.busy) { try cache.store { $0.access.lockTimeout = .zero }.lock("key") }
    #expect(try cache.state(".blobcache")?.inode == inode)
    #expect(log.warnings.count == warnings)
  }

  private func controlFile() throws -> OpenFile {
    guard case .regular(let file, _) = try rootDirectory().openFile(".blobcache", for: .readWrite) else {
      throw CallFailure(call: "open", errno: ENOENT)
    }
    return file
  }

  private func rootDirectory() throws -> Directory {
    guard let root = try Directory(at: cache.root, files: Files()) else {
      throw CallFailure(call: "open", errno: ENOENT)
    }
    return root
  }

  /// If all users of a sticky directory share the lock file, no process maps it, including its owner's, so that all
  /// processes behave alike.
  @Test(arguments: [0o1777, 0o1770] as [mode_t]) func underASharedStickyRootThereAreLocksOnly(root: mode_t) throws {
    try makeRoot(root)
    let log = RecordedLog()
    let store = try cache.store {
      $0.logger = log.logger
      $0.limits.size = 1 << 20
    }
    try store.store(payload(5), for: "key")
    #expect(try store.generation(of: "key") == nil)
    #expect(try store.usageEstimate() == nil)
    #expect(log.warnings == [])
    try check(truncate(cache.path(".blobcache"), 0), "truncate")
    try store.store(payload(6), for: "key")
    #expect(try store.load("key")?.payload == payload(6))
    #expect(try cache.state(".blobcache")?.size == 0)
  }

  /// A control file that others could write to may be open in their programs, so the next change replaces it.
  @Test(
    arguments: [(0o755, 0o666), (0o755, 0o622), (0o700, 0o666), (0o770, 0o666), (0o1755, 0o666)] as [(mode_t, mode_t)])
  func aControlFileThatOthersCouldWriteToIsReplaced(root: mode_t, mode: mode_t) throws {
    try makeRoot(root)
    try cache.store().store(payload(5), for: "key")
    let permissions = try cache.state(".blobcache")?.permissions
    try check(chmod(cache.path(".blobcache"), mode), "chmod")
    let inode = try cache.state(".blobcache")?.inode
    let log = RecordedLog()
    let store = try cache.store { $0.logger = log.logger }
    #expect(try store.load("key", touching: false)?.payload == payload(5))
    #expect(try store.generation(of: "key") == nil)
    #expect(try cache.state(".blobcache")?.inode == inode)
    try store.store(payload(6), for: "key")
    #expect(try cache.state(".blobcache")?.inode != inode)
    #expect(try cache.state(".blobcache")?.permissions == permissions)
    #expect(try store.generation(of: "key") != nil)
    #expect(log.warnings.first?.contains("more users may write to it") == true)
  }

  /// A control file that readers may open, as in earlier versions, loses that permission and keeps its content.
  @Test(arguments: [(0o755, 0o644, 0o600), (0o775, 0o664, 0o660)] as [(mode_t, mode_t, UInt32)])
  func aControlFileThatReadersMayOpenIsShutToThem(root: mode_t, mode: mode_t, after: UInt32) throws {
    try makeRoot(root)
    try cache.store().store(payload(5), for: "key")
    let before = try #require(try cache.store().generation(of: "key"))
    try check(chmod(cache.path(".blobcache"), mode), "chmod")
    let store = try cache.store()
    #expect(try store.load("key", touching: false) != nil)
    #expect(try cache.state(".blobcache")?.permissions == UInt32(mode))
    #expect(try store.touch("key") == .done)
    #expect(try cache.state(".blobcache")?.permissions == after)
    #expect(try store.generation(of: "key") == before)
  }

  /// If `chmod` fails, a warning is logged and the change succeeds.
  @Test func aControlFileThatCannotBeShutToReadersIsSaidSo() throws {
    try makeRoot(0o755)
    try cache.store().store(payload(5), for: "key")
    try check(chmod(cache.path(".blobcache"), 0o644), "chmod")
    let (log, trace) = (RecordedLog(), CallTrace())
    let store = try cache.store(files: trace.files) { $0.logger = log.logger }
    trace.onCall { call, path in
      call == .setPermissions && path.string.hasSuffix(".blobcache") ? .fail(.readOnlyFileSystem) : nil
    }
    try store.store(payload(6), for: "key")
    try store.store(payload(7), for: "key")
    #expect(log.warnings.count == 1)
    #expect(log.warnings.first?.contains("keep readers from the locks") == true)
  }

  // MARK: - Readers

  /// A user with read access can lock the directory, which must not prevent the creation of the first control file.
  @Test(arguments: [0o755, 0o750, 0o1775] as [mode_t]) func aReadersLockOfTheRootKeepsNobodyOut(mode: mode_t) throws {
    try makeRoot(mode)
    let reader = try rootDirectory()
    #expect(try reader.tryLock())
    let store = try cache.store { $0.access.lockTimeout = .zero }
    try store.store(payload(5), for: "key")
    #expect(try store.lock("key") == .done)
    #expect(try store.collect().examined == 1)
    #expect(try store.load("key")?.payload == payload(5))
    // A damaged control file is replaced nevertheless, except where damaged files are kept.
    try check(truncate(cache.path(".blobcache"), 0), "truncate")
    let other = try cache.store { $0.access.lockTimeout = .zero }
    #expect(try other.unlock("key") == .done)
    #expect(try cache.state(".blobcache")?.size == (mode == 0o1775 ? 0 : wholeByteCount()))
    _ = consume reader
  }

  /// Of two processes that create the control file concurrently, one succeeds, and both use its file.
  @Test func theControlFileIsMadeOnceWithoutALock() throws {
    try makeRoot(0o755)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    let cache = cache
    let isFirst = CallCount()
    trace.onCall { call, path in
      guard call == .allocate, path.string.contains("/.tmp-"), isFirst.value == 0 else { return nil }
      isFirst.add(1)
      #expect(throws: Never.self) { try cache.store().store(payload(5), for: "other") }
      return nil
    }
    try store.store(payload(6), for: "key")
    #expect(isFirst.value == 1)
    #expect(try store.generation(of: "other") == cache.store().generation(of: "other"))
    #expect(try cache.files() == ["ot/other", "ke/key"])
  }

  /// On a full volume, an empty control file carries the locks if readers may lock the directory; it is replaced
  /// later.
  @Test func aFullVolumeIsLockedByAnEmptyControlFile() throws {
    try makeRoot(0o755)
    let isFull = CallCount()
    let files = Files { call, path in
      call == .allocate && path.path.string.contains("/.tmp-") && isFull.value == 0 ? .fail(.noSpace) : nil
    }
    let store = try cache.store(files: files) { $0.access.lockTimeout = .zero }
    let reader = try rootDirectory()
    #expect(try reader.tryLock())
    try store.store(payload(5), for: "key")
    #expect(try cache.state(".blobcache")?.size == 0)
    #expect(try cache.state(".blobcache")?.permissions == 0o600)
    let holder = try controlFile()
    #expect(try holder.tryLock(bytes: 0..<4096))
    expect(.busy) { try store.lock("key") }
    try holder.unlock(bytes: 0..<4096)
    #expect(try store.lock("key") == .done)
    isFull.add(1)
    #expect(try store.lock("key") == .done)
    #expect(try cache.state(".blobcache")?.size == wholeByteCount())
    _ = consume reader
  }

  /// Without space for a directory entry, only the lock of the directory is available.
  @Test func withoutRoomForANameTheDirectoryIsLocked() throws {
    try makeRoot(0o755)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.access.lockTimeout = .zero }
    let root = cache.root.string
    trace.onCall { call, path in
      call == .open && path.string.hasPrefix(root + "/.tmp-") ? .fail(.noSpace) : nil
    }
    try store.store(payload(5), for: "key")
    #expect(try cache.exists(".blobcache") == false)
    let holder = try rootDirectory()
    #expect(try holder.tryLock())
    expect(.busy) { try store.lock("key") }
    _ = consume holder
    #expect(try store.lock("key") == .done)
  }

  /// Other failures to create the empty control file are errors of the change.
  @Test func whatElseKeepsTheEmptyControlFileFromBeingMadeIsAnError() throws {
    try makeRoot(0o755)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      if call == .allocate, path.string.contains("/.tmp-") { return .fail(.noSpace) }
      return call == .renameNoReplace && path.string.hasSuffix(".blobcache") ? .fail(.ioError) : nil
    }
    #expect(expect(.fileSystem) { try store.store(payload(5), for: "key") }?.errno == .ioError)
    #expect(try cache.files() == [])
  }
}
