import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Foreign things that may occupy the path of a record.
enum Oddity: String, CaseIterable {
  case directory, fifo, unixSocket, device, linkToRecord, linkToOutside, danglingLink, linkToDevice, ownedByAnother

  /// A Boolean value that indicates whether this process can create the thing.
  var isPossible: Bool {
    switch self {
    case .device, .ownedByAnother: geteuid() == 0
    default: true
    }
  }

  func make(at file: String, in cache: Cache) throws {
    try cache.makeDirectory(FilePath(file).removingLastComponent().string)
    let path = cache.path(file)
    switch self {
    case .directory:
      try check(mkdir(path, 0o700), "mkdir")
      try Data("x".utf8).write(to: URL(filePath: path + "/x"))
    case .fifo: try check(mkfifo(path, 0o600), "mkfifo")
    case .unixSocket: try bindSocket(path)
    case .device: try check(mknod(path, S_IFCHR | 0o600, 0x0103), "mknod")  // the null device's number on Linux
    case .linkToRecord:
      try cache.store().store(payload(5), for: "good")
      try check(symlink(cache.path("go/good"), path), "symlink")
    case .linkToOutside:
      let outside = cache.outside.path.string + "/outside"
      try Data(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1, 2, 3]))
        .write(to: URL(filePath: outside))
      try check(symlink(outside, path), "symlink")
    case .danglingLink: try check(symlink(cache.outside.path.string + "/nothing", path), "symlink")
    case .linkToDevice: try check(symlink("/dev/zero", path), "symlink")
    case .ownedByAnother:
      try cache.write(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1, 2, 3]), to: file)
      try check(chown(path, 12_345, 12_345), "chown")
    }
  }

  /// Binds the socket through a short path, because a socket address is shorter than most temporary paths.
  private func bindSocket(_ path: String) throws {
    let short = "/tmp/blobcache-\(UInt32.random(in: 0 ... .max))"
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: short.utf8) }
    #if os(Linux)
      let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    #else
      let descriptor = socket(AF_UNIX, SOCK_STREAM, 0)
    #endif
    defer { close(descriptor) }
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try check(result, "bind")
    try check(rename(short, path), "rename")
  }
}

/// Spec/Semantics.md, F.
@Suite struct ForeignFileTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// F1, R2, S8, W4, C5: all operations on a foreign thing at the record's path, in a subdirectory or the root.
  @Test(.timeLimit(.minutes(30)), arguments: Oddity.allCases.filter(\.isPossible), ["ke/key", "k"])
  func noOperationTouchesTheForeignOrWaitsForIt(oddity: Oddity, file: String) throws {
    try oddity.make(at: file, in: cache)
    let key = BlobKey(file.split(separator: "/").last.map(String.init) ?? "")
    let sound = try cache.store { $0.expiry.defaultTimeToLive = .seconds(1_000_000) }
    try sound.store(payload(7), for: "sound", ttl: .seconds(1_000_000))
    let store = try cache.store {
      $0.limits.size = 1_000_000
      $0.damagePolicy = .remove
    }
    let before = try cache.snapshot()
    #expect(try store.load(key) == nil)
    #expect(try store.load(prefix: key.string) { $0.first } == nil)
    #expect(try store.header(for: key) == nil)
    #expect(try store.contains(key) == false)
    #expect(try store.touch(key) == .notFound)
    #expect(try store.lock(key) == .notFound)
    #expect(try store.unlock(key) == .notFound)
    #expect(try store.unlock(key, force: true) == .notFound)
    #expect(try store.remove(key) == .notFound)
    let error = expect(.foreignFile) { try store.store(payload(5), for: key) }
    #expect(error?.path?.string == cache.path(file))
    expect(.foreignFile) { try store.store(payload(5), for: key, locks: .keepOrOne) }
    let input = try FileDescriptor.open("/dev/null", .readOnly, options: .closeOnExec)
    expect(.foreignFile) { try store.store(contentsOf: input, for: key) }
    try input.close()
    #expect(try !store.records().contains { $0.file == file })
    #expect(try store.usage().foreignFiles == 1)
    #expect(try store.verify().foreignFiles == 1)
    #expect(try cache.snapshot() == before)
    cache.clock.advance(by: 10_000)
    try store.collect()
    try cache.store {
      $0.limits.size = 1_000_000
      $0.limits.freeSpaceFloor = .max
    }.collect()
    try store.removeAll(.locked)
    try store.removeAll(.unlocked)
    try sound.store(payload(7), for: "sound")
    try store.removeAll(.all)
    // Neither the foreign thing nor the target of a link has changed.
    for (name, state) in before where name.hasPrefix("cache/\(file)") || !name.hasPrefix("cache") {
      #expect(try fileState(cache.outside.path.string + "/" + name) == state, "\(name)")
    }
    #expect(try cache.files().subtracting([file, file + "/x"]) == [])
  }

  /// F1: the same for an ordinary user, whose loads check the file type only if the file looks odd.
  @Test(.timeLimit(.minutes(30)), arguments: Oddity.allCases.filter { $0.isPossible && $0 != .ownedByAnother })
  func ordinaryUsersLoadNothingForeign(oddity: Oddity) throws {
    try oddity.make(at: "ke/key", in: cache)
    let trace = CallTrace(accessTimeTellsOwner: true)
    let store = try cache.store(files: trace.files) { $0.damagePolicy = .remove }
    try store.store(payload(5), for: "kept", ttl: .seconds(1000))
    let before = try cache.snapshot()
    #expect(try store.load("key") == nil)
    #expect(try store.load("kept")?.payload == payload(5))
    #expect(try cache.snapshot() == before)
  }

  /// F1: directories with control names, and odd things in place of temporary files and the quarantine.
  @Test(.timeLimit(.minutes(30)), arguments: Oddity.allCases.filter { $0.isPossible && $0 != .directory })
  func oddHiddenNamesAreForeign(oddity: Oddity) throws {
    for file in [".quarantine", ".tmp-1", "ke/.tmp-1"] {
      let cache = try Cache()
      try oddity.make(at: file, in: cache)
      let state = try #require(try cache.state(file))
      let store = try cache.store { $0.damagePolicy = .quarantine }
      try cache.store().store(payload(5), for: "key")
      #expect(try store.usage().foreignFiles == 1)
      #expect(try store.usage().temporaryFiles == 0)
      #expect(try store.collect().temporary == 0)
      try Damage.magicMismatch.inflict(on: "ke/key", in: cache)
      // The damaged record is moved to the quarantine, or left in place if there cannot be a quarantine.
      expect(.damaged) { _ = try store.load("key") }
      try store.store(payload(5), for: "key")
      try store.removeAll(.all)
      #expect(try cache.state(file) == state)
    }
  }

  /// F2, N6: a subdirectory that is a link out of the root, to another cache.
  @Test func nothingBehindALinkedSubdirectoryIsReached() throws {
    let elsewhere = try Cache()
    try elsewhere.store().store(payload(5), for: "key", ttl: .seconds(1))
    try elsewhere.write([1], to: "ke/.tmp-1")
    try elsewhere.write([1], to: "ke/kedamaged")
    try elsewhere.setModified("ke/kedamaged", 0)
    try elsewhere.makeDirectory("ke/em")
    let before = try elsewhere.snapshot()
    let store = try cache.store {
      $0.limits.size = 100
      $0.damagePolicy = .remove
    }
    try store.store(payload(5), for: "a")
    try check(symlink(elsewhere.path("ke"), cache.path("ke")), "symlink")
    #expect(try store.load("key") == nil)
    #expect(try store.load(prefix: "ke") { $0.first } == nil)
    #expect(try store.load("kedamaged") == nil)
    #expect(try store.contains("key") == false)
    #expect(try store.lock("key") == .notFound)
    #expect(try store.touch("key") == .notFound)
    #expect(try store.unlock("key") == .notFound)
    #expect(try store.remove("key") == .notFound)
    #expect(try store.remove("kedamaged") == .notFound)
    let error = expect(.fileSystem) { try store.store(payload(5), for: "key") }
    #expect(error?.errno == .notDirectory || error?.errno == .tooManySymbolicLinkLevels)
    #expect(error?.path?.string == cache.path("ke"))
    expect(.fileSystem) {
      try store.store(payload(5), for: "new", ttl: nil); try store.store(payload(5), for: "kex")
    }
    #expect(try store.records().map(\.file).sorted() == ["a", "ne/new"])
    #expect(try store.usage().foreignFiles == 1)
    cache.clock.advance(by: 10_000)
    try store.collect()
    try store.store(payload(5), for: "a")
    try store.removeAll(.all)
    #expect(try elsewhere.snapshot() == before)
    #expect(try cache.files() == ["ke"])
  }

  /// F2: linked subdirectories are refused even if the kernel, or a system call filter, refuses openat2(2).
  @Test(arguments: [Errno.noFunction, .notPermitted]) func linksAreRefusedWithoutOpenBeneath(errno: Errno) throws {
    let elsewhere = try Cache()
    try elsewhere.store().store(payload(5), for: "key")
    let trace = CallTrace()
    trace.onCall { call, _ in call == .openBeneath ? .fail(errno) : nil }
    let store = try cache.store(files: trace.files)
    try store.store(payload(6), for: "own")
    #expect(try store.load("own")?.payload == payload(6))
    #expect(try store.lock("own") == .done)
    try check(symlink(elsewhere.path("ke"), cache.path("ke")), "symlink")
    try check(symlink(elsewhere.path("ke/key"), cache.path("ow/owl")), "symlink")
    try check(mkfifo(cache.path("ow/ower"), 0o600), "mkfifo")
    for key in ["key", "owl", "ower", "absent"] as [BlobKey] {
      #expect(try store.load(key) == nil)
      #expect(try store.lock(key) == .notFound)
    }
    #expect(try elsewhere.header("ke/key").refCount == 0)
    #expect(trace.take().count { $0.call == .openBeneath } == 1)
  }

  /// F1: names that no key has, and places that contain no record of that name.
  @Test(arguments: ["ke/%6Bey", "ke/%", "ab/key", "key", "ke/%2g", "ke/k", "long/key", "ke/.key"])
  func misplacedAndMisnamedFilesAreForeign(file: String) throws {
    let store = try cache.store { $0.limits.size = 1_000_000 }
    try store.store(payload(5), for: "sound")
    try cache.write(record(RecordHeader(updateTime: 0, payloadSize: 0), [1, 2, 3]), to: file)
    let before = try cache.state(file)
    #expect(try store.usage().foreignFiles == 1)
    #expect(try store.usage().records == 1)
    #expect(try store.collect().expired == 0)
    #expect(try store.removeAll(.all).files == 1)
    #expect(try cache.state(file) == before)
  }

  /// F1: names that are not valid UTF-8.
  @Test func namesThatAreNotUTF8AreForeign() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    let name = Array(cache.path("ke/").utf8) + [0x6B, 0x65, 0xFF, 0]
    let descriptor = name.withUnsafeBufferPointer { bytes in
      bytes.withMemoryRebound(to: CChar.self) { open($0.baseAddress!, O_CREAT | O_WRONLY, 0o600) }
    }
    // APFS does not support such names.
    guard descriptor >= 0 else { return }
    close(descriptor)
    #expect(try store.usage().foreignFiles == 1)
    #expect(try store.collect().failed == 0)
    #expect(try store.removeAll(.all).files == 1)
    #expect(try store.usage().foreignFiles == 1)
  }

  /// F3.
  @Test func hiddenDirectoriesAreNotWalked() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try cache.write(record(RecordHeader(updateTime: 0, payloadSize: 0), [1]), to: ".g/.git")
    try cache.write(record(RecordHeader(updateTime: 0, payloadSize: 0), [1]), to: ".git/HEAD")
    #expect(try store.usage().foreignFiles == 2)
    #expect(try store.removeAll(.all).files == 1)
    #expect(try cache.files() == [".g/.git", ".git/HEAD"])
  }

  /// F1, S8, R1: a regular file with the right place and owner is a damaged record, however short it is.
  @Test(arguments: 0...63) func shortFilesAreDamagedRecords(byteCount: Int) throws {
    let store = try cache.store()
    try store.store(payload(100), for: "key")
    let whole = try cache.bytes("ke/key")
    try cache.write(Array(whole.prefix(byteCount)), to: "ke/key")
    let error = expect(.damaged) { _ = try store.load("key") }
    #expect(error?.recordError == .notEnoughDataToGetHeader(byteCount: Int64(byteCount)))
    expect(.damaged) { try store.lock("key") }
    #expect(try store.usage().damagedFiles == 1)
    #expect(try store.verify().damagedFiles == 1)
    #expect(try store.removeAll(.unlocked).files == 0)
    try cache.setModified("ke/key", 0)
    #expect(try store.collect().damaged == 1)
    try cache.write(Array(whole.prefix(byteCount)), to: "ke/key")
    try store.store(payload(5), for: "key")
    #expect(try store.load("key")?.payload == payload(5))
  }
}
