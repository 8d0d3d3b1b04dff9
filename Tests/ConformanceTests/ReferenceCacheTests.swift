import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Uses a directory that SPTPersistentCache wrote, if BLOBCACHE_REFERENCE_CACHE names a directory with
/// `manifest.json` and the cache in `separated`.
@Suite(.enabled(if: ReferenceCache.location != nil, "BLOBCACHE_REFERENCE_CACHE is not set"))
struct ReferenceCacheTests {
  private let reference: ReferenceCache

  init() throws {
    reference = try ReferenceCache()
  }

  @Test func allRecordsLoadAsTheManifestSays() throws {
    #expect(reference.manifest.records.count >= 40)
    for record in reference.manifest.records {
      let store = try reference.store(at: record.updateTimeSec)
      let blob = try #require(try store.load(BlobKey(record.key), touching: false), "\(record.path)")
      #expect(blob.payload.count == record.payloadSize)
      #expect(SHA256Digest.digest(of: blob.payload.bytes).hexadecimal == record.payloadSha256)
      #expect(blob.header.ttl == record.ttl)
      #expect(blob.header.refCount == record.refCount)
      #expect(blob.header.updateTime == UInt64(record.updateTimeSec))
      #expect(blob.header.flags == [])
      #expect(blob.header.withEncodedBytes { $0.hexadecimal } == record.headerHex)
    }
  }

  @Test func enumerationFindsThoseRecordsAndNothingElse() throws {
    let time = try #require(reference.manifest.records.map(\.updateTimeSec).max())
    let store = try reference.store(at: time)
    let found = try store.records().map { entry in
      try #require(entry.damage == nil && entry.accessError == nil, "\(entry.file)")
      return BlobKey(entry.file)
    }
    #expect(Set(found) == Set(reference.manifest.records.map { BlobKey($0.path) }))
    let report = try store.verify()
    #expect(report.soundRecords == Int64(reference.manifest.records.count))
    #expect(report.damagedFiles == 0 && report.foreignFiles == 0 && report.unreadableFiles == 0)
  }

  @Test func usageIsWhatTheLibraryReported() throws {
    let usage = try reference.store(at: reference.manifest.records[0].updateTimeSec).usage()
    #expect(usage.bytes == reference.manifest.totalUsedSizeInBytes)
    #expect(usage.lockedBytes == reference.manifest.lockedItemsSizeInBytes)
  }

  /// Lock followed by unlock restores a file; touch moves only the update time, and only for a TTL of 0.
  @Test func headerChangesLeaveOtherFieldsAlone() throws {
    for record in reference.manifest.records {
      let store = try reference.store(at: record.updateTimeSec)
      let before = try reference.bytes(of: record)
      #expect(try store.lock(BlobKey(record.key)) == .done)
      #expect(try store.header(for: BlobKey(record.key))?.refCount == record.refCount + 1)
      #expect(try store.unlock(BlobKey(record.key)) == .done)
      #expect(try reference.bytes(of: record) == before, "\(record.path)")

      let later = try reference.store(at: record.updateTimeSec + 1)
      var expected = try RecordHeader(decoding: before.bytes)
      #expect(try later.touch(BlobKey(record.key)) == .done)
      if record.ttl == 0 { expected.updateTime += 1 }
      let after = try reference.bytes(of: record)
      #expect(try RecordHeader(decoding: after.bytes) == expected, "\(record.path)")
      #expect(after.dropFirst(64) == before.dropFirst(64), "\(record.path)")
    }
  }

  @Test func collectionTakesWhatExpiredAndLeavesTheRestAsItWas() throws {
    let time = try #require(reference.manifest.records.map(\.updateTimeSec).max()) + 3601
    let before = try Dictionary(
      uniqueKeysWithValues: reference.manifest.records.map { (BlobKey($0.path), try reference.bytes(of: $0)) })
    let report = try reference.store(at: time).collect()
    var expired = 0
    for record in reference.manifest.records {
      let lifetime = record.ttl == 0 ? 600 : record.ttl
      let isLive = record.refCount > 0 || UInt64(time - record.updateTimeSec) <= lifetime
      if isLive {
        #expect(try reference.bytes(of: record) == before[BlobKey(record.path)], "\(record.path)")
      } else {
        expired += 1
        #expect(!FileManager.default.fileExists(atPath: reference.url(of: record).path), "\(record.path)")
      }
    }
    #expect(report.expired == Int64(expired) && expired > 0)
    #expect(report.damaged == 0 && report.evicted == 0 && report.failed == 0)
  }
}

/// A copy of the directory, and its manifest.
private struct ReferenceCache {
  struct Manifest: Decodable {
    struct Record: Decodable {
      let key: String
      let ttl: UInt64
      let refCount: UInt32
      let payloadSize: Int
      let payloadSha256: String
      let updateTimeSec: Int64
      let path: String
      let headerHex: String
    }

    let totalUsedSizeInBytes: Int64
    let lockedItemsSizeInBytes: Int64
    let records: [Record]
  }

  static let location = ProcessInfo.processInfo.environment["BLOBCACHE_REFERENCE_CACHE"]

  let manifest: Manifest
  private let directory = Result { try TemporaryDirectory() }
  private let copy: URL

  init() throws {
    let original = URL(filePath: try #require(Self.location))
    manifest = try JSONDecoder().decode(
      Manifest.self, from: Data(contentsOf: original.appending(path: "manifest.json")))
    copy = try directory.get().url("copy")
    try FileManager.default.copyItem(at: original.appending(path: "separated"), to: copy)
    // The original may be read-only, and the test changes its copy.
    try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: copy.path)
    for name in try FileManager.default.subpathsOfDirectory(atPath: copy.path) {
      try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: copy.appending(path: name).path)
    }
  }

  func store(at time: Int64) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.durability = .none
    configuration.access.createsDirectory = false
    configuration.now = { UnixTime(seconds: time) }
    return try BlobStore(directory: FilePath(copy.path), configuration: configuration)
  }

  func url(of record: Manifest.Record) -> URL { copy.appending(path: record.path) }

  func bytes(of record: Manifest.Record) throws -> Data { try Data(contentsOf: url(of: record)) }
}

extension Sequence<UInt8> {
  fileprivate var hexadecimal: String {
    map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
  }
}

extension RawSpan {
  fileprivate var hexadecimal: String { withUnsafeBytes { $0.hexadecimal } }
}
