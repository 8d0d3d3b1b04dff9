package import BlobRecord
internal import BlobStore
package import Foundation

// The bytes after a payload, according to Spec/RecordFormat.md 7.
extension StoreModel {
  /// Returns key, data, their sizes, `SPTX` and the CRC-32 of all these bytes.
  static func tail(_ key: BlobKey?, _ data: Data) -> Data {
    let keyBytes = Data((key?.string ?? "").utf8)
    var bytes = keyBytes + data
    for number in [UInt32(keyBytes.count), UInt32(data.count)] { bytes += littleEndian(number) }
    bytes += Data("SPTX".utf8)
    return bytes + littleEndian(CRC32.checksum(of: bytes.bytes))
  }

  private static func littleEndian(_ number: UInt32) -> Data { withUnsafeBytes(of: number.littleEndian) { Data($0) } }

  /// Returns whether a new record contains its key.
  func keepsKey(_ key: BlobKey) -> Bool {
    guard configuration.format == .checksummed else { return false }
    return switch configuration.layout.naming {
    case .encoded: path(of: key).fileName.contains("%~")
    case .verbatim: false
    case .sha256: key.string.utf8.count <= 65_536
    }
  }

  /// Returns the error for invalid extended data, regardless of the content of the directory.
  func refusal(ofExtendedData data: Data) -> BlobStoreError.Code? {
    if data.isEmpty { return nil }
    if data.count > 4096 { return .extendedDataTooLarge }
    let isShared = configuration.format == .reference || configuration.layout.naming == .verbatim
    return isShared ? .extendedDataRefused : nil
  }

  /// Returns whether an enumeration reports the key of a record.
  func isTold(_ key: BlobKey, _ record: Record) -> Bool {
    if configuration.layout.naming != .sha256, !path(of: key).fileName.contains("%~") { return true }
    return record.damage != .header && keepsKey(key)
  }

  /// Returns the start of the current extension after the payload, and its extended data.
  private static func current(of record: Record) -> (start: Int, keyByteCount: Int, data: Data)? {
    guard let end = record.header.extensionEnd.map(Int.init) else { return nil }
    func number(at offset: Int) -> Int {
      (0..<4).reduce(0) { $0 | Int(record.tail[record.tail.startIndex + offset + $1]) << (8 * $1) }
    }
    let (keyByteCount, dataByteCount) = (number(at: end - 16), number(at: end - 12))
    let start = end - 16 - dataByteCount - keyByteCount
    let dataStart = record.tail.startIndex + start + keyByteCount
    return (start, keyByteCount, Data(record.tail[dataStart..<(dataStart + dataByteCount)]))
  }

  static func extendedData(of record: Record) -> Data? {
    current(of: record).flatMap { $0.data.isEmpty ? nil : $0.data }
  }

  mutating func setExtendedData(_ data: Data, _ key: BlobKey) -> StoreAnswer {
    guard var record = records[key] else { return .outcome(.notFound) }
    switch state(of: record) {
    case .damaged, .streaming, .unreadable: return .failure(.damaged)
    case .expired: return .outcome(.notFound)
    case .live, .locked: break
    }
    let current = Self.current(of: record)
    guard data != current?.data ?? Data() else { return .outcome(.done) }
    let new = Self.tail(current.map { $0.keyByteCount > 0 } == true ? key : nil, data)
    // A packed record is stored again as a whole.
    if record.isPacked { (record.tail, record.header.extensionEnd) = (Data(), nil) }
    let end = Int(record.header.extensionEnd ?? 0)
    // The new extension is written before the current one if there is space, otherwise after it.
    let start = record.isPacked || (current?.start ?? 0) >= new.count ? 0 : end
    let missing = start + new.count - record.tail.count
    if missing > 0 { record.tail += Data(count: missing) }
    record.tail.replaceSubrange(start..<(start + new.count), with: new)
    record.header.extensionEnd = UInt32(start + new.count)
    record.isLinked = false
    records[key] = record
    return .outcome(.done)
  }

  /// Returns whether two files have equal records, ignoring the remainders of other extensions.
  package static func haveSameRecord(_ a: Data?, _ b: Data?) -> Bool {
    guard let a, let b else { return false }
    func essence(_ file: Data) -> [Data]? {
      guard let header = try? RecordHeader(decoding: Array(file.prefix(64)).span.bytes), let end = header.extensionEnd
      else { return nil }
      let bodyEnd = 64 + Int(header.payloadSize)
      guard file.count >= bodyEnd + Int(end) else { return nil }
      let tail = file.dropFirst(bodyEnd)
      let kept = try? RecordExtension(decoding: Array(tail.prefix(Int(end))).span.bytes)
      return kept.map { [file.prefix(bodyEnd), Data($0.encoded)] }
    }
    guard let first = essence(a), let second = essence(b) else { return false }
    return first == second
  }

  /// Adopts the bytes that an incomplete change has left after a payload.
  package mutating func adoptTail(of file: BlobKey, _ bytes: Data?) {
    guard let bytes, let key = records.keys.first(where: { path(of: $0).relative == file.string }),
      let record = records[key]
    else { return }
    records[key]?.tail = Data(bytes.dropFirst(64 + record.payload.count))
  }
}
