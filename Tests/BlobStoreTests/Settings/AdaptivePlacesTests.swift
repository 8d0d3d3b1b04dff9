import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Spec/ControlFile.md, "Places": the word that tells in which subdirectories an `adaptive` directory has records.
@Suite struct AdaptivePlacesTests: AdaptiveSuite {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  // MARK: - System calls

  private enum State: CaseIterable {
    case narrow, mixed, wide

    var places: RecordPlaces { self == .narrow ? .narrow : self == .mixed ? .mixed : .wide }
  }

  /// Brings the directory into a state, and returns a traced store that has its control file open.
  private func tracedStore(in state: State) throws -> BlobStore {
    let other = try store()
    try other.store(payload(5), for: "foobar")
    if state != .narrow { try widen(by: other) }
    if state == .wide {
      try other.remove("foobar")
      try other.collect()
    }
    let store = try store(files: trace.files) { $0.recycling = .off }
    // The first change allocates pages, and opens the subdirectory.
    try store.store(payload(5), for: "key")
    try store.store(payload(5), for: "key")
    _ = try store.load("key")
    #expect(try places() == state.places)
    _ = trace.take()
    return store
  }

  /// Spec/Performance.md: only a directory that has changed its scheme costs further calls.
  @Test(arguments: State.allCases) private func callsOfEachState(state: State) throws {
    let store = try tracedStore(in: state)
    func calls(_ operation: () throws -> Void) rethrows -> [SystemCall] {
      _ = trace.take()
      try operation()
      return trace.take().map(\.call)
    }
    let isMixed = state == .mixed
    let usual = try Cache()
    let usualTrace = CallTrace()
    let spread = try usual.store(files: usualTrace.files) {
      $0.layout.arrangement = .spread
      $0.recycling = .off
    }
    for _ in 0..<2 { try spread.store(payload(5), for: "key") }
    _ = try spread.load("key")
    func usualCalls(_ operation: () throws -> Void) rethrows -> [SystemCall] {
      _ = usualTrace.take()
      try operation()
      return usualTrace.take().map(\.call)
    }
    let hit = try usualCalls { _ = try spread.load("key") }
    #expect(try calls { _ = try store.load("key") } == hit)
    if isMixed { #expect(try calls { _ = try store.load("foobar") } == [.openBeneath] + hit) }
    let miss = try usualCalls { _ = try spread.load("missing") }
    #expect(try calls { _ = try store.load("missing") } == miss + (isMixed ? [.openBeneath] : []))
    let lock = try usualCalls { _ = try spread.lock("key") }
    #expect(lock.first == .takeStripe)
    #expect(try calls { _ = try store.lock("key") } == [.takeStripe] + (isMixed ? [.status] : []) + lock.dropFirst())
    // The place is looked up before the draft is made, and again while the key is held.
    let replacement = try usualCalls { try spread.store(payload(5), for: "key") }
    var made = try calls { try store.store(payload(5), for: "key") }
    if isMixed {
      #expect(made.first == .status)
      made.removeFirst()
      let second = try #require(made.firstIndex(of: .takeStripe)) + 1
      #expect(made[second] == .status)
      made.remove(at: second)
    }
    #expect(made == replacement)
  }

  // MARK: - Lost and other control files

  @Test func aSmallDirectoryStaysSmallWithoutItsControlFile() throws {
    try store().store(payload(5), for: "foobar")
    try removeFile(".blobcache")()
    #expect(try store().load("foobar")?.payload == payload(5))
    #expect(try store().load("missing") == nil)
    #expect(try places() == nil)
    try store().store(payload(6), for: "other")
    #expect(try cache.files() == ["v/foobar", Self.narrow("other"), Self.settingsFile])
    #expect(try places() == .narrow)
  }

  /// The subdirectories tell what the lost control file has told.
  @Test(arguments: [true, false], [true, false]) func aLargeDirectoryStaysLarge(isLost: Bool, isMixed: Bool) throws {
    let store = try store()
    try store.store(payload(5), for: "foobar")
    try widen(by: store)
    try store.store(payload(5), for: "other")
    if !isMixed {
      try store.remove("foobar")
      try store.collect()
      #expect(try places() == .wide)
    }
    // After a boot, the word has other upper bits.
    if isLost {
      try removeFile(".blobcache")()
    } else {
      try cache.setControlWord(1 << 40 | 1, at: ControlLayout.placesOffset)
    }
    let reader = try self.store()
    #expect(try reader.load("foobar")?.payload == (isMixed ? payload(5) : nil))
    #expect(try reader.load("other")?.payload == payload(5))
    try self.store().store(payload(6), for: "third")
    #expect(try places() == (isMixed ? .mixed : .wide))
    var files: Set = [Self.wide("other"), Self.wide("third"), Self.settingsFile]
    if isMixed { files.insert("v/foobar") }
    #expect(try cache.files() == files)
    #expect(try reader.load("third")?.payload == payload(6))
  }

  /// Before each call of a load without known places, another program determines them.
  @Test(arguments: [true, false]) func aLoadFindsARecordWhileThePlacesAreDetermined(isLarge: Bool) throws {
    try atEachCall(atLeast: 2) { cache, trace in
      let other = try cache.adaptiveStore()
      try other.store(payload(5), for: "foobar")
      if isLarge { try cache.widen(by: other) }
      try cache.setControlWord(0, at: ControlLayout.placesOffset)
      let store = try cache.adaptiveStore(files: trace.files)
      #expect(try store.load("foobar") != nil)
      return Race {
        try other.store(payload(5), for: "other")
      } operation: {
        let blob = try store.load("foobar")
        #expect(blob != nil)
      }
    }
  }

  /// A copy of the directory has another control file, whose word does not count.
  @Test func aCopyLooksForItself() throws {
    let store = try store()
    try store.store(payload(5), for: "foobar")
    let copy = try Cache()
    try FileManager.default.copyItem(atPath: cache.path(""), toPath: copy.path(""))
    // The copy of the records was made after the directory had grown.
    try copy.makeDirectory("v8")
    try FileManager.default.moveItem(atPath: copy.path("v/foobar"), toPath: copy.path("v8/foobar"))
    let other = try copy.adaptiveStore()
    #expect(try other.load("foobar")?.payload == payload(5))
    try other.store(payload(6), for: "foobar")
    #expect(try copy.files().filter { $0.hasSuffix("foobar") } == ["v8/foobar"])
  }

  /// If the root may not be listed, both places are searched. Any other error is the change's.
  @Test(arguments: [(Errno.permissionDenied, true), (.ioError, false)])
  func whereTheRootCannotBeListedBothPlacesCount(errno: Errno, isPassedOver: Bool) throws {
    try store().store(payload(5), for: "foobar")
    try cache.setControlWord(0, at: ControlLayout.placesOffset)
    let store = try store(files: trace.files)
    _ = try store.load("foobar")
    trace.onCall { call, _ in call == .listDirectory ? .fail(errno) : nil }
    if isPassedOver {
      try store.store(payload(6), for: "other")
      #expect(try places() == .mixed)
    } else {
      let error = expect(.fileSystem) { try store.store(payload(6), for: "other") }
      #expect(error?.errno == errno)
      trace.onCall(nil)
      #expect(try cache.files() == ["v/foobar", Self.settingsFile])
      try store.store(payload(6), for: "other")
      #expect(try places() == .narrow)
    }
    trace.onCall(nil)
    #expect(try store.load("foobar")?.payload == payload(5))
    #expect(try store.load("other")?.payload == payload(6))
  }

  /// A process that does not share the memory does not know the places, so that others search both afterwards.
  @Test func aProcessWithoutSharedMemoryIsFoundByTheOthers() throws {
    do {
      let mapped = try store()
      try mapped.store(payload(5), for: "other")
      try widen(by: mapped)
      try mapped.remove("other")
      try mapped.store(payload(5), for: "foobar")
      try mapped.collect()
      #expect(try places() == .wide)
    }
    trace.onCall { call, _ in call == .volumeStatus ? .answer(Int(MappingHazard.incoherent.rawValue)) : nil }
    do {
      let unmapped = try store(files: trace.files)
      try unmapped.store(payload(6), for: "other")
      try unmapped.store(payload(6), for: "foobar")
      #expect(try unmapped.load("missing") == nil)
    }
    #expect(try cache.files() == ["v8/foobar", Self.narrow("other"), Self.settingsFile])
    #expect(try places() == .mixed)
    #expect(try store().load("other")?.payload == payload(6))
    try store().store(payload(7), for: "third")
    #expect(try cache.files().contains(Self.wide("third")))
    for key in ["foobar", "other", "third"] as [BlobKey] { #expect(try store().load(key) != nil) }
  }

  /// Without shared memory, a new directory has the 1,024 subdirectories from the start.
  @Test func aNewDirectoryWithoutSharedMemoryIsSpread() throws {
    trace.onCall { call, _ in call == .volumeStatus ? .answer(Int(MappingHazard.incoherent.rawValue)) : nil }
    let store = try store(files: trace.files)
    try store.store(payload(5), for: "foobar")
    #expect(try cache.files() == ["v8/foobar", Self.settingsFile])
    #expect(try BlobStore.settings(of: cache.root).arrangement == .spread)
    #expect(try store.load("foobar")?.payload == payload(5))
  }

  // MARK: - Subdirectories of other programs

  /// A backup program may bring back a subdirectory of either kind.
  @Test(arguments: [true, false]) func aCollectionFindsSubdirectoriesThatOthersHaveMade(isNarrow: Bool) throws {
    let store = try store()
    try store.store(payload(5), for: "foobar")
    let bytes = try cache.bytes("v/foobar")
    try store.remove("foobar")
    if isNarrow { try widen(by: store) }
    try store.store(payload(5), for: "other")
    if isNarrow { try store.collect() }
    #expect(try places() == (isNarrow ? .wide : .narrow))
    try cache.write(bytes, to: isNarrow ? "v/foobar" : "v8/foobar")
    #expect(try store.records().compactMap(\.key).count == 2)
    try store.collect()
    #expect(try places() == .mixed)
    #expect(try store.load("foobar")?.payload == payload(5))
    #expect(try store.load("other")?.payload == payload(5))
  }

  /// If others have made two files for a key, every operation uses the one in the 1,024 subdirectories.
  @Test func ofTwoFilesTheWideOneCounts() throws {
    let store = try store()
    try store.store(payload(5), for: "foobar")
    let bytes = try cache.bytes("v/foobar")
    try widen(by: store)
    try cache.write(bytes, to: "v8/foobar")
    try store.store(payload(6), for: "foobar")
    #expect(try store.load("foobar")?.payload == payload(6))
    #expect(try cache.bytes("v/foobar") == bytes)
    #expect(try store.filePath(for: "foobar") == cache.root.appending("v8/foobar"))
  }

  // MARK: - Settings

  @Test func theSettingsNameTheArrangement() throws {
    try store().store(payload(5), for: "foobar")
    #expect(String(decoding: try cache.bytes(Self.settingsFile), as: UTF8.self).contains("\nlayout adaptive\n"))
    // A program that does not know the arrangement refuses the settings, and a `spread` store does not fit them.
    expect(.layoutMismatch) { _ = try cache.store { $0.layout.arrangement = .spread }.load("foobar") }
  }

  @Test func aSpreadDirectoryBecomesAdaptiveAsALargeOne() throws {
    try cache.store { $0.layout.arrangement = .spread }.store(payload(5), for: "foobar")
    try BlobStore.changeSettings(of: cache.root) { $0.arrangement = .adaptive }
    let store = try store()
    try store.store(payload(6), for: "other")
    #expect(try cache.files() == ["v8/foobar", Self.wide("other"), Self.settingsFile])
    #expect(try store.load("foobar")?.payload == payload(5))
    try BlobStore.changeSettings(of: cache.root) { $0.arrangement = .spread }
    #expect(try cache.store { $0.layout.arrangement = .spread }.load("other")?.payload == payload(6))
  }
}
