import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Y30 to Y32: payloads from files and to files.
@Suite(.timeLimit(.minutes(30))) struct ExportTests {
  let cache: Cache
  let trace = CallTrace()
  var output: FilePath { cache.outside.path.appending("output") }

  init() throws { cache = try Cache() }

  private func content(_ path: FilePath) throws -> Data { try Data(contentsOf: URL(filePath: path.string)) }

  private func outsideNames() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: cache.outside.path.string).sorted()
  }

  // MARK: Exports

  /// Y30: exports of the payload without its header, and of ranges.
  @Test(
    arguments: [0, 1, 1000, 262_143, 262_144, 262_145, (1 << 20) + 1], [BlobStore.Packing.off, .upTo(8192)])
  func writesThePayload(byteCount: Int, packing: BlobStore.Packing) throws {
    let store = try cache.store(files: trace.files) { $0.packing = packing }
    let bytes = payload(byteCount)
    try store.store(bytes, for: "key", ttl: .seconds(50))
    #expect(try store.records().contains { $0.packed != nil } == (packing != .off && byteCount <= 1000))
    _ = trace.take()
    #expect(try store.export("key", to: output) == Int64(byteCount))
    #expect(try content(output) == bytes)
    #expect(trace.count(.reserve) == (byteCount > 1 << 20 ? 1 : 0))
    let reader = try #require(try store.openReader(for: "key"))
    let range = Int64(byteCount / 3)..<Int64(byteCount / 2)
    try reader.export(range, to: output)
    #expect(try content(output) == bytes[range])
    #expect(try outsideNames() == ["cache", "output"])
  }

  /// Y30: no file is created for a missing blob.
  @Test func absentBlobsMakeNoFile() throws {
    let store = try cache.store()
    #expect(try store.export("key", to: output) == nil)
    try store.store(payload(1), for: "key", ttl: .seconds(5))
    cache.clock.advance(by: 6)
    #expect(try store.export("key", to: output) == nil)
    #expect(try outsideNames() == ["cache"])
  }

  /// L2.
  @Test(arguments: [true, false]) func anExportIsAUse(touching: Bool) throws {
    let store = try cache.store()
    try store.store(payload(1), for: "key")
    cache.clock.advance(by: 5)
    try store.export("key", to: output, touching: touching)
    #expect(try cache.header("ke/key").updateTime == UInt64(cache.now - (touching ? 0 : 5)))
  }

  /// Y30: the new file has the permissions of the replaced one.
  @Test func aFileIsReplacedAsAWhole() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    try Data("old".utf8).write(to: URL(filePath: output.string))
    #expect(chmod(output.string, 0o640) == 0)
    let old = try FileDescriptor.open(output, .readOnly, options: .closeOnExec)
    try old.closeAfter {
      try store.export("key", to: output)
      var bytes = [UInt8](repeating: 0, count: 10)
      let count = try bytes.withUnsafeMutableBytes { try old.read(into: $0) }
      #expect(Array(bytes.prefix(count)) == Array("old".utf8))
    }
    #expect(try content(output) == payload(10))
    #expect(try fileState(output.string)?.permissions == 0o640)
  }

  /// Y30: a file that is not regular is not replaced.
  @Test func otherFilesStay() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    try FileManager.default.createSymbolicLink(atPath: output.string, withDestinationPath: "elsewhere")
    let error = expect(.fileSystem) { try store.export("key", to: output) }
    #expect(error?.errno == .fileExists && error?.key == "key" && error?.operation == "load")
    #expect(try outsideNames() == ["cache", "output"])
    let missing = cache.outside.path.appending("absent").appending("file")
    #expect(expect(.fileSystem) { try store.export("key", to: missing) }?.errno == .noSuchFileOrDirectory)
    expect(.fileSystem) { try store.export("key", to: "/") }
  }

  /// Y8, Y10: invalid ranges and damaged payloads leave the old file unchanged.
  @Test func badInputLeavesTheOldFile() throws {
    let store = try cache.store()
    try store.store(payload(600_000), for: "key")
    try Data("old".utf8).write(to: URL(filePath: output.string))
    let reader = try #require(try store.openReader(for: "key"))
    for range in [-1..<1, 0..<600_001] as [Range<Int64>] {
      expect(.invalidRange) { try reader.export(range, to: output) }
    }
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    expect(.damaged) { try store.export("key", to: output) }
    #expect(try content(output) == Data("old".utf8))
    #expect(try outsideNames() == ["cache", "output"])
  }

  /// Y30: one call after the other fails, and no temporary file remains.
  @Test(arguments: [SystemCall.openDirectory, .open, .reserve, .write, .read, .rename, .setPermissions, .status])
  func aFailingCallLeavesTheOldFile(call: SystemCall) throws {
    let store = try cache.store(files: trace.files)
    try store.store(payload((1 << 20) + 1), for: "key")
    try Data("old".utf8).write(to: URL(filePath: output.string))
    let reader = try #require(try store.openReader(for: "key"))
    trace.onCall { made, _ in made == call ? .fail(.ioError) : nil }
    let error = expect(.fileSystem) { try reader.export(to: output) }
    trace.onCall(nil)
    #expect(error?.errno == .ioError)
    #expect(try content(output) == Data("old".utf8))
    #expect(try outsideNames() == ["cache", "output"])
  }

  // MARK: Stores from files

  private func makeSource(_ bytes: Data) throws -> FilePath {
    let source = cache.outside.path.appending("source")
    try bytes.write(to: URL(filePath: source.string))
    return source
  }

  /// Y31: a moved file is removed after its blob was stored.
  @Test func aMovedFileGoes() throws {
    let store = try cache.store()
    let source = try makeSource(payload(300_000))
    #expect(try store.store(contentsOf: source, for: "key", moving: true) == 300_000)
    #expect(try store.load("key")?.payload == payload(300_000))
    #expect(try outsideNames() == ["cache"])
  }

  /// Y31: the file is not removed if the store fails.
  @Test func aFileWhoseStoreFailsStays() throws {
    let store = try cache.store { $0.limits.payload = 5 }
    let source = try makeSource(payload(6))
    expect(.payloadTooLarge) { try store.store(contentsOf: source, for: "key", moving: true) }
    #expect(try content(source) == payload(6))
  }

  /// Y31: a replaced file, a changed one and a symbolic link are not removed.
  @Test(arguments: ["replaced", "appended", "written", "removed", "link"]) func whatHasChangedIsNotRemoved(
    change: String
  ) throws {
    let store = try cache.store(files: trace.files)
    let source = try makeSource(payload(10))
    let link = cache.outside.path.appending("link")
    try FileManager.default.createSymbolicLink(atPath: link.string, withDestinationPath: source.string)
    // An old modification time, so that a write changes it.
    var times = [timeval(tv_sec: 1000, tv_usec: 1), timeval(tv_sec: 1000, tv_usec: 1)]
    #expect(utimes(source.string, &times) == 0)
    let trace = trace
    trace.onCall { call, _ in
      guard call == .write else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) {
        let url = URL(filePath: source.string)
        switch change {
        case "replaced": try payload(10, 2).write(to: url, options: .atomic)
        case "appended":
          let file = try FileDescriptor.open(source, .writeOnly, options: [.append, .closeOnExec])
          try file.closeAfter { _ = try file.writeAll([1]) }
        case "written":
          let file = try FileDescriptor.open(source, .writeOnly, options: .closeOnExec)
          try file.closeAfter { _ = try file.writeAll([1]) }
        case "removed": try FileManager.default.removeItem(at: url)
        default: break
        }
      }
      return nil
    }
    #expect(try store.store(contentsOf: change == "link" ? link : source, for: "key", moving: true) >= 10)
    #expect(try outsideNames() == (change == "removed" ? ["cache", "link"] : ["cache", "link", "source"]))
  }

  /// Y31: if the file cannot be removed, the blob is stored and an error is thrown.
  @Test func aFileThatCannotBeRemovedIsAnError() throws {
    let store = try cache.store(files: trace.files)
    let source = try makeSource(payload(10))
    trace.onCall { call, path in call == .unlink && path == source ? .fail(.permissionDenied) : nil }
    let error = expect(.fileSystem) { try store.store(contentsOf: source, for: "key", moving: true) }
    #expect(error?.systemCall == "unlink(2)" && error?.path == source && error?.key == "key")
    #expect(try store.load("key")?.payload == payload(10))
    #expect(try content(source) == payload(10))
  }

  /// Y31: only regular files are moved.
  @Test func aPipeStays() throws {
    let store = try cache.store()
    let pipe = cache.outside.path.appending("pipe")
    try check(mkfifo(pipe.string, 0o600), "mkfifo")
    let writer = try OwnedThread {
      #expect(throws: Never.self) {
        let file = try FileDescriptor.open(pipe, .writeOnly, options: .closeOnExec)
        try file.closeAfter { _ = try file.writeAll(payload(10)) }
      }
    }
    #expect(try store.store(contentsOf: pipe, for: "key", moving: true) == 10)
    writer.join()
    #expect(try outsideNames() == ["cache", "pipe"])
  }

  /// Y32: a source of a different size is never stored, from a file or a pipe.
  @Test(arguments: [true, false], [(10, 9), (10, 11), (0, 1), (600_000, 599_999), (600_000, 600_001)])
  func anotherSizeIsNotStored(isPipe: Bool, sizes: (Int, Int64)) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    let source = try makeSource(payload(sizes.0))
    let input = try isPipe ? pipe(payload(sizes.0)) : FileDescriptor.open(source, .readOnly, options: .closeOnExec)
    try input.closeAfter {
      let error = expect(.sizeMismatch) { try store.store(contentsOf: input, for: "key", expectedSize: sizes.1) }
      #expect(error?.key == "key" && error?.operation == "store")
    }
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try cache.files() == ["ke/key"])
  }

  @Test(arguments: [true, false]) func theSizeThatIsExpectedIsStored(isPipe: Bool) throws {
    let store = try cache.store()
    let source = try makeSource(payload(600_000))
    let input = try isPipe ? pipe(payload(600_000)) : FileDescriptor.open(source, .readOnly, options: .closeOnExec)
    try input.closeAfter {
      let stored = try store.store(contentsOf: input, for: "key", expectedSize: 600_000)
      #expect(stored == 600_000)
    }
    #expect(try store.load("key")?.payload == payload(600_000))
    expect(.sizeMismatch) { try store.store(contentsOf: source, for: "key", expectedSize: -1) }
    #expect(try store.load("key")?.payload == payload(600_000))
  }

  /// S6: a size that can never be stored is refused before the source is read.
  @Test(arguments: [true, false]) func aSizeBeyondTheLimitIsRefused(isPipe: Bool) throws {
    let store = try cache.store { $0.limits.size = 1000 }
    let source = try makeSource(payload(10))
    let input = try isPipe ? pipe(payload(10)) : FileDescriptor.open(source, .readOnly, options: .closeOnExec)
    try input.closeAfter {
      expect(.payloadTooLarge) { try store.store(contentsOf: input, for: "key", expectedSize: 1000) }
      var bytes = [UInt8](repeating: 0, count: 20)
      let count = try bytes.withUnsafeMutableBytes { try input.read(into: $0) }
      #expect(count == 10)
    }
    #expect(try cache.files().isEmpty)
  }

  /// Returns a pipe that contains the bytes and ends after them.
  private func pipe(_ bytes: Data) throws -> FileDescriptor {
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    try OwnedThread {
      // A store that has failed does not read the rest.
      try? writeEnd.closeAfter { _ = try writeEnd.writeAll(bytes) }
    }
    return readEnd
  }
}
