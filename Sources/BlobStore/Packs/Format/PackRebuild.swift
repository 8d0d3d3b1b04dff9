package import BlobRecord

/// Makes an index anew from the records of all chunks: which of them is the newest of its name, and which must be dead.
///
/// What it is given in which order makes no difference.
package struct PackRebuild: Sendable {
  /// What the index has to hold for one name.
  package struct Entry: Hashable, Sendable {
    package let nameDigest: UInt64
    package let address: PackAddress
    /// What the record takes in its chunk.
    package let byteCount: Int
    /// Its update, which is the last use that is known of it.
    package let lastUse: UnixTime
    fileprivate let sequence: UInt64
  }

  /// A name by two hashes: strangers can make names of one digest, and not of one hash by this process's secret.
  private struct Name: Hashable {
    let digest: UInt64
    let hash: Int
  }

  private var newest: [Name: Entry] = [:]
  /// Records that a newer one of the same name replaces, or whose payload is damaged, and that no bit says are dead.
  package private(set) var mustDie: [PackAddress] = []
  /// The highest sequence of all records, dead or not; the next one that is given must be above. 0 without any.
  package private(set) var highestSequence: UInt64 = 0

  package init() {}

  package var count: Int { newest.count }
  package var entries: some Collection<Entry> { newest.values }

  /// Takes account of a record.
  ///
  /// - Parameters:
  ///   - record: found by a walk of its chunk.
  ///   - isDead: whether its bit says so.
  ///   - chunk: the bytes of its chunk.
  /// - Complexity: O(*n*) for a record of *n* bytes, whose payload is compared with its checksum.
  package mutating func add(_ record: PackedRecord, isDead: Bool, in chunk: RawSpan) {
    highestSequence = max(highestSequence, record.header.sequence)
    guard !isDead else { return }
    guard record.hasSoundPayload(in: chunk) else { return mustDie.append(record.address) }
    let entry = Entry(
      nameDigest: record.nameDigest(in: chunk), address: record.address, byteCount: record.header.byteCount,
      lastUse: UnixTime(seconds: Int64(record.header.updateTime)), sequence: record.header.sequence)
    let name = Name(digest: entry.nameDigest, hash: Self.hash(of: chunk.extracting(record.nameRange)))
    guard let rival = newest[name] else {
      newest[name] = entry
      return
    }
    if entry.isNewer(than: rival) { newest[name] = entry }
    mustDie.append(entry.isNewer(than: rival) ? rival.address : entry.address)
  }

  private static func hash(of name: RawSpan) -> Int {
    var hasher = Hasher()
    unsafe name.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    return hasher.finalize()
  }
}

extension PackRebuild.Entry {
  /// No two records have one sequence unless bytes were forged or copied; then the address decides.
  fileprivate func isNewer(than rival: Self) -> Bool {
    (sequence, address.rawValue) > (rival.sequence, rival.address.rawValue)
  }
}
