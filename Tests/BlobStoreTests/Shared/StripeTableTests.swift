import Logging
import Posix
import TestSupport
import Testing

@testable import BlobStore

@Suite struct StripeTableTests {
  @Test func allAreHadOnlyIfNoneIsTaken() {
    let table = StripeTable()
    let stripe = table.stripe(of: 4095)
    #expect(table.isTaken(4095) && !table.isTaken(0))
    let refused: Bool? = table.withAll { true }
    #expect(refused == nil)
    // The stripes that were taken before the failure are free again.
    #expect(!table.isTaken(0))
    _ = consume stripe
    let all: Bool? = table.withAll { table.isTaken(0) && table.isTaken(4095) }
    #expect(all == true)
    #expect(!table.isTaken(0) && !table.isTaken(4095))
  }

  /// All words can be taken only if no other process holds a word or its byte.
  @Test func allWordsAreHadOnlyIfNoneIsHeld() throws {
    let cache = try Cache()
    try cache.store().store(payload(5), for: "key")
    guard let directory = try Directory(at: cache.root, files: Files()) else { throw CancellationError() }
    let root = OpenRootBox(directory)
    let earlier = try root.control()
    #expect(try earlier.file.tryLock(ControlLayout.stripeByte(of: 9)))
    let control = try root.control()
    #expect(try control.withAllWords { true } == nil)
    earlier.file.unlock(ControlLayout.stripeByte(of: 9))
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(5..<6))
    #expect(try control.withAllWords { true } == nil)
    #expect(try control.holder(of: 4) == nil)
    try locks.giveBack(5..<6)
    #expect(try control.withAllWords { true } == true)
  }
}

/// Opens the control file of a directory again with each call.
private final class OpenRootBox: Sendable {
  private let directory: Directory

  init(_ directory: consuming Directory) { self.directory = directory }

  func control() throws -> ControlFile {
    let ownership = try FileOwnership(of: directory.status())
    return try #require(try ControlFile.open(in: directory, ownership, logger: Logger(label: "test")))
  }
}
