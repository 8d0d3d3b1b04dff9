import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, I1a to I1d: packing in new directories and in directories that are in use.
@Suite struct NewDirectoryPackingTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private static let settingsFile = ".blobcache.conf"

  private static let packs = BlobStore.Packing.upTo(8192)

  /// - Parameter packing: The configured packing, or `nil` for a store that follows its directory.
  private func store(
    _ packing: BlobStore.Packing?, in other: Cache? = nil, files: Files = Files(),
    _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try (other ?? cache).store(files: files) {
      $0.layout.arrangement = nil
      $0.packing = packing
      change(&$0)
    }
  }

  private func packingThatIsSaid() throws -> BlobStore.Packing? { try BlobStore.settings(of: cache.root).packing }

  /// Returns the files that contain one record each.
  private func recordFiles(in other: Cache? = nil) throws -> Set<String> {
    try (other ?? cache).files().filter { !$0.hasPrefix(".") }
  }

  /// Stores a small blob and returns a Boolean value that indicates whether it has its own file.
  private func isFile(_ key: BlobKey, storedBy store: BlobStore, _ byteCount: Int = 100) throws -> Bool {
    try store.store(payload(byteCount), for: key)
    #expect(try store.load(key)?.payload == payload(byteCount))
    return try recordFiles().contains { $0.hasSuffix("/" + key.string) || $0 == key.string }
  }

  // MARK: - New directories

  /// A blob is stored in its own file unless packing is configured.
  @Test(arguments: [RecordNaming.encoded, .sha256], [nil] + RecordArrangement.allCases)
  func aStoreThatIsNotToldPacksNothing(naming: RecordNaming, arrangement: RecordArrangement?) throws {
    let store = try store(nil) { $0.layout = .init(naming: naming, arrangement: arrangement) }
    try store.store(payload(1), for: "small")
    var writer = try store.openWriter(for: "stream")
    try writer.append(payload(2))
    try writer.commit()
    let blobs: [(key: BlobKey, payload: Data)] = [("one", payload(3)), ("two", payload(4))]
    for result in store.store(blobs) {
      #expect(throws: Never.self) { try result.result.get() }
    }
    #expect(try recordFiles().count == 4)
    #expect(try packingThatIsSaid() == nil)
    #expect(try !cache.exists(".packs"))
  }

  @Test(arguments: [RecordNaming.encoded, .sha256], [nil] + RecordArrangement.allCases)
  func theFirstStorePacksAndSaysSo(naming: RecordNaming, arrangement: RecordArrangement?) throws {
    let store = try store(Self.packs) { $0.layout = .init(naming: naming, arrangement: arrangement) }
    try store.store(payload(100), for: "small")
    #expect(try cache.files() == Cache.filesOfPacks)
    #expect(try packingThatIsSaid() == .upTo(8192))
    try store.store(payload(9000), for: "large")
    #expect(try recordFiles().count == 1)
    // A stream that stays small, and blobs that are stored in one call.
    var writer = try store.openWriter(for: "stream")
    try writer.append(payload(200))
    try writer.commit()
    let blobs: [(key: BlobKey, payload: Data)] = [("one", payload(1)), ("two", payload(2))]
    for result in store.store(blobs) {
      #expect(throws: Never.self) { try result.result.get() }
    }
    #expect(try recordFiles().count == 1)
    let other = try self.store(nil) { $0.layout = .init(naming: naming, arrangement: arrangement) }
    try other.store(payload(300), for: "other")
    #expect(try recordFiles().count == 1)
    for (key, byteCount) in [("small", 100), ("large", 9000), ("stream", 200), ("one", 1), ("other", 300)] {
      #expect(try other.load(BlobKey(key))?.payload == payload(byteCount))
    }
  }

  /// SPTPersistentCache reads directories with this naming or format, and does not support packs.
  @Test(
    arguments: [
      (RecordNaming.verbatim, BlobStore.RecordFormat.checksummed), (.verbatim, .reference), (.encoded, .reference),
      (.sha256, .reference),
    ], [nil, BlobStore.Packing.upTo(8192)])
  func nothingIsPackedForTheReference(
    _ kind: (naming: RecordNaming, format: BlobStore.RecordFormat), packing: BlobStore.Packing?
  ) throws {
    let store = try store(packing) {
      $0.layout.naming = kind.naming
      $0.format = kind.format
    }
    try store.store(payload(100), for: "small")
    #expect(try cache.files().count == 1 && recordFiles().count == 1)
    #expect(try packingThatIsSaid() == nil)
  }

  @Test func theConfigurationOfTheReferencePacksNothing() throws {
    let store = try cache.store { configuration in
      let now = configuration.now
      configuration = .sptPersistentCache
      configuration.now = now
    }
    #expect(try isFile("small", storedBy: store))
    #expect(try cache.files() == ["sm/small"])
  }

  /// Users who distrust each other cannot share settings, and users with read access open no control file.
  @Test(arguments: [0o1777, 0o755, 0o750] as [mode_t]) func whereOthersMayLookTheSettingsDoNotMentionPacking(
    mode: mode_t
  ) throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), mode), "chmod")
    try store(Self.packs).store(payload(100), for: "small")
    #expect(try packingThatIsSaid() == nil)
    #expect(try isFile("other", storedBy: store(nil)))
    #expect(try store(nil).load("small")?.payload == payload(100))
  }

  /// Operations that create a control file before the first record do not mark a directory as in use.
  @Test func aLockBeforeTheFirstStoreLeavesADirectoryNew() throws {
    for makesDirectory in [true, false] {
      let cache = try Cache()
      if makesDirectory { try cache.makeDirectory("") }
      let store = try store(Self.packs, in: cache)
      let unlock = try #require(try store.tryProductionLock(of: "small"))
      try self.store(Self.packs, in: cache).store(payload(100), for: "small")
      unlock()
      #expect(try recordFiles(in: cache) == [])
    }
    _ = try store(Self.packs).firstHistory(of: "small")
    #expect(try !isFile("small", storedBy: store(Self.packs)))
  }

  /// A directory stays new until its control file has counted a record.
  @Test(arguments: ["lock", "touch", "extend", "collect", "wipe"], [true, false])
  func whatFindsNothingLeavesADirectoryNew(operation: String, inAnotherStore: Bool) throws {
    try cache.makeDirectory("")
    let store = try store(Self.packs)
    switch operation {
    case "lock": #expect(try store.lock("small") == .notFound)
    case "touch": #expect(try store.touch("small") == .notFound)
    case "extend": #expect(try store.setExtendedData(Data([1]), for: "small") == .notFound)
    case "collect": _ = try store.collect()
    default: try store.removeAll(.locked)
    }
    #expect(try !isFile("small", storedBy: inAnotherStore ? self.store(Self.packs) : store))
    #expect(try packingThatIsSaid() == .upTo(8192))
  }

  /// Packing is not turned on where memory is not shared: on network file systems, and if a mapping needs free space.
  @Test(arguments: [1, 2]) func whereMemoryIsNotSharedADirectoryIsNotTurnedToPacks(hazard: Int) throws {
    trace.onCall { call, _ in call == .volumeStatus ? .answer(hazard) : nil }
    #expect(try isFile("small", storedBy: store(Self.packs, files: trace.files)))
    #expect(try packingThatIsSaid() == nil)
    // The directory is in use now.
    trace.onCall(nil)
    #expect(try isFile("other", storedBy: store(nil)))
  }

  /// The size is checked before the directory is opened, so nothing is created.
  @Test func aFileThatIsTooLargeMakesNothing() throws {
    let file = cache.outside.path.appending("file")
    try payload(20_001).write(to: URL(filePath: file.string))
    let store = try store(Self.packs) { $0.limits.payload = 20_000 }
    expect(.payloadTooLarge) { try store.store(contentsOf: file, for: "large") }
    #expect(try cache.state("") == nil)
  }

  // MARK: - Directories in use

  /// A directory of a version without packs stays unpacked, also after all its records are removed.
  @Test(arguments: [true, false], [nil] + RecordArrangement.allCases)
  func aDirectoryInUseStaysAsItIs(isEmpty: Bool, arrangement: RecordArrangement?) throws {
    let old = try store(.off) { $0.layout.arrangement = arrangement }
    try old.store(payload(50), for: "old")
    if isEmpty { try old.removeAll(.all) }
    let before = try cache.exists(Self.settingsFile) ? cache.bytes(Self.settingsFile) : nil
    #expect(try isFile("small", storedBy: store(nil) { $0.layout.arrangement = arrangement }))
    #expect(try packingThatIsSaid() == nil)
    // A program whose configuration enables packing does not change the directory's settings.
    let packing = try store(Self.packs) { $0.layout.arrangement = arrangement }
    #expect(try !isFile("packed", storedBy: packing))
    #expect(try packingThatIsSaid() == nil)
    #expect(try cache.exists(Self.settingsFile) ? cache.bytes(Self.settingsFile) == before : before == nil)
  }

  @Test(arguments: ["fo/other", "notes", "x"]) func aDirectoryWithFilesStaysAsItIs(file: String) throws {
    try cache.write([1], to: file)
    #expect(try isFile("small", storedBy: store(nil)))
    #expect(try !cache.exists(Self.settingsFile))
  }

  /// If settings and control file are lost, existing packs do not enable packing, because their origin is unknown.
  @Test func packsAloneDoNotTurnPackingOn() throws {
    try store(Self.packs).store(payload(100), for: "packed")
    for file in [Self.settingsFile, ".blobcache"] { try FileManager.default.removeItem(atPath: cache.path(file)) }
    try store(Self.packs).store(payload(50), for: "another")
    #expect(try packingThatIsSaid() == nil)
    let store = try store(nil)
    #expect(try isFile("small", storedBy: store))
    #expect(try store.load("packed")?.payload == payload(100))
    #expect(try packingThatIsSaid() == nil)
  }

  @Test func aResetTurnsItOff() throws {
    try store(Self.packs).store(payload(100), for: "packed")
    #expect(try BlobStore.changeSettings(of: cache.root, resetting: true) { _ in }.packing == nil)
    #expect(try isFile("small", storedBy: store(nil)))
    #expect(try store(nil).load("packed")?.payload == payload(100))
  }

  // MARK: - Settings

  @Test(arguments: [BlobStore.Packing.off, .upTo(150)]) func theSettingsDecide(said: BlobStore.Packing) throws {
    try cache.makeDirectory("")
    try BlobStore.changeSettings(of: cache.root) { $0.packing = said }
    #expect(try isFile("large", storedBy: store(nil)) == (said == .off))
    #expect(try isFile("larger", storedBy: store(nil), 150))
    #expect(try packingThatIsSaid() == said)
  }

  @Test func settingsWithoutPackingKeepWhatTheySay() throws {
    try cache.makeDirectory("")
    try BlobStore.changeSettings(of: cache.root) { $0.sizeLimit = .atMost(1 << 30) }
    #expect(try !isFile("small", storedBy: store(Self.packs)))
    let settings = try BlobStore.settings(of: cache.root)
    #expect(settings.sizeLimit == .atMost(1 << 30) && settings.packing == .upTo(8192))
    #expect(settings.arrangement == .adaptive)
  }

  /// `blobcache configure DIR --packing off` applies to programs that open the directory afterwards.
  @Test func settingsThatChangeHoldFromThenOn() throws {
    let store = try store(Self.packs)
    try store.store(payload(100), for: "packed")
    try BlobStore.changeSettings(of: cache.root) { $0.packing = .off }
    let later = try self.store(nil)
    #expect(try isFile("small", storedBy: later))
    #expect(try later.load("packed")?.payload == payload(100))
    // The key still has one record, which now has its own file.
    try later.store(payload(40), for: "packed")
    #expect(try store.load("packed")?.payload == payload(40))
    #expect(try later.records().map(\.key?.string).sorted { $0 ?? "" < $1 ?? "" } == ["packed", "small"])
    try BlobStore.changeSettings(of: cache.root) { $0.packing = .upTo(8192) }
    #expect(try !isFile("again", storedBy: self.store(nil)))
  }

  @Test func aProgramThatSaysOffFindsWhatIsPacked() throws {
    try store(Self.packs).store(payload(100), for: "packed")
    let off = try store(.off)
    #expect(try off.load("packed")?.payload == payload(100))
    #expect(try isFile("small", storedBy: off))
    #expect(try off.remove("packed") == .done)
    #expect(try packingThatIsSaid() == .upTo(8192))
    #expect(try !isFile("other", storedBy: store(nil)))
  }

  /// Other programs follow the packing of the program that creates the directory.
  @Test func aProgramThatMakesTheDirectorySaysItsOwn() throws {
    #expect(try !isFile("small", storedBy: store(.upTo(500))))
    #expect(try packingThatIsSaid() == .upTo(500))
    #expect(try !isFile("other", storedBy: store(nil)))
    #expect(try isFile("larger", storedBy: store(nil), 500))
    #expect(try !isFile("largest", storedBy: store(.upTo(8192)), 1000))
    #expect(try packingThatIsSaid() == .upTo(500))
  }

  @Test func aProgramMayPackInADirectoryInUse() throws {
    try store(.off).store(payload(100), for: "old")
    #expect(try !isFile("small", storedBy: store(.upTo(500))))
    #expect(try packingThatIsSaid() == nil)
    #expect(try isFile("other", storedBy: store(nil)))
  }

  // MARK: - Between calls

  /// The calls that lock and unlock all stripes, one by one, while a pack is created.
  private static let ofStripes: Set<SystemCall> = [.takeStripe, .freeStripe]

  /// For each call of the first store, another process's first store precedes it or finds the key locked.
  @Test(arguments: [packs, .off]) func firstStoresAgreeAtEveryCall(others: BlobStore.Packing) throws {
    var (call, wasReached) = (0, true)
    while wasReached {
      let (cache, trace) = (try Cache(), CallTrace())
      let other = try store(others, in: cache) { $0.access.lockTimeout = .zero }
      let calls = CallCount()
      trace.onCall(besides: Self.ofStripes) { [call] _, _ in
        defer { calls.add(1) }
        guard calls.value == call else { return nil }
        do {
          try other.store(payload(50), for: "other")
        } catch {
          #expect((error as? BlobStoreError)?.code == .busy)
        }
        return nil
      }
      let store = try store(Self.packs, in: cache, files: trace.files)
      try store.store(payload(60), for: "small")
      wasReached = calls.value > call
      #expect(try other.load("small")?.payload == payload(60), "before call \(call)")
      // Later stores follow the settings of the first ones.
      let said = try BlobStore.settings(of: cache.root).packing
      #expect(others == .off || said == .upTo(8192), "before call \(call)")
      let files = try recordFiles(in: cache).count
      try self.store(nil, in: cache).store(payload(70), for: "later")
      #expect(try recordFiles(in: cache).count - files == (said == nil ? 1 : 0), "before call \(call)")
      if others == Self.packs { #expect(files == 0, "before call \(call)") }
      call += 1
    }
    #expect(call > 20)
  }

  /// A process may die before any call of its first store. A copy of the directory has none of its locks.
  @Test func aFirstStoreMayDieBeforeEachCall() throws {
    var (call, wasReached) = (0, true)
    while wasReached {
      let (cache, copy, trace) = (try Cache(), try Cache(), CallTrace())
      try cache.makeDirectory("")
      let calls = CallCount()
      let (from, to) = (cache.root.string, copy.root.string)
      trace.onCall(besides: Self.ofStripes) { [call] _, _ in
        defer { calls.add(1) }
        if calls.value == call {
          #expect(throws: Never.self) { try FileManager.default.copyItem(atPath: from, toPath: to) }
        }
        return nil
      }
      try store(Self.packs, in: cache, files: trace.files).store(payload(60), for: "small")
      wasReached = calls.value > call
      guard wasReached else { break }
      let store = try store(Self.packs, in: copy)
      try store.store(payload(70), for: "later")
      #expect(try store.load("later")?.payload == payload(70))
      #expect(try recordFiles(in: copy) == [], "before call \(call)")
      #expect(try BlobStore.settings(of: copy.root).packing == .upTo(8192), "before call \(call)")
      call += 1
    }
    #expect(call > 20)
  }

  /// A store fails if the settings of its new directory cannot be written.
  @Test(arguments: [SystemCall.sync, .renameNoReplace, .write])
  func settingsThatCannotBeWrittenAreTheStoresError(call: SystemCall) throws {
    try cache.makeDirectory("")
    let store = try store(Self.packs, files: trace.files) { $0.layout.arrangement = .prefix }
    trace.onCall { [trace] found, _ in
      guard found == call else { return nil }
      trace.onCall(nil)
      return .fail(.ioError)
    }
    let error = expect(.fileSystem) { try store.store(payload(5), for: "foobar") }
    #expect(error?.errno == .ioError)
    #expect(try cache.files() == [])
    try store.store(payload(5), for: "foobar")
    #expect(try cache.files() == Cache.filesOfPacks)
  }

  /// Operations that only need a lock succeed without space for settings. The first store then decides the packing.
  @Test func aHistoryNeedsNoRoomForSettings() throws {
    try cache.makeDirectory("")
    let store = try store(Self.packs, files: trace.files)
    trace.onCall { [trace] call, _ in
      guard call == .sync else { return nil }
      trace.onCall(nil)
      return .fail(.noSpace)
    }
    _ = try store.firstHistory(of: "small")
    #expect(try packingThatIsSaid() == nil)
    #expect(try !isFile("small", storedBy: store))
    #expect(try packingThatIsSaid() == .upTo(8192))
  }

  /// Spec/Performance.md: a store that follows its directory makes the same calls as one with configured packing.
  @Test func theCallsAreThoseOfAStoreThatIsTold() throws {
    func calls(_ packing: BlobStore.Packing?, _ said: BlobStore.Packing) throws -> [[SystemCall]] {
      let (cache, trace) = (try Cache(), CallTrace())
      try cache.store { $0.packing = said }.store(payload(5), for: "key")
      let store = try cache.store(files: trace.files) { $0.packing = packing }
      // The first round opens the subdirectory and the bin.
      for _ in 0..<2 {
        // A recently written record is read before it is overwritten.
        waitUntilWritesArePast()
        try store.store(payload(5), for: "key")
      }
      waitUntilWritesArePast()
      let steps: [() throws -> Void] = [
        { _ = try store.load("key") }, { try store.store(payload(5), for: "key") }, { try store.lock("key") },
        { try store.remove("key") },
      ]
      return try steps.map { step in
        _ = trace.take()
        try step()
        return trace.take().map(\.call)
      }
    }
    for packing in [BlobStore.Packing.off, .upTo(8192)] {
      for (own, told) in zip(try calls(nil, packing), try calls(packing, packing)) {
        #expect(own == told, "\(packing)")
      }
    }
  }
}
