internal import BlobCache
internal import BlobRecord
internal import BlobStore

/// An order of records that a table can have. The names are those of the parameter `sort`.
enum RecordOrder: String, CaseIterable, Sendable {
  case largest = "size"
  case smallest = "-size"
  case oldest = "age"
  case newest = "-age"
  case nextToExpire = "expiry"
  case mostUsed = "uses"

  /// Of two records, the one with the lesser rank comes first; nil for one that has no place in the order.
  func rank(_ row: RecordRow) -> Int64? {
    switch self {
    case .largest: -row.byteCount
    case .smallest: row.byteCount
    case .oldest: row.updated?.seconds
    case .newest: row.updated.map { -$0.seconds }
    case .nextToExpire: row.state == .live ? row.expiry?.seconds : nil
    case .mostUsed: row.useCount.flatMap { $0 > 0 ? -Int64($0) : nil }
    }
  }

  var title: String {
    switch self {
    case .largest: "largest first"
    case .smallest: "smallest first"
    case .oldest: "oldest first"
    case .newest: "newest first"
    case .nextToExpire: "next to expire first"
    case .mostUsed: "most used first"
    }
  }
}

/// The first records of an order, among any number.
struct FirstRecords: Sendable {
  static let limit = 200

  let order: RecordOrder
  private(set) var rows: [RecordRow] = []
  private var ranks: [Int64] = []

  init(_ order: RecordOrder) { self.order = order }

  /// - Complexity: O(1) for a record that is not among them, which most are not.
  mutating func add(_ row: RecordRow) {
    guard let rank = order.rank(row) else { return }
    if rows.count == Self.limit {
      guard rank < ranks[Self.limit - 1] else { return }
      ranks.removeLast()
      rows.removeLast()
    }
    var (low, high) = (0, ranks.count)
    while low < high {
      let middle = (low + high) / 2
      if ranks[middle] <= rank { low = middle + 1 } else { high = middle }
    }
    ranks.insert(rank, at: low)
    rows.insert(row, at: low)
  }
}

/// What a table shows of a record.
struct RecordRow: Sendable {
  let reference: RecordReference
  let state: RecordState
  /// Of the payload; of the whole file where the header is not sound.
  let byteCount: Int64
  let updated: UnixTime?
  /// nil for a record that is locked, and where the header is not sound.
  let expiry: UnixTime?
  let lockCount: UInt32
  /// When the file was last changed: at the latest then it was locked.
  let changed: UnixTime
  let mediaType: String?
  let damage: String?
  /// About how often it was used lately; nil where no uses are counted.
  let useCount: Int?

  /// - Parameter found: what a look at the payload has told; nil if there was none.
  init(_ entry: RecordEntry, useCount: Int?, found: RecordInspection? = nil) {
    reference = entry.key.map { .key($0.string) } ?? .file(entry.file)
    state = found?.state ?? entry.state
    let header = entry.header
    byteCount = header.map { Int64(clamping: $0.payloadSize) } ?? entry.fileSize
    updated = header?.lastUpdate
    expiry = [.live, .expired].contains(entry.state) ? entry.expiry : nil
    lockCount = header?.refCount ?? 0
    changed = entry.modified
    mediaType = MediaType(extendedData: entry.extendedData)?.text
    damage = (found?.damage ?? entry.damage)?.name ?? entry.accessError?.message
    self.useCount = useCount
  }
}
