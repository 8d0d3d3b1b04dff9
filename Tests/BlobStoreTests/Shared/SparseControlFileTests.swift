import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/ControlFile.md, "Pages": the control file takes room for what is in use, and is complete however it was copied.
@Suite struct SparseControlFileTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func allocated() throws -> Int64 {
    let names = try FileManager.default.subpathsOfDirectory(atPath: cache.root.string)
    return try ([""] + names).map { try allocatedBytes(ofFile: cache.path($0)) }.reduce(0, +)
  }

  private var everything: BlobStore.CollectionOptions {
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    return options
  }

  @Test func aSmallCacheTakesLittleRoom() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    let page = Int64(max(4096, CurrentProcess.memoryPageByteCount))
    #expect(try allocatedBytes(ofFile: cache.path(".blobcache")) <= 5 * page)
    #expect(try allocated() <= 16 * page)
    try store.collect(everything)
    #expect(try allocated() <= 16 * page)
  }

  /// A hundred processes that each store one blob.
  @Test func aHundredBlobsTakeARoomOfTheirNumber() throws {
    for number in 0..<100 { try cache.store().store(payload(10), for: BlobKey("\(number)")) }
    try cache.store().collect(everything)
    #expect(try allocated() <= 400 * Int64(max(4096, CurrentProcess.memoryPageByteCount)))
  }

  /// Where pages cannot be allocated, a change fails with the system's error, and everything else works.
  @Test func aFullVolumeIsAnErrorOfTheChange() throws {
    let keys = (0..<50).map { BlobKey("\($0)") }
    try cache.store().store(payload(10), for: "key", ttl: .seconds(1000))
    let store = try cache.store(files: trace.files)
    #expect(try store.lock("key") == .done)
    trace.onCall { call, _ in call == .allocateRange ? .fail(.noSpace) : nil }
    for key in keys {
      let error = expect(.fileSystem) { try store.store(payload(10), for: key) }
      #expect(error?.errno == .noSpace)
      #expect(try store.load(key) == nil)
    }
    #expect(try store.load("key")?.payload == payload(10))
    #expect(try store.unlock("key") == .done)
    try store.collect(everything)
    #expect(try store.usageEstimate()?.records == 1)
    // A process that cannot allocate the first page uses only the locks.
    let other = try cache.store(files: trace.files)
    #expect(try other.load("key")?.payload == payload(10))
    #expect(try other.usageEstimate() == nil)
    trace.onCall(nil)
    for key in keys { try store.store(payload(10), for: key) }
    #expect(try store.usageEstimate()?.records == 51)
  }

  /// A load that finds a damaged record reports it, although there is no room to remove it.
  @Test func aFullVolumeKeepsADamagedRecord() throws {
    try cache.store().store(payload(10), for: "key", ttl: .seconds(1000))
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    let store = try cache.store(files: trace.files) { $0.damagePolicy = .remove }
    #expect(try store.load("other") == nil)
    trace.onCall { call, _ in call == .allocateRange ? .fail(.noSpace) : nil }
    expect(.damaged) { _ = try store.load("key") }
    #expect(try cache.exists("ke/key"))
    trace.onCall(nil)
    expect(.damaged) { _ = try store.load("key") }
    #expect(try !cache.exists("ke/key"))
  }

  /// Where the system cannot allocate a range of a file, pages are written, and no word that others have written is lost.
  @Test func withoutAllocationPagesAreWritten() throws {
    trace.onCall { call, _ in call == .allocateRange ? .fail(.notSupported) : nil }
    let (store, other) = (try cache.store(files: trace.files), try cache.store(files: trace.files))
    for number in 0..<200 {
      try (number % 2 == 0 ? store : other).store(payload(number), for: BlobKey("\(number % 120)"))
    }
    try store.collect(everything)
    #expect(try store.usageEstimate()?.records == 120)
    for number in 80..<200 { #expect(try other.load(BlobKey("\(number % 120)"))?.payload == payload(number)) }
    try store.checkInvariants()
    // Another process holds the byte for a moment.
    guard let root = try Directory(at: cache.root, files: Files()),
      case .regular(let file, _) = try root.openFile(".blobcache", for: .readWrite)
    else { throw CocoaError(.fileNoSuchFile) }
    #expect(try file.tryLock(bytes: ControlLayout.fillingByte))
    let isFree = CallCount()
    trace.onCall { call, _ in
      if call == .lockByte, isFree.value == 0 {
        isFree.add(1)
        #expect(throws: Never.self) { try file.unlock(bytes: ControlLayout.fillingByte) }
      }
      return call == .allocateRange ? .fail(.notSupported) : nil
    }
    for number in 200..<220 { try cache.store(files: trace.files).store(payload(1), for: BlobKey("\(number)")) }
    #expect(isFree.value == 1)
  }

  /// A sparse copy has holes where the original has zeros.
  @Test func aSparseCopyIsComplete() throws {
    let store = try cache.store()
    for number in 0..<100 { try store.store(payload(number), for: BlobKey("\(number)"), ttl: .seconds(1000)) }
    try store.collect(everything)
    let copy = try Cache()
    try? FileManager.default.removeItem(atPath: copy.root.string)
    #if os(Linux)
      try ChildProcess.runSuccessfully(["cp", "-a", "--sparse=always", cache.root.string, copy.root.string])
    #else
      try ChildProcess.runSuccessfully(["cp", "-a", cache.root.string, copy.root.string])
    #endif
    let copied = try copy.store()
    #if os(Linux)
      // No page that is in use consists of zeros, so that a removal needs no room on a full volume.
      guard let root = try Directory(at: copy.root, files: Files()),
        case .regular(let file, _) = try root.openFile(".blobcache", for: .read)
      else { throw CocoaError(.fileNoSuchFile) }
      for number in 0..<100 {
        let digest = NameDigest.digest(ofFileName: "\(number)")
        let stripe = ControlLayout.stripeOffset(ControlLayout.stripe(of: digest))
        for offset in [stripe, ControlLayout.generationOffset(of: digest)] {
          #expect(try !file.isHole(at: Int64(offset / 4096 * 4096)))
        }
      }
    #endif
    #expect(try copied.usageEstimate()?.records == 100)
    for number in 0..<100 {
      #expect(try copied.load(BlobKey("\(number)"))?.payload == payload(number))
      #expect(try copied.touch(BlobKey("\(number)")) == .done)
    }
    for number in 0..<50 { #expect(try copied.remove(BlobKey("\(number)")) == .done) }
    for number in 200..<300 { try copied.store(payload(1), for: BlobKey("\(number)")) }
    try copied.collect(everything)
    #expect(try copied.usageEstimate()?.records == 150)
    #expect(try store.usageEstimate()?.records == 100)
    try copied.checkInvariants()
  }

  /// On tmpfs, a read of a hole through a mapping would allocate memory.
  @Test func readingTakesNoRoomInMemory() throws {
    let cache = try Cache(inMemory: true)
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    let before = try allocatedBytes(ofFile: cache.path(".blobcache"))
    for number in 0..<300 {
      #expect(try store.load(BlobKey("\(number)")) == nil)
      #expect(try store.generation(of: BlobKey("\(number)")) != nil)
    }
    #expect(try allocatedBytes(ofFile: cache.path(".blobcache")) == before)
    // The page of a hole that another process fills is read as soon as it exists.
    let known = try store.generation(of: "100")
    try cache.store().store(payload(1), for: "100")
    #expect(try store.generation(of: "100") != known)
  }

  /// A copy by hard links (`cp -al`) gets a control file of its own with its first change, also if the link was made while
  /// a program was changing records.
  @Test func aCopyByHardLinksCountsForItself() throws {
    let store = try cache.store()
    for number in 0..<10 { try store.store(payload(number), for: BlobKey("\(number)")) }
    try store.collect(everything)
    let copy = try Cache()
    try copy.makeDirectory(".")
    for name in try FileManager.default.contentsOfDirectory(atPath: cache.root.string) {
      try ChildProcess.runSuccessfully(["cp", "-al", cache.path(name), copy.path(name)])
    }
    #expect(try cache.state(".blobcache")?.inode == copy.state(".blobcache")?.inode)
    let copied = try copy.store()
    #expect(try copied.load("3")?.payload == payload(3))
    for number in 0..<5 { #expect(try copied.remove(BlobKey("\(number)")) == .done) }
    try copied.store(payload(77), for: "7")
    #expect(try cache.state(".blobcache")?.inode != copy.state(".blobcache")?.inode)
    for number in 20..<30 { try store.store(payload(number), for: BlobKey("\(number)")) }
    try copied.collect(everything)
    try store.collect(everything)
    #expect(try copied.usageEstimate()?.records == 5)
    #expect(try store.usageEstimate()?.records == 20)
    #expect(try store.load("7")?.payload == payload(7))
    #expect(try copied.load("7")?.payload == payload(77))
    try store.checkInvariants()
    try copied.checkInvariants()
  }

  /// A program that has the file open notices another link within a second. It then replaces the file with its next
  /// change, so that no later change counts in the copy.
  @Test func aLinkThatIsMadeWhileAProgramRunsIsNoticed() throws {
    let store = try cache.store(files: trace.files)
    try store.store(payload(1), for: "a")
    try store.collect(everything)
    let copy = cache.outside.path.string + "/copy"
    try check(link(cache.path(".blobcache"), copy), "link")
    let inode = try cache.state(".blobcache")?.inode
    trace.wait(milliseconds: 1000)
    #expect(try store.load("a")?.payload == payload(1))
    #expect(try store.usageEstimate()?.records == 1)
    #expect(try store.generation(of: "a") != nil)
    #expect(try cache.state(".blobcache")?.inode == inode)
    let before = try bytes(ofFile: copy).dropFirst(8)
    try store.store(payload(2), for: "b")
    try store.remove("a")
    #expect(try cache.state(".blobcache")?.inode != inode)
    #expect(try bytes(ofFile: copy).dropFirst(8) == before)
    try store.collect(everything)
    #expect(try store.usageEstimate()?.records == 1)
    try store.checkInvariants()
  }

  /// A link that is gone again, such as one for the time of a backup, costs nothing.
  @Test func aLinkThatIsGoneAgainIsForgotten() throws {
    let store = try cache.store(files: trace.files)
    try store.store(payload(1), for: "a")
    let copy = cache.outside.path.string + "/copy"
    try check(link(cache.path(".blobcache"), copy), "link")
    trace.wait(milliseconds: 1000)
    #expect(try store.load("a") != nil)
    try FileManager.default.removeItem(atPath: copy)
    let inode = try cache.state(".blobcache")?.inode
    trace.wait(milliseconds: 1000)
    try store.store(payload(2), for: "b")
    #expect(try cache.state(".blobcache")?.inode == inode)
    #expect(try store.usageEstimate()?.records == 2)
  }

  /// A program of the previous version holds a stripe, whose place has not changed.
  @Test func theFileOfThePreviousVersionIsReplacedOnceItsHolderIsDone() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(ControlLayout.stripeBytes))
    let file = try FileHandle(forUpdating: URL(filePath: cache.path(".blobcache")))
    try file.seek(toOffset: UInt64(ControlLayout.versionOffset))
    try file.write(contentsOf: withUnsafeBytes(of: UInt64(4).littleEndian) { Data($0) })
    try file.close()
    let inode = try cache.state(".blobcache")?.inode
    let late = try cache.store { $0.access.lockTimeout = .zero }
    expect(.busy) { try late.store(payload(11), for: "key") }
    #expect(try late.load("key")?.payload == payload(10))
    #expect(try cache.state(".blobcache")?.inode == inode)
    try locks.giveBack(ControlLayout.stripeBytes)
    try cache.store().store(payload(12), for: "key")
    #expect(try cache.state(".blobcache")?.inode != inode)
    #expect(try store.load("key")?.payload == payload(12))
    try store.store(payload(13), for: "key")
    #expect(try late.load("key")?.payload == payload(13))
  }
}
