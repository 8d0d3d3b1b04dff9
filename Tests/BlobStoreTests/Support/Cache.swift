import BlobRecord
import BlobStore
import Foundation
import Locks
import Logging
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// A cache directory that does not exist yet, a manual clock, and file access that bypasses the store.
struct Cache {
  /// The parent of the root, which also contains other files of a test.
  let outside: TemporaryDirectory
  let root: FilePath
  let clock: ManualClock

  /// - Parameter inMemory: A Boolean value that indicates whether the cache is on tmpfs, where there is one.
  init(_ root: FilePath = "cache", clock: ManualClock = ManualClock(), inMemory: Bool = false) throws {
    outside = try TemporaryDirectory(inMemory: inMemory)
    self.root = outside.path.appending(root.components)
    self.clock = clock
  }

  func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    // Fixed, so that tests know the paths, and that stores make no calls to determine the arrangement.
    configuration.layout.arrangement = .prefix
    // Tests of the recorded configuration change this; other tests know every file of the directory.
    configuration.access.recordsConfiguration = false
    // Tests of packs, or of decisions by the directory, change this.
    configuration.packing = .off
    configuration.durability = .none
    configuration.limits.freeSpaceFloor = 0
    // Tests of automatic collections change this; other tests collect explicitly.
    configuration.limits.collectsOnStore = false
    // Tests of timeouts change this; other tests must not fail on a slow machine.
    configuration.access.lockTimeout = .seconds(60)
    let clock = clock
    configuration.now = { clock.now }
    configuration.logger = Self.eagerLogger
    change(&configuration)
    return try BlobStore(directory: root, configuration: configuration, files: files)
  }

  /// Evaluates the text of every message, so that an error in it is detected, and discards it.
  private static let eagerLogger = Logger(label: "test") { _ in EagerLog() }

  var now: Int64 { clock.now.seconds }

  func path(_ file: String) -> String { file.isEmpty ? root.string : root.string + "/" + file }
}

/// Accepts every message and discards it.
private struct EagerLog: LogHandler {
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.trace

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {}
}

// MARK: - File access that bypasses the store

struct CallFailure: Error {
  let call: String
  let errno: Int32
}

func check(_ result: Int32, _ call: String) throws {
  if result != 0 { throw CallFailure(call: call, errno: errno) }
}

/// The state of a file as reported by `lstat`, and its content if it is not too large.
struct FileState: Hashable {
  let mode: UInt32
  let owner: UInt32
  let group: UInt32
  let inode: UInt64
  let links: UInt64
  let size: Int64
  let modified: Int64
  let content: [UInt8]?

  var permissions: UInt32 { mode & 0o7777 }
}

func fileState(_ path: String) throws -> FileState? {
  var status = stat()
  guard lstat(path, &status) == 0 else {
    guard errno == ENOENT else { throw CallFailure(call: "lstat", errno: errno) }
    return nil
  }
  let isRegular = status.st_mode & S_IFMT == S_IFREG
  // Size, links and times of a directory change when files are created or removed in it.
  let isDirectory = status.st_mode & S_IFMT == S_IFDIR
  return FileState(
    mode: UInt32(status.st_mode), owner: status.st_uid, group: status.st_gid, inode: UInt64(status.st_ino),
    links: isDirectory ? 0 : UInt64(status.st_nlink), size: isDirectory ? 0 : Int64(status.st_size),
    modified: isDirectory ? 0 : Int64(status.modificationTime),
    content: isRegular && status.st_size < 1 << 24 ? try bytes(ofFile: path) : nil)
}

/// Returns the bytes that a file takes on the volume.
func allocatedBytes(ofFile path: String) throws -> Int64 {
  var status = stat()
  try check(lstat(path, &status), "lstat")
  return Int64(status.st_blocks) * 512
}

extension stat {
  fileprivate var modificationTime: Int {
    #if canImport(Darwin)
      st_mtimespec.tv_sec
    #else
      st_mtim.tv_sec
    #endif
  }
}

func setAttribute(_ name: String, _ bytes: [UInt8], ofFile path: String) throws {
  #if os(Linux)
    // The Swift module of the C library lacks this function.
    typealias Call = @convention(c) (UnsafePointer<CChar>, UnsafePointer<CChar>, UnsafeRawPointer, Int, CInt) -> CInt
    let setxattr = unsafeBitCast(try #require(dlsym(nil, "setxattr")), to: Call.self)
    try check(setxattr(path, name, bytes, bytes.count, 0), "setxattr")
  #else
    try check(setxattr(path, name, bytes, bytes.count, 0, 0), "setxattr")
  #endif
}

func hasAttribute(_ name: String, ofFile path: String) throws -> Bool {
  #if os(Linux)
    typealias Call = @convention(c) (UnsafePointer<CChar>, UnsafePointer<CChar>, UnsafeMutableRawPointer?, Int) -> Int
    let getxattr = unsafeBitCast(try #require(dlsym(nil, "getxattr")), to: Call.self)
    let count = getxattr(path, name, nil, 0)
    if count < 0, errno != ENODATA { throw CallFailure(call: "getxattr", errno: errno) }
  #else
    let count = getxattr(path, name, nil, 0, 0, 0)
    if count < 0, errno != ENOATTR { throw CallFailure(call: "getxattr", errno: errno) }
  #endif
  return count >= 0
}

func bytes(ofFile path: String) throws -> [UInt8] {
  Array(try Data(contentsOf: URL(filePath: path)))
}

extension Cache {
  func exists(_ file: String) throws -> Bool { try state(file) != nil }

  func state(_ file: String) throws -> FileState? { try fileState(path(file)) }

  func bytes(_ file: String) throws -> [UInt8] { try BlobStoreTests.bytes(ofFile: path(file)) }

  /// Writes a file below the root, creating missing directories and overwriting an existing file.
  func write(_ bytes: [UInt8], to file: String) throws {
    try makeDirectory(FilePath(file).removingLastComponent().string)
    try Data(bytes).write(to: URL(filePath: path(file)))
  }

  /// Makes the counters of the control file unknown, as in a directory that no collection has counted.
  func forgetCounters() throws {
    let file = try FileHandle(forUpdating: URL(filePath: path(".blobcache")))
    try file.seek(toOffset: UInt64(ControlLayout.countersAreKnownOffset))
    try file.write(contentsOf: Data(count: 8))
    try file.close()
  }

  /// Creates a directory below the root, and the root if necessary.
  func makeDirectory(_ name: String) throws {
    if try fileState(root.string) == nil {
      try FileManager.default.createDirectory(atPath: root.string, withIntermediateDirectories: true)
      try check(chmod(root.string, 0o700), "chmod")
    }
    try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
  }

  /// Returns the state of every file below the parent of the cache, by relative path, except for the recycling bin,
  /// the control file, and the file of uses. The latter two change with every count.
  func snapshot() throws -> [String: FileState] {
    var states: [String: FileState] = [:]
    for name in try FileManager.default.subpathsOfDirectory(atPath: outside.path.string) {
      if name.hasSuffix(".blobcache") || name.hasSuffix(".blobcache-uses") || name.contains(".recycled") { continue }
      states[name] = try fileState(outside.path.string + "/" + name)
    }
    return states
  }

  /// Returns the paths of all files below the root, except for directories and files in the recycling bin.
  func files() throws -> Set<String> {
    guard try fileState(root.string) != nil else { return [] }
    return Set(
      try FileManager.default.subpathsOfDirectory(atPath: root.string).filter {
        guard $0 != ".blobcache", $0 != ".blobcache-uses", !$0.hasPrefix(".recycled") else { return false }
        return try state($0).map { $0.mode & UInt32(S_IFMT) != UInt32(S_IFDIR) } ?? false
      })
  }

  /// The result of `files` if a packing store has created the directory and all records are packed.
  static let filesOfPacks: Set<String> = [".packs/p-0", ".packs/index", ".blobcache.conf"]

  func setModified(_ file: String, _ seconds: Int64, nanoseconds: Int = 0) throws {
    try setModified(file, timespec(tv_sec: Int(seconds), tv_nsec: nanoseconds))
  }

  func setModified(_ file: String, _ time: timespec) throws {
    try check(utimensat(AT_FDCWD, path(file), [time, time], 0), "utimensat")
  }

  func modified(_ file: String) throws -> timespec {
    var status = stat()
    try check(lstat(path(file), &status), "lstat")
    #if canImport(Darwin)
      return status.st_mtimespec
    #else
      return status.st_mtim
    #endif
  }
}

/// A temporary file that is locked by its writer.
///
/// It is unlocked explicitly, because a program that another test starts inherits the descriptor until it executes,
/// and would keep the lock after a close.
final class LockedFile {
  private let file: FileDescriptor

  init(_ path: String) throws {
    file = try FileDescriptor.open(FilePath(path), .readOnly, options: .closeOnExec)
    try check(flock(file.rawValue, LOCK_EX), "flock")
  }

  deinit { close(file.rawValue) }

  func unlock() throws { try check(flock(file.rawValue, LOCK_UN), "flock") }
}

/// Waits until a further write would change the time of every file written so far: see `Stat.isSurelyPast`.
func waitUntilWritesArePast() {
  let end = SystemClock.unixNanoseconds() + 10_000_000
  while SystemClock.tickNanoseconds() <= end { SystemClock.sleep(microseconds: 1000) }
}

// MARK: - Records

extension RecordHeader {
  var encoded: [UInt8] {
    withEncodedBytes { bytes in bytes.withUnsafeBytes { Array($0) } }
  }
}

func record(_ header: RecordHeader, _ payload: [UInt8]) -> [UInt8] {
  var header = header
  header.payloadSize = UInt64(payload.count)
  return header.encoded + payload
}

extension Cache {
  func header(_ file: String) throws -> RecordHeader {
    try Array(bytes(file).prefix(64)).withUnsafeBytes { try RecordHeader(decoding: $0.bytes) }
  }

  /// Rewrites the header of a record, including its checksum.
  func changeHeader(_ file: String, _ change: (inout RecordHeader) -> Void) throws {
    var header = try header(file)
    change(&header)
    try write(header.encoded + bytes(file).dropFirst(64), to: file)
  }
}

/// Returns a payload of this size; the size of its record is 64 bytes more.
func payload(_ byteCount: Int, _ seed: UInt64 = 1) -> Data {
  var generator = SeededGenerator(seed: seed)
  return Data(generator.bytes(byteCount))
}

// MARK: - Expectations

/// Expects a typed error with this code and returns it.
@discardableResult
func expect(
  _ code: BlobStoreError.Code, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Void
) -> BlobStoreError? {
  let error = #expect(throws: BlobStoreError.self, sourceLocation: sourceLocation) { try body() }
  #expect(error?.code == code, "\(error.map { "\($0)" } ?? "")", sourceLocation: sourceLocation)
  return error
}

// MARK: - System calls

/// Records calls, and makes some of them fail or wait.
final class CallTrace: Sendable {
  struct Entry: CustomStringConvertible {
    let call: SystemCall
    private let location: Location

    init(_ call: SystemCall, at location: Location) {
      self.call = call
      self.location = location
    }

    /// Computed on access, because without optimization this takes longer than the calls themselves.
    var path: String { location.path.string }
    var description: String { "\(call) \(path)" }
  }

  private let entries = Lock<[Entry]>([])
  private let action = Lock<Action?>(nil)

  /// A closure in a class, because each access to a closure stored in a generic type would wrap it again.
  private final class Action: Sendable {
    let ignored: Set<SystemCall>
    let body: @Sendable (SystemCall, FilePath) -> Files.Interception?

    init(_ ignored: Set<SystemCall>, _ body: @escaping @Sendable (SystemCall, FilePath) -> Files.Interception?) {
      self.ignored = ignored
      self.body = body
    }
  }

  /// A separate budget, because files that other tests keep open must not change the calls of this one.
  private let budget = OpenFileBudget(limit: 256)
  /// Explicit, because otherwise the calls would depend on the user who runs the tests.
  private let accessTimeTellsOwner: Bool
  private let moment = Atomic(Files.startOfTests)

  init(accessTimeTellsOwner: Bool = false) { self.accessTimeTellsOwner = accessTimeTellsOwner }

  var files: Files {
    Files(
      budget: budget, accessTimeTellsOwner: accessTimeTellsOwner,
      intercepting: { call, location in
        self.entries.withLock { $0.append(Entry(call, at: location)) }
        guard let action = self.action.withLock({ $0 }), !action.ignored.contains(call) else { return nil }
        return action.body(call, location.path)
      }, clock: { self.moment.load(ordering: .relaxed) })
  }

  /// - Parameter ignored: The calls for which the action is skipped, for cases with thousands of them.
  func onCall(
    besides ignored: Set<SystemCall> = [], _ action: (@Sendable (SystemCall, FilePath) -> Files.Interception?)?
  ) {
    self.action.withLock { $0 = action.map { Action(ignored, $0) } }
  }

  /// Advances the clock of checks that are due once a second, which otherwise stands still.
  func wait(milliseconds: Int64) { moment.wrappingAdd(milliseconds, ordering: .relaxed) }

  /// Returns the recorded calls and clears them.
  func take() -> [Entry] {
    entries.withLock { entries in
      defer { entries = [] }
      return entries
    }
  }

  func count(_ call: SystemCall) -> Int { count { $0.call == call } }

  func count(where isCounted: (Entry) -> Bool) -> Int { entries.withLock { $0.count(where: isCounted) } }
}

/// A counter for several threads.
final class CallCount: Sendable {
  private let count = Atomic(0)

  var value: Int { count.load(ordering: .relaxed) }

  func add(_ amount: Int) { count.wrappingAdd(amount, ordering: .relaxed) }
}
