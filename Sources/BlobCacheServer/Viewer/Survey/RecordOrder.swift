internal import BlobCache
internal import BlobRecord
internal import BlobStore

enum RecordOrder: String, CaseIterable, Sendable {
  case largest = "size"
  case smallest = "-size"
  case oldest = "age"
  case newest = "-age"
  case nextToExpire = "expiry"
  case mostUsed = "uses"

  /// The records are sorted by ascending rank. A record with the rank `nil` is omitted.
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

struct FirstRecords: Sendable {
  static let limit = 200

  let order: RecordOrder
  private(set) var rows: [RecordRow] = []
  private var ranks: [Int64] = []

  init(_ order: RecordOrder) { self.order = order }

  /// - Complexity: O(1) for a record that is not among the first ones, which is the usual case.
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

struct RecordRow: Sendable {
  let reference: RecordReference
  let state: RecordState
  /// The size of the payload, or of the whole file if the header is damaged.
  let byteCount: Int64
  let updated: UnixTime?
  /// The expiry, or `nil` for a locked record and for a damaged header.
  let expiry: UnixTime?
  let lockCount: UInt32
  /// The time of the file's last change. A locked record has been locked at least since then.
  let changed: UnixTime
  let mediaType: String?
  let damage: String?
  /// The approximate number of recent uses, or `nil` if uses are not counted.
  let useCount: Int?

  /// - Parameter found: The result of an inspection with the payload, or `nil` if none was performed.
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
