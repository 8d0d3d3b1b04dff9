import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, P11 and P12: a cache shared by a group, used by the directory's owner or by the superuser on
/// its behalf. Files of other members are created by changing the owner of existing files.
@Suite(.enabled(if: geteuid() == 0, "only the superuser gives files away")) struct GroupTests {
  private static let owner: uid_t = 12_345
  private static let member: uid_t = 12_346
  private static let group: gid_t = 23_456
  private static let otherGroup: gid_t = 23_457

  let cache: Cache

  init() throws { cache = try Cache() }

  private func makeRoot(_ mode: mode_t) throws {
    try cache.makeDirectory("")
    try check(chown(cache.path(""), Self.owner, Self.group), "chown")
    try check(chmod(cache.path(""), mode), "chmod")
  }

  /// Changes the owner of a record to another member.
  private func giveAway(_ file: String, group: gid_t = Self.group) throws {
    try check(chown(cache.path(file), Self.member, group), "chown")
  }

  static let shared: [mode_t] = [0o770, 0o2770, 0o775, 0o2775]

  /// P11: every operation accepts another member's records.
  @Test(arguments: shared) func recordsOfMembersAreRecords(mode: mode_t) throws {
    try makeRoot(mode)
    let store = try cache.store { $0.damagePolicy = .quarantine }
    func member(_ key: BlobKey, ttl: Duration? = nil) throws {
      try store.store(payload(5), for: key, ttl: ttl)
      try giveAway("ke/\(key.string)")
    }
    try member("key")
    cache.clock.advance(by: 10)
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try cache.header("ke/key").updateTime == UInt64(cache.now))
    #expect(try store.load(prefix: "ke") { $0.first }?.payload == payload(5))
    #expect(try store.contains("key"))
    #expect(try store.header(for: "key")?.payloadSize == 5)
    #expect(try store.touch("key") == .done)
    #expect(try store.lock("key") == .done)
    #expect(try store.unlock("key") == .done)
    #expect(try store.records().map(\.file) == ["ke/key"])
    #expect(try store.usage().records == 1)
    #expect(try store.usage().foreignFiles == 0)
    #expect(try store.verify().soundRecords == 1)
    try store.store(payload(6), for: "key")
    #expect(try store.load("key")?.payload == payload(6))
    #expect(try store.remove("key") == .done)

    try member("key", ttl: .seconds(100))
    cache.clock.advance(by: 101)
    #expect(try store.collect().expired == 1)
    for index in 0..<10 { try member(BlobKey("key\(index)")) }
    #expect(try cache.store { $0.limits.count = 4 }.collect().evicted == 7)
    #expect(try store.removeAll(.unlocked).files == 3)

    try member("key")
    try Damage.magicMismatch.inflict(on: "ke/key", in: cache)
    expect(.damaged) { _ = try store.load("key") }
    #expect(try store.usage().quarantinedFiles == 1)
    #expect(try store.removeAll(.all).files == 1)
  }

  /// P11: an import handles another member's records like the caller's.
  @Test func importsFindTheRecordsOfMembers() throws {
    try makeRoot(0o2770)
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try giveAway("ke/key")
    let source = cache.outside.path.appending("source")
    try FileManager.default.createDirectory(atPath: source.string, withIntermediateDirectories: false)
    try payload(6).write(to: URL(filePath: source.appending("key").string))
    #expect(try store.importFiles(from: source).present == 1)
    #expect(try store.importFiles(from: source, BlobStore.ImportOptions(replacing: true)).imported == 1)
    #expect(try store.load("key")?.payload == payload(6))
  }

  /// P11, B3: files of other members are unlinked instead of recycled, because this process cannot lease them.
  @Test func filesOfMembersAreNotRecycled() throws {
    try makeRoot(0o2770)
    let store = try cache.store { $0.recycling = .automatic }
    // Files are recycled only after the control file is opened.
    try store.store(payload(5), for: "first")
    for key in ["key1", "key2", "key3"] as [BlobKey] { try store.store(payload(5), for: key) }
    try giveAway("ke/key1")
    try giveAway("ke/key2")
    #expect(try store.remove("key1") == .done)
    try store.store(payload(5), for: "key2")
    #expect(try store.usage().recycledFiles == 0)
    #expect(try store.remove("key3") == .done)
    #if os(Linux)
      #expect(try store.usage().recycledFiles == 1)
      let name = try #require(try FileManager.default.contentsOfDirectory(atPath: cache.path(".recycled")).first)
      try giveAway(".recycled/\(name)")
      // Another process, which has to list the bin, does not reuse the file either.
      let other = try cache.store { $0.recycling = .automatic }
      #expect(try other.load("first") != nil)
      let inode = try cache.state(".recycled/\(name)")?.inode
      for key in ["key4", "key5"] as [BlobKey] { try other.store(payload(5), for: key) }
      #expect(try cache.state(".recycled/\(name)")?.inode == inode)
      // The file is counted nevertheless, and emptying the bin unlinks it.
      #expect(try other.usage().recycledFiles == 1)
      #expect(try other.emptyRecyclingBin().files == 1)
    #endif
  }

  /// P11: files of another group, under a sticky root, or without write access for the group, are foreign.
  @Test(
    arguments: [(0o2770, otherGroup), (0o1777, group), (0o3770, group), (0o750, group), (0o2755, group)]
      as [(mode_t, gid_t)])
  func recordsOfStrangersAreForeign(mode: mode_t, fileGroup: gid_t) throws {
    try makeRoot(mode)
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try store.store(payload(7), for: "kept")
    try giveAway("ke/key", group: fileGroup)
    #expect(try store.load("key") == nil)
    #expect(try store.contains("key") == false)
    #expect(try store.touch("key") == .notFound)
    #expect(try store.remove("key") == .notFound)
    #expect(try store.records().map(\.file) == ["ke/kept"])
    let error = expect(.foreignFile) { try store.store(payload(6), for: "key") }
    #expect(error?.message.contains("belongs to user \(Self.member)") == true)
    #expect(error?.message.contains("`chown \(Self.owner)`") == true)
    #expect(error?.path?.string == cache.path("ke/key"))
    cache.clock.advance(by: 1_000_000)
    #expect(try store.collect().expired == 1)
    #expect(try store.removeAll(.all).files == 0)
    #expect(try cache.files() == ["ke/key"])
  }

  /// P12: foreign records are counted with their bytes and owner, also after a collection has marked their directory.
  @Test func foreignRecordsAreCounted() throws {
    try makeRoot(0o755)
    let store = try cache.store()
    for key in ["key1", "key2", "key3"] as [BlobKey] { try store.store(payload(5), for: key) }
    try store.store(payload(5), for: "kept")
    for file in ["ke/key1", "ke/key2", "ke/key3"] { try giveAway(file) }
    try check(chown(cache.path("ke/key2"), 54_321, Self.group), "chown")
    try cache.write([1, 2, 3], to: "ke/notes.txt")
    func expectCounted(_ records: BlobStore.ForeignRecords) {
      #expect(records.files == 3)
      #expect(records.bytes == 3 * 69)
      #expect(records.user == Self.member)
      #expect(records.recordUser == Self.owner)
    }
    let usage = try store.usage()
    expectCounted(usage.foreignRecords)
    #expect(usage.foreignFiles == 4)
    #expect(usage.bytes == 69)
    var found: Set<String> = []
    let report = try store.verify {
      guard case .foreignRecord(let record) = $0 else { return }
      found.insert(record.file)
      #expect([Self.member, 54_321].contains(record.user))
      #expect(record.group == Self.group)
      #expect(record.byteCount == 69)
      #expect(record.path.string == cache.path(record.file))
    }
    #expect(found == ["ke/key1", "ke/key2", "ke/key3"])
    expectCounted(report.foreignRecords)
    #expect(report.foreignFiles == 4)
    for _ in 0..<2 { expectCounted(try store.collect().foreignRecords) }
    #expect(try store.foreignRecord(for: "key1")?.user == Self.member)
    #expect(try store.foreignRecord(for: "kept") == nil)
    #expect(try store.foreignRecord(for: "absent") == nil)
    #expect(try store.foreignRecord(for: "x") == nil)
  }

  /// F1, P12: foreign records are ignored even if they cannot be opened. Errors for the caller's files and for
  /// missing files are unchanged.
  @Test(arguments: [true, false]) func foreignRecordsThatMayNotBeOpenedArePassedOver(isForeign: Bool) throws {
    try makeRoot(0o755)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    if isForeign { try giveAway("ke/key") }
    trace.onCall { call, path in
      [.openBeneath, .open].contains(call) && path.lastComponent == "key" ? .fail(.permissionDenied) : nil
    }
    guard isForeign else {
      for operation in [
        { _ = try store.load("key") }, { _ = try store.header(for: "key") }, { _ = try store.touch("key") },
        { try store.store(payload(6), for: "key") },
      ] as [() throws -> Void] {
        #expect(expect(.fileSystem, operation)?.errno == .permissionDenied)
      }
      return
    }
    #expect(try store.load("key") == nil)
    #expect(try store.header(for: "key") == nil)
    #expect(try store.contains("key") == false)
    #expect(try store.touch("key") == .notFound)
    #expect(try store.lock("key") == .notFound)
    #expect(try store.remove("key") == .notFound)
    let error = expect(.foreignFile) { try store.store(payload(6), for: "key") }
    #expect(error?.message.contains("belongs to user \(Self.member)") == true)
    #expect(try store.usage().foreignRecords.bytes == 69)
    #expect(try store.verify().foreignRecords.files == 1)
    #expect(try store.collect().foreignRecords.files == 1)
    // A file that cannot be examined is still an error.
    trace.onCall { call, path in
      [.openBeneath, .open, .status].contains(call) && path.lastComponent == "key" ? .fail(.permissionDenied) : nil
    }
    #expect(expect(.fileSystem) { _ = try store.load("key") }?.errno == .permissionDenied)
  }

  /// P12: a subdirectory with a record of a foreign owner is examined again, because restoring the owner makes it a
  /// record without changing the subdirectory.
  @Test func foreignRecordsAreLookedAtAgain() throws {
    try makeRoot(0o755)
    let store = try cache.store()
    try store.store(payload(5), for: "key", ttl: .seconds(100))
    try giveAway("ke/key")
    // Timestamps of file systems have a granularity of some milliseconds, so newer ones are not trusted.
    usleep(150_000)
    for _ in 0..<2 { #expect(try store.collect().foreignRecords.files == 1) }
    try check(chown(cache.path("ke/key"), Self.owner, Self.group), "chown")
    cache.clock.advance(by: 101)
    #expect(try store.collect().expired == 1)
  }

  /// P4: new files and subdirectories belong to the group and have the root's permissions, regardless of the mask,
  /// and so do the control file, the bin and the quarantine.
  @Test func whatIsMadeIsTheGroups() throws {
    try makeRoot(0o770)
    let mask = umask(0o077)
    defer { umask(mask) }
    let store = try cache.store {
      $0.recycling = .automatic
      $0.damagePolicy = .quarantine
    }
    try store.store(payload(5), for: "key")
    try store.store(payload(5), for: "key")
    try Damage.magicMismatch.inflict(on: "ke/key", in: cache)
    expect(.damaged) { _ = try store.load("key") }
    try store.store(payload(5), for: "key")
    for name in [".blobcache", "ke", "ke/key", ".quarantine", ".quarantine/key"] {
      let state = try #require(try cache.state(name))
      #expect(state.group == Self.group, "\(name)")
      #expect(state.permissions == (state.mode & UInt32(S_IFMT) == UInt32(S_IFDIR) ? 0o770 : 0o660), "\(name)")
    }
    #if os(Linux)
      #expect(try cache.state(".recycled")?.permissions == 0o770)
      #expect(try cache.state(".recycled")?.group == Self.group)
    #endif
  }

  /// C15, P11: a collection uses only marks of collections that trust the same files. A root without write access for
  /// the group gets a new control file; a root that others may write to keeps it.
  @Test(arguments: [(0o770, 0o750, group), (0o777, 0o777, otherGroup)] as [(mode_t, mode_t, gid_t)])
  func marksAreOfThoseWhoBelieveTheSameFiles(before: mode_t, after: mode_t, groupAfter: gid_t) throws {
    try makeRoot(before)
    let store = try cache.store { $0.access.allowsWorldWritable = true }
    try store.store(payload(5), for: "key")
    try giveAway("ke/key")
    usleep(150_000)
    #expect(try store.collect().recordsAfter == 1)
    try check(chown(cache.path(""), Self.owner, groupAfter), "chown")
    try check(chmod(cache.path(""), after), "chmod")
    let report = try cache.store { $0.access.allowsWorldWritable = true }.collect()
    #expect(report.recordsAfter == 0)
    #expect(report.foreignRecords.files == 1)
  }
}
