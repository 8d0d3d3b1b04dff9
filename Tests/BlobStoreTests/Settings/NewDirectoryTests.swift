import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, N5c to N5f: a store that follows the arrangement of its directory.
@Suite struct NewDirectoryTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private static let settingsFile = ".blobcache.conf"
  /// The path of the key `foobar` in each arrangement; its FNV-1a hash is 0x85944171f73967e8.
  private static let places: [RecordArrangement: String] = [
    .prefix: "fo/foobar", .spread: "v8/foobar", .adaptive: "v/foobar", .flat: "foobar",
  ]

  private func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try cache.store(files: files) {
      $0.layout.arrangement = nil
      change(&$0)
    }
  }

  private func arrangementThatIsSaid() throws -> RecordArrangement? {
    try BlobStore.settings(of: cache.root).arrangement
  }

  /// Stores a blob with another program's configuration.
  private func plant(_ arrangement: RecordArrangement, _ byteCount: Int = 5) throws {
    try cache.store { $0.layout.arrangement = arrangement }.store(payload(byteCount), for: "foobar")
  }

  // MARK: - New directories

  @Test(arguments: [true, false]) func theFirstStoreAdaptsAndSaysSo(isThere: Bool) throws {
    if isThere { try cache.makeDirectory("") }
    let store = try store()
    try store.store(payload(5), for: "foobar")
    #expect(try cache.files() == ["v/foobar", Self.settingsFile])
    var expected = BlobStore.DirectorySettings()
    expected.arrangement = .adaptive
    #expect(try BlobStore.settings(of: cache.root) == expected)
    #expect(try BlobStore.hint(at: cache.root)?.layout == RecordLayout(arrangement: .adaptive))
    #expect(try store.load("foobar")?.payload == payload(5))
    #expect(try self.store().load("foobar")?.payload == payload(5))
    #expect(try store.filePath(for: "foobar") == cache.root.appending("v/foobar"))
    #expect(try store.usage().foreignFiles == 0)
  }

  @Test(arguments: [true, false]) func aStoreThatOnlyLooksWritesNothing(isThere: Bool) throws {
    if isThere { try cache.makeDirectory("") }
    let before = try cache.outside.names(in: "")
    let store = try store()
    #expect(try store.filePath(for: "foobar") == cache.root.appending("v/foobar"))
    #expect(try store.load("foobar") == nil)
    #expect(try store.records().map(\.file) == [])
    #expect(try store.remove("foobar") == .notFound)
    #expect(try cache.outside.names(in: "") == before)
    if isThere { #expect(try !cache.exists(Self.settingsFile)) }
  }

  @Test(arguments: [".hidden", "CACHEDIR.TAG"]) func whatIsNoRecordLeavesADirectoryNew(name: String) throws {
    try cache.write([1], to: name)
    try store().store(payload(5), for: "foobar")
    #expect(try cache.exists("v/foobar"))
  }

  @Test(arguments: ["fo/other", "notes", "x"]) func aDirectoryInUseStaysAsItIs(file: String) throws {
    try cache.write([1], to: file)
    try store().store(payload(5), for: "foobar")
    #expect(try cache.exists("fo/foobar"))
    #expect(try !cache.exists(Self.settingsFile))
  }

  /// SPTPersistentCache, which arranges records by prefix, also reads directories with this naming or format.
  @Test(arguments: [(RecordNaming.verbatim, BlobStore.RecordFormat.checksummed), (.encoded, .reference)])
  func namesAndHeadersOfTheReferenceLieByPrefix(naming: RecordNaming, format: BlobStore.RecordFormat) throws {
    let store = try store {
      $0.layout.naming = naming
      $0.format = format
    }
    try store.store(payload(5), for: "foobar")
    #expect(try cache.files() == ["fo/foobar"])
    #expect(BlobStore.Configuration.sptPersistentCache.layout.arrangement == .prefix)
  }

  /// Users who do not trust each other could not read each other's settings.
  @Test func whereStrangersMakeFilesRecordsLieByPrefix() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o1777), "chmod")
    try store().store(payload(5), for: "foobar")
    #expect(try cache.files() == ["fo/foobar"])
  }

  // MARK: - Settings and hints of a directory

  @Test(arguments: RecordArrangement.allCases) func theSettingsDecide(said: RecordArrangement) throws {
    try cache.makeDirectory("")
    try BlobStore.changeSettings(of: cache.root) { $0.arrangement = said }
    let before = try cache.bytes(Self.settingsFile)
    try store().store(payload(5), for: "foobar")
    #expect(try cache.exists(#require(Self.places[said])))
    #expect(try store().load("foobar")?.payload == payload(5))
    #expect(try cache.bytes(Self.settingsFile) == before)
  }

  @Test func settingsWithoutAnArrangementKeepWhatTheySay() throws {
    try cache.makeDirectory("")
    try BlobStore.changeSettings(of: cache.root) { $0.sizeLimit = .atMost(1 << 30) }
    try store().store(payload(5), for: "foobar")
    var expected = BlobStore.DirectorySettings()
    expected.sizeLimit = .atMost(1 << 30)
    expected.arrangement = .adaptive
    #expect(try BlobStore.settings(of: cache.root) == expected)
    #expect(try cache.exists("v/foobar"))
  }

  /// The hint that another program has left decides the arrangement, even in an empty directory.
  @Test(arguments: RecordArrangement.allCases, [true, false])
  func theHintDecidesWhereSettingsSayNothing(arrangement: RecordArrangement, isEmpty: Bool) throws {
    try plant(arrangement)
    if isEmpty { try cache.store { $0.layout.arrangement = arrangement }.removeAll(.all) }
    let store = try store()
    #expect(try store.load("foobar")?.payload == (isEmpty ? nil : payload(5)))
    try store.store(payload(6), for: "foobar")
    #expect(try cache.bytes(#require(Self.places[arrangement])).count == 70)
    // The settings contain an arrangement by digests, too, because the hint is lost with the control file.
    #expect(try arrangementThatIsSaid() == ([.spread, .adaptive].contains(arrangement) ? arrangement : nil))
  }

  @Test func recordsWithoutAControlFileLieByPrefix() throws {
    try plant(.prefix)
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let store = try store()
    #expect(try store.load("foobar")?.payload == payload(5))
    try store.store(payload(6), for: "foobar")
    #expect(try cache.files() == ["fo/foobar"])
  }

  @Test func anAdaptiveDirectoryNeedsNoControlFile() throws {
    try store().store(payload(5), for: "foobar")
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    #expect(try store().load("foobar")?.payload == payload(5))
  }

  // MARK: - Several programs

  /// Before the first store, another program may still decide the arrangement.
  @Test func aLookAtTheRootTellsWhatAnotherProgramHasDecided() throws {
    try cache.makeDirectory("")
    let store = try store()
    #expect(try store.load("foobar") == nil)
    try plant(.prefix)
    store.checkRoot()
    #expect(try store.load("foobar")?.payload == payload(5))
    #expect(try store.filePath(for: "foobar") == cache.root.appending("fo/foobar"))
  }

  @Test func aFirstStoreLooksOnceMore() throws {
    try cache.makeDirectory("")
    let store = try store()
    #expect(try store.load("foobar") == nil)
    try plant(.prefix)
    try store.store(payload(6), for: "foobar")
    #expect(try cache.files() == ["fo/foobar"])
  }

  @Test func twoFirstStoresAgree() throws {
    let other = try store()
    before(.renameNoReplace, at: Self.settingsFile) { try other.store(payload(5), for: "other") }
    let store = try store(files: trace.files)
    try store.store(payload(6), for: "foobar")
    #expect(try store.load("other")?.payload == payload(5))
    #expect(try other.load("foobar")?.payload == payload(6))
    #expect(try arrangementThatIsSaid() == .adaptive)
  }

  /// For each call of the first store, another process's first store precedes it or finds the key locked.
  @Test(arguments: [true, false]) func firstStoresAgreeAtEveryCall(isThere: Bool) throws {
    var (call, wasReached) = (0, true)
    while wasReached {
      let (cache, trace) = (try Cache(), CallTrace())
      if isThere { try cache.makeDirectory("") }
      let other = try cache.store {
        $0.layout.arrangement = nil
        $0.access.lockTimeout = .zero
      }
      let calls = CallCount()
      trace.onCall { [call] _, _ in
        defer { calls.add(1) }
        guard calls.value == call else { return nil }
        do {
          try other.store(payload(5), for: "other")
        } catch {
          #expect((error as? BlobStoreError)?.code == .busy)
        }
        return nil
      }
      try cache.store(files: trace.files) { $0.layout.arrangement = nil }.store(payload(6), for: "foobar")
      wasReached = calls.value > call
      #expect(try other.load("foobar")?.payload == payload(6), "before call \(call)")
      #expect(try cache.files().contains("v/foobar"), "before call \(call)")
      call += 1
    }
    #expect(call > 20)
  }

  @Test(arguments: [true, false]) func settingsThatComeFirstHold(hasSettings: Bool) throws {
    try cache.makeDirectory("")
    let root = cache.root
    if hasSettings { try BlobStore.changeSettings(of: root) { $0.countLimit = .atMost(7) } }
    let say: @Sendable () throws -> Void = { try BlobStore.changeSettings(of: root) { $0.arrangement = .flat } }
    if hasSettings { before(.lock, say) } else { before(.renameNoReplace, at: Self.settingsFile, say) }
    try store(files: trace.files).store(payload(5), for: "foobar")
    #expect(try cache.files() == ["foobar", Self.settingsFile])
    #expect(try BlobStore.settings(of: root).countLimit == (hasSettings ? .atMost(7) : nil))
  }

  /// Like a first store, a change of settings creates the file only if it does not exist.
  @Test func aChangeOfSettingsKeepsWhatAFirstStoreSays() throws {
    try cache.makeDirectory("")
    // With this mode, the control file is created without the lock of the root, which the change holds.
    try check(chmod(cache.path(""), 0o755), "chmod")
    let store = try store()
    before(.renameNoReplace, at: Self.settingsFile) { try store.store(payload(5), for: "foobar") }
    try BlobStore.changeSettings(of: cache.root, files: trace.files) { $0.countLimit = .atMost(7) }
    let settings = try BlobStore.settings(of: cache.root)
    #expect(settings.countLimit == .atMost(7) && settings.arrangement == .adaptive)
    #expect(try cache.exists("v/foobar"))
  }

  // MARK: - Settings are not lost

  @Test(arguments: [true, false], [true, false])
  func aResetKeepsAnAdaptiveDirectory(isDamaged: Bool, hasControlFile: Bool) throws {
    try store().store(payload(5), for: "foobar")
    try BlobStore.changeSettings(of: cache.root) { $0.countLimit = .atMost(7) }
    if isDamaged { try cache.write([1, 2, 3], to: Self.settingsFile) }
    if !hasControlFile { try FileManager.default.removeItem(atPath: cache.path(".blobcache")) }
    let settings = try BlobStore.changeSettings(of: cache.root, resetting: true) { _ in }
    #expect(settings.arrangement == .adaptive && settings.countLimit == nil)
    #expect(try BlobStore.settings(of: cache.root) == settings)
    #expect(try store().load("foobar")?.payload == payload(5))
  }

  @Test func settingsCannotForgetThatRecordsAreSpread() throws {
    try store().store(payload(5), for: "foobar")
    #expect(try BlobStore.changeSettings(of: cache.root) { $0.arrangement = nil }.arrangement == .adaptive)
  }
}
