import BlobRecord
import BlobStore
import Foundation
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C8: a pass that runs out of time ends within a subdirectory, and the next one continues there.
@Suite(.enabled(if: DirectoryStream.keepsPositions)) struct PartOfSubdirectoryTests {
  private let cache: Cache
  private let trace = CallTrace()

  private static let count = 20

  init() throws { cache = try Cache() }

  private static func name(_ number: Int) -> String { "ke\(number + 100)" }

  /// Stores records in a single subdirectory.
  @discardableResult private func fill(
    _ numbers: Range<Int> = 0..<count, ttl: Duration = .seconds(100)
  ) throws -> BlobStore {
    let store = try cache.store()
    for number in numbers { try store.store(payload(36), for: BlobKey(Self.name(number)), ttl: ttl) }
    return store
  }

  private func options(time: Duration = .zero) -> BlobStore.CollectionOptions {
    var options = BlobStore.CollectionOptions(maximumTime: time)
    options.smallestPart = 3
    return options
  }

  /// Returns the records that a collection examines.
  private func met(
    _ options: BlobStore.CollectionOptions
  ) throws -> (names: [String], report: BlobStore.CollectionReport) {
    let store = try cache.store(files: trace.files)
    _ = trace.take()
    let report = try store.collect(options)
    let opened = trace.take().filter { $0.call == .open || $0.call == .openBeneath }
    var names = opened.compactMap { FilePath($0.path).lastComponent?.string }.filter { $0.hasPrefix("ke1") }
    // The last record of a pass is opened twice.
    for index in names.indices.dropFirst().reversed() where names[index] == names[index - 1] { names.remove(at: index) }
    return (names, report)
  }

  private func word(_ offset: Int) throws -> Int64 {
    let bytes = try cache.bytes(".blobcache")[offset..<offset + 8]
    return bytes.reversed().reduce(0) { $0 << 8 | Int64($1) }
  }

  private func setWord(_ word: Int64, at offset: Int) throws {
    let file = try FileHandle(forUpdating: URL(filePath: cache.path(".blobcache")))
    try file.seek(toOffset: UInt64(offset))
    try file.write(contentsOf: withUnsafeBytes(of: word.littleEndian) { Data($0) })
    try file.close()
  }

  @Test func aCycleMeetsEachRecordOnce() throws {
    try fill()
    var cycle: [String] = []
    for _ in 0..<6 {
      let (names, report) = try met(options())
      #expect(names.count == 3 && report.examined == 3 && report.wasCutShort)
      cycle += names
    }
    let last = try met(options())
    #expect(last.report.examined == 2 && last.report.wasCutShort)
    cycle += last.names
    #expect(cycle.count == Self.count)
    #expect(Set(cycle) == Set((0..<Self.count).map(Self.name)))
    // The next cycle has the same order.
    #expect(try met(options()).names == Array(cycle.prefix(3)))
  }

  /// Removals do not move the remaining records.
  @Test func whatIsDueGoesPartByPart() throws {
    try fill(ttl: .seconds(1))
    cache.clock.advance(by: 2)
    var expired: Int64 = 0
    for _ in 0..<7 {
      let report = try met(options()).report
      #expect(report.expired <= 3)
      expired += report.expired
    }
    #expect(expired == Int64(Self.count))
    #expect(try cache.exists("ke") == false)
  }

  /// A pass over fewer files than the smallest part finishes the subdirectory.
  @Test func aSmallSubdirectoryIsFinished() throws {
    try fill(0..<2)
    let report = try met(options()).report
    #expect(report.examined == 2 && report.wasCutShort)
    #expect(try word(ControlLayout.nextInodeOffset) == 0)
  }

  /// Stores and removals between two passes do not hide records that stay.
  @Test func changesBetweenPassesHideNothingForLong() throws {
    let store = try fill()
    let untouched = Set((4..<16).map(Self.name))
    var seen: Set<String> = []
    for pass in 0..<14 {
      let (names, report) = try met(options())
      #expect(report.failed == 0 && report.examined <= 3)
      seen.formUnion(names)
      if pass < 4 {
        try store.remove(BlobKey(Self.name(pass)))
        try store.remove(BlobKey(Self.name(pass + 16)))
        try store.store(payload(36), for: BlobKey(Self.name(pass + 50)))
      }
    }
    #expect(seen.isSuperset(of: untouched))
  }

  /// Invariants: a subdirectory examined in parts has no mark, and does not set the counters.
  @Test func aPassThatBeganInTheMiddleHasNotSeenAll() throws {
    let store = try fill()
    try cache.forgetCounters()
    usleep(150_000)
    #expect(try met(options()).report.examined == 3)
    let rest = try met(options(time: .seconds(1000))).report
    #expect(rest.examined == 17 && rest.wasCutShort)
    #expect(try word(ControlLayout.countersAreKnownOffset) == 0)
    #expect(try word(ControlLayout.lastWholePassTimeOffset) == 0)
    // The next pass starts again at the beginning, and examines all records.
    let whole = try met(options(time: .seconds(1000))).report
    #expect(whole.examined == 20 && !whole.wasCutShort)
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 20, bytes: 2000))
    // The mark allows passes to skip the subdirectory until a record is added to it.
    #expect(try met(options(time: .seconds(1000))).names.isEmpty)
    try fill(20..<21)
    usleep(150_000)
    #expect(try met(options()).names.count == 3)
    let second = try met(options(time: .seconds(1000)))
    #expect(second.names.count == 18 && second.report.wasCutShort)
    // Passes over parts set no mark, so each record is examined.
    #expect(try met(options(time: .seconds(1000))).names.count == 21)
  }

  /// With a limit, records examined in parts are measured again, and no record counts twice.
  @Test func aLimitIsKeptByAllThatIsThere() throws {
    let store = try fill()
    #expect(try store.collect(options()).examined == 3)
    let limited = try cache.store {
      $0.limits.count = 10
      $0.limits.evictionTarget = 1
    }
    let report = try limited.collect(options(time: .seconds(1000)))
    #expect(report.wasCutShort && report.evicted == 10 && report.recordsAfter == 10)
  }

  /// The time ends in the second subdirectory, which is started again unless enough of it was examined.
  @Test(arguments: [2, 3]) func aSubdirectoryBegunAfterOthersIsGoneOnWithIfItIsWorthIt(number: Int) throws {
    let store = try fill()
    for key in 0..<Self.count { try store.store(payload(36), for: BlobKey("ot\(key)")) }
    let trace = trace
    let opened = Atomic(0)
    var options = options(time: .seconds(1000))
    options.isStopped = { opened.load(ordering: .relaxed) >= Self.count + number }
    trace.onCall { call, path in
      if call == .open, ["ke", "ot"].contains(path.removingLastComponent().lastComponent?.string) {
        opened.add(1, ordering: .relaxed)
      }
      return nil
    }
    let stopped = try met(options).report
    #expect(stopped.wasStopped && stopped.examined == Int64(Self.count + number))
    trace.onCall(nil)
    let next = try met(self.options(time: .seconds(1000))).report
    #expect(next.examined == (number < 3 ? 40 : 37))
    #expect(next.wasCutShort == (number >= 3))
  }

  /// A position in a subdirectory that was replaced is invalid.
  @Test func anotherSubdirectoryIsBegunAtItsBeginning() throws {
    try fill()
    #expect(try met(options()).report.examined == 3)
    try check(rename(cache.path("ke"), cache.outside.path.string + "/old"), "rename")
    try fill(0..<10)
    let report = try met(options(time: .seconds(1000))).report
    #expect(report.examined == 10 && !report.wasCutShort)
  }

  /// A process died while it recorded the position, or an older version recorded only the name.
  @Test func aPlaceThatIsHalfNotedIsTheBeginning() throws {
    try fill()
    #expect(try met(options()).report.examined == 3)
    #expect(try word(ControlLayout.nextInodeOffset) != 0)
    try setWord(0, at: ControlLayout.nextInodeOffset)
    let report = try met(options(time: .seconds(1000))).report
    #expect(report.examined == 20 && !report.wasCutShort)
    #expect(try word(ControlLayout.nextOffsetOffset) == 0)
  }

  /// Any offset is harmless: it causes no error, and skips at most the rest of one cycle.
  @Test(arguments: [Int64.min, -1, 1, 1 << 40, .max]) func aRubbishOffsetIsHarmless(offset: Int64) throws {
    try fill()
    #expect(try met(options()).report.examined == 3)
    try setWord(offset, at: ControlLayout.nextOffsetOffset)
    let report = try met(options(time: .seconds(1000))).report
    #expect(report.failed == 0 && report.examined <= 20)
    let whole = try met(options(time: .seconds(1000))).report
    #expect(whole.examined == 20 && !whole.wasCutShort)
  }

  /// A dry run visits whole subdirectories, to know the visited records, and leaves the position of other passes.
  @Test func aDryRunMeetsWholeSubdirectories() throws {
    try fill()
    let first = try met(options()).names
    var dry = options()
    dry.dryRun = true
    #expect(try met(dry).report.examined == 20)
    let second = try met(options()).names
    #expect(second.count == 3 && Set(first).isDisjoint(with: second))
  }

  /// Without shared memory, the next pass would not know where to continue.
  @Test func withoutSharedMemoryASubdirectoryIsFinished() throws {
    try fill()
    trace.onCall { call, _ in call == .map ? .fail(.operationNotSupportedByDevice) : nil }
    let report = try met(options()).report
    #expect(report.examined == 20 && report.wasCutShort)
  }

  /// A listing that fails at the position is skipped like any other, and the next pass starts again.
  @Test func aListingThatFailsCostsOnePass() throws {
    try fill()
    #expect(try met(options()).report.examined == 3)
    trace.onCall { call, path in
      call == .listDirectory && path.lastComponent?.string == "ke" ? .fail(.ioError) : nil
    }
    #expect(try met(options()).report.failed == 1)
    trace.onCall(nil)
    #expect(try met(options(time: .seconds(1000))).report.examined == 20)
  }
}
