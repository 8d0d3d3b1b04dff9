import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, P17c and P17d: the configuration of the program that last changed a directory.
@Suite struct RecordedConfigurationTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private static let file = ".blobcache.used"

  private func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try cache.store(files: files) {
      $0.access.recordsConfiguration = true
      $0.layout.arrangement = nil
      change(&$0)
    }
  }

  private func recorded() throws -> BlobStore.DirectorySettings {
    try BlobStore.recordedConfiguration(of: cache.root)
  }

  @Test func itIsThatOfTheLastProgramThatChangedTheDirectory() throws {
    #expect(try recorded().isEmpty)
    try store {
      $0.expiry.defaultTimeToLive = .milliseconds(699_500)
      $0.layout.naming = .sha256
      $0.layout.arrangement = .prefix
    }.store(payload(1), for: "key")
    #expect(
      String(decoding: try cache.bytes(Self.file), as: UTF8.self)
        .hasPrefix("blobcache 2\ndefault-ttl 700\nnaming sha256\nlayout prefix\ncheck "))
    let second = try store {
      $0.limits.size = 1 << 20
      $0.layout.arrangement = .flat
    }
    #expect(try second.load("key") == nil)
    #expect(try recorded().sizeLimit == nil)
    try second.store(payload(1), for: "key")
    var expected = BlobStore.DirectorySettings()
    expected.sizeLimit = .atMost(1 << 20)
    expected.arrangement = .flat
    #expect(try recorded() == expected)
    try store { $0.access.recordsConfiguration = false }.store(payload(1), for: "other")
    #expect(try recorded() == expected)
    // A program that leaves the arrangement to the directory follows and keeps it.
    try store().store(payload(1), for: "third")
    expected.sizeLimit = nil
    #expect(try recorded() == expected)
    #expect(try cache.exists("third"))
  }

  /// A directory of a program with the defaults, whose settings state its arrangement, needs no such file.
  @Test func defaultsNeedNoFile() throws {
    try store { $0.limits.size = 1 << 20 }.store(payload(1), for: "key")
    #expect(try cache.exists(Self.file))
    try store().store(payload(1), for: "key")
    #expect(try !cache.exists(Self.file))
    #expect(try BlobStore.settings(of: cache.root).arrangement == .spread)
  }

  /// N5c: once the directory is empty, only this file states the arrangement of a directory without settings.
  @Test func theArrangementOfRecordsIsKeptWithoutThem() throws {
    try cache.store().store(payload(1), for: "foobar")
    let store = try store()
    try store.remove("foobar")
    try FileManager.default.removeItem(atPath: cache.path("fo"))
    try self.store().store(payload(1), for: "foobar")
    #expect(try cache.exists("fo/foobar"))
  }

  @Test(arguments: RecordArrangement.allCases) func aFollowerTakesIt(arrangement: RecordArrangement) throws {
    try store {
      $0.expiry.defaultTimeToLive = .never
      $0.limits.size = 1 << 20
      $0.layout = .init(naming: .sha256, arrangement: arrangement)
    }.store(payload(1), for: "foobar")
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let configuration = try BlobStore.Configuration(following: cache.root)
    #expect(configuration.expiry.defaultTimeToLive >= .never)
    #expect(configuration.limits.size == 1 << 20)
    #expect(configuration.layout == .init(naming: .sha256, arrangement: arrangement))
  }

  /// A reset of the settings, which may be damaged, does not make collections expire what the program keeps.
  @Test func aResetKeepsIt() throws {
    try store { $0.expiry.defaultTimeToLive = .seconds(86_400) }.store(payload(1), for: "key")
    try cache.write([1], to: ".blobcache.conf")
    try BlobStore.changeSettings(of: cache.root, resetting: true) { _ in }
    #expect(try BlobStore.Configuration(following: cache.root).expiry.defaultTimeToLive == .seconds(86_400))
  }

  @Test(arguments: ["", "blobcache 9\ncheck 00000000\n", "default-ttl 60\n"])
  func anInvalidFileIsIgnoredAndReplaced(content: String) throws {
    try cache.write(Array(content.utf8), to: Self.file)
    #expect(try BlobStore.Configuration(following: cache.root).limits.size == nil)
    let store = try store { $0.limits.size = 1 << 20 }
    #expect(try store.load("key") == nil)
    try store.store(payload(1), for: "key")
    #expect(try recorded().sizeLimit == .atMost(1 << 20))
  }

  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away")) func aStrangersFileIsIgnored() throws {
    try store { $0.limits.size = 1 << 20 }.store(payload(1), for: "key")
    try check(chown(cache.path(Self.file), 54321, 54321), "chown")
    #expect(try recorded().isEmpty)
    #expect(try BlobStore.Configuration(following: cache.root).limits.size == nil)
    let before = try cache.state(Self.file)
    try store { $0.limits.size = 2 << 20 }.store(payload(1), for: "key")
    try store().store(payload(1), for: "key")
    #expect(try cache.state(Self.file) == before)
  }

  /// C28: where the layout is stated, a foreign file cannot be a record of another one.
  @Test(arguments: [true, false]) func aStatedLayoutCorrectsCountersBesideForeignFiles(isStated: Bool) throws {
    try cache.store { $0.access.recordsConfiguration = isStated }.store(payload(1), for: "key")
    try cache.write([1], to: "fo/reign/notes")
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let store = try cache.store()
    try store.collect()
    #expect(try store.usageEstimate()?.records == (isStated ? 1 : nil))
  }

  /// Users who do not trust each other would ignore each other's configuration.
  @Test func strangersRecordNothing() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o1777), "chmod")
    try store { $0.limits.size = 1 << 20 }.store(payload(1), for: "key")
    #expect(try !cache.exists(Self.file))
  }

  /// A user who may create files in the root could otherwise stop all others by a file that they cannot open.
  @Test func aFileOfStrangersStopsNobody() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o1777), "chmod")
    try cache.write([1], to: Self.file)
    trace.onCall { call, path in
      call == .openBeneath && path.lastComponent?.string == Self.file ? .fail(.permissionDenied) : nil
    }
    let store = try store(files: trace.files) { $0.limits.size = 1 << 20 }
    try store.store(payload(1), for: "key")
    #expect(try store.load("key")?.payload == payload(1))
    try store.collect()
    #expect(try cache.bytes(Self.file) == [1])
  }

  /// A file with another hard link, as in a copy by `cp -al`, is replaced and never changed in place.
  @Test func aLinkedFileIsReplaced() throws {
    try store { $0.limits.size = 1 << 20 }.store(payload(1), for: "key")
    let copy = cache.outside.path.string + "/copy"
    try check(link(cache.path(Self.file), copy), "link")
    let before = try bytes(ofFile: copy)
    try store { $0.limits.size = 2 << 20 }.store(payload(1), for: "key")
    #expect(try recorded().sizeLimit == .atMost(2 << 20))
    #expect(try bytes(ofFile: copy) == before)
    #expect(try cache.state(Self.file)?.links == 1)
  }

  /// A link, and anything else that is no file, leads to nothing, and programs work beside it.
  @Test(arguments: ["link", "directory", "fifo"]) func somethingElseInItsPlaceHarmsNobody(kind: String) throws {
    try cache.makeDirectory("")
    let target = cache.outside.path.string + "/target"
    try Data([7]).write(to: URL(filePath: target))
    switch kind {
    case "link": try FileManager.default.createSymbolicLink(atPath: cache.path(Self.file), withDestinationPath: target)
    case "directory": try cache.makeDirectory(Self.file)
    default: try check(mkfifo(cache.path(Self.file), 0o600), "mkfifo")
    }
    let inode = try cache.state(Self.file)?.inode
    let store = try store { $0.limits.size = 1 << 20 }
    try store.store(payload(1), for: "key")
    #expect(try store.load("key")?.payload == payload(1))
    try store.collect()
    #expect(try bytes(ofFile: target) == [7])
    #expect(try recorded().isEmpty)
    #expect(try cache.state(Self.file)?.inode == inode)
    #expect(try store.usage().temporaryFiles == 0)
  }

  /// It outlives wipes and collections, and is no foreign file.
  @Test(arguments: BlobStore.RemovalScope.allCases) func aWipeKeepsIt(scope: BlobStore.RemovalScope) throws {
    let store = try store { $0.limits.size = 1 << 20 }
    try store.store(payload(1), for: "key")
    try store.removeAll(scope)
    try store.collect()
    #expect(try recorded().sizeLimit == .atMost(1 << 20))
    #expect(try store.usage().foreignFiles == 0)
  }

  /// Programs that record at the same time leave the whole file of one of them.
  @Test func programsRecordAtOnce() throws {
    try cache.store().store(payload(1), for: "key")
    DispatchQueue.concurrentPerform(iterations: 8) { number in
      for round in 1...10 {
        #expect(throws: Never.self) {
          try self.store { if number > 0 { $0.limits.size = Int64(number * 1000 + round) } }.lock("key")
        }
      }
    }
    let limit = try recorded().sizeLimit?.value ?? 10
    #expect((1...10).contains(limit % 1000))
    let store = try store { $0.limits.size = 77 }
    #expect(try store.lock("key") == .done)
    #expect(try recorded().sizeLimit == .atMost(77))
    #expect(try store.usage().temporaryFiles == 0 && store.usage().foreignFiles == 0)
  }

  /// P3: it gets the root's permissions, like a record.
  @Test(arguments: [(0o700, 0o600), (0o770, 0o660), (0o755, 0o644)] as [(mode_t, UInt32)])
  func itTakesTheRootsPermissions(root: mode_t, file: UInt32) throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), root), "chmod")
    try store { $0.limits.size = 1 << 20 }.store(payload(1), for: "key")
    #expect(try cache.state(Self.file)?.permissions == file)
  }

  /// No change depends on the file.
  @Test(arguments: [SystemCall.rename, .sync]) func anErrorIsNotThatOfTheChange(call: SystemCall) throws {
    try cache.store().store(payload(1), for: "foobar")
    let log = RecordedLog()
    let store = try store(files: trace.files) {
      $0.limits.size = 1 << 20
      $0.logger = log.logger
    }
    trace.onCall { [trace] found, _ in
      guard found == call else { return nil }
      trace.onCall(nil)
      return .fail(.noSpace)
    }
    #expect(try store.lock("foobar") == .done)
    #expect(log.warnings.isEmpty)
    #expect(try recorded().isEmpty)
  }

  /// After the first change, which reads the file, no change makes a call for it.
  @Test func onlyTheFirstChangeLooks() throws {
    try store { $0.limits.size = 1 << 20 }.store(payload(1), for: "key")
    let store = try store(files: trace.files) { $0.limits.size = 1 << 20 }
    func looks() throws -> Int {
      _ = trace.take()
      try store.store(payload(1), for: "key")
      return trace.take().count { $0.path.hasSuffix(Self.file) }
    }
    #expect(try looks() > 0)
    #expect(try looks() == 0)
  }
}
