import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Temporary files with names: which stores create them, and how they are removed if a signal ends the program.
@Suite(.timeLimit(.minutes(30))) struct TemporaryNameTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func temporaryFiles() throws -> Set<String> { try cache.files().filter { $0.contains(".tmp-") } }

  /// A file can be read again, so its copy needs no name until it is complete.
  @Test(.enabled(if: SystemCall.hasUnnamedFiles)) func aFileIsCopiedWithoutAName() throws {
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "ke")
    let source = cache.outside.path.appending("source")
    try payload(700_000).write(to: URL(filePath: source.string))
    _ = trace.take()
    #expect(try store.store(contentsOf: source, for: "key") == 700_000)
    #expect(trace.count(.openUnnamed) == 1)
    #expect(trace.count { $0.path.contains(".tmp-") } == 0)
    #expect(try store.load("key")?.payload == payload(700_000))
  }

  /// The input is read from the descriptor's position, also the second time.
  @Test(.enabled(if: SystemCall.hasUnnamedFiles)) func aFileIsReadAgainFromWhereItWas() throws {
    let store = try cache.store(files: trace.files)
    let source = cache.outside.path.appending("source")
    try payload(700_000).write(to: URL(filePath: source.string))
    let input = try FileDescriptor.open(source, .readOnly, options: .closeOnExec)
    defer { #expect(throws: Never.self) { try input.close() } }
    try input.seek(offset: 100_000, from: .start)
    // An unnamed file cannot be linked later.
    trace.onCall { call, _ in call == .linkUnnamed ? .fail(.notPermitted) : nil }
    #expect(try store.store(contentsOf: input, for: "key") == 600_000)
    #expect(try store.load("key")?.payload == payload(700_000).dropFirst(100_000))
  }

  /// S6: the remaining size of a file is known in advance.
  @Test func aFileThatIsTooLargeIsRefusedBeforeAnythingIsMade() throws {
    let store = try cache.store(files: trace.files) { $0.limits.payload = 1000 }
    let source = cache.outside.path.appending("source")
    try payload(1500).write(to: URL(filePath: source.string))
    let input = try FileDescriptor.open(source, .readOnly, options: .closeOnExec)
    defer { #expect(throws: Never.self) { try input.close() } }
    expect(.payloadTooLarge) { try store.store(contentsOf: input, for: "key") }
    #expect(trace.take().isEmpty)
    #expect(try cache.state("") == nil)
    try input.seek(offset: 500, from: .start)
    #expect(try store.store(contentsOf: input, for: "key") == 1000)
    // There is no input past the end of the file.
    try input.seek(offset: 2000, from: .start)
    #expect(try store.store(contentsOf: input, for: "key") == 0)
  }

  /// S5: a descriptor that refers to something else when the input is read again is an error.
  @Test func whatCannotBeReadFromItsStartIsAnError() throws {
    let store = try cache.store(files: trace.files)
    let source = cache.outside.path.appending("source")
    try payload(10).write(to: URL(filePath: source.string))
    let input = try FileDescriptor.open(source, .readOnly, options: .closeOnExec)
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    trace.onCall { call, _ in
      if call == .creation { _ = dup2(readEnd.rawValue, input.rawValue) }
      return nil
    }
    let error = expect(.fileSystem) { try store.store(contentsOf: input, for: "key") }
    #expect(error?.systemCall == "lseek(2)" && error?.errno == .illegalSeek)
    #expect(try cache.files().isEmpty)
    for end in [input, readEnd, writeEnd] { try end.close() }
  }

  /// The names of files that are being written are recorded only if a watcher was registered before.
  @Test(arguments: [true, false]) func whatIsAbandonedIsUnlinked(isWatched: Bool) throws {
    let store = try cache.store(files: trace.files)
    if isWatched { store.temporaryNames.watch() }
    try store.store(payload(5), for: "key")
    try store.store(payload(6), for: "key")
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    defer { #expect(throws: Never.self) { try readEnd.close() } }
    let isEnded = Gate()
    let thread = try OwnedThread {
      // The file that the store was writing no longer exists.
      _ = try? store.store(contentsOf: readEnd, for: "key")
      isEnded.open()
    }
    while try temporaryFiles().isEmpty { usleep(1000) }
    let left = store.temporaryNames.abandonAll { try? temporaryFiles() }
    #expect(left?.isEmpty == isWatched)
    #expect(try store.load("key")?.payload == payload(6))
    try writeEnd.close()
    #expect(isEnded.wait())
    thread.join()
    #expect(try temporaryFiles().isEmpty)
    #expect(try cache.files() == ["ke/key"])
  }

  /// A store that fails unlinks its file, which may be incomplete or complete.
  @Test(arguments: [SystemCall.lock, .status, .write])
  func aStoreThatFailsLeavesNoFile(call: SystemCall) throws {
    let store = try cache.store(files: trace.files)
    trace.onCall { made, path in
      if made == .openUnnamed { return .fail(.notSupported) }
      return made == call && path.string.contains("/ke/") ? .fail(.ioError) : nil
    }
    #expect(expect(.fileSystem) { try store.store(payload(5), for: "key") }?.errno == .ioError)
    #expect(trace.count { $0.path.contains("/ke/.tmp-") } > 0)
    #expect(try cache.files().isEmpty)
  }

  /// A file that was published or discarded is not unlinked.
  @Test func whatIsPublishedStays() throws {
    let store = try cache.store(files: trace.files)
    store.temporaryNames.watch()
    trace.onCall { call, _ in call == .openUnnamed ? .fail(.notSupported) : nil }
    for key in ["key", "key", "kex"] as [BlobKey] { try store.store(payload(5), for: key) }
    trace.onCall { call, _ in
      call == .openUnnamed ? .fail(.notSupported) : call == .write ? .fail(.ioError) : nil
    }
    expect(.fileSystem) { try store.store(payload(5), for: "key") }
    _ = trace.take()
    store.temporaryNames.abandonAll {}
    #expect(trace.count(.unlink) == 0)
    #expect(try cache.files() == ["ke/key", "ke/kex"])
  }
}
