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
