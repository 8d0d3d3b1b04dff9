internal import BlobRecord
internal import BlobStore
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// The state of one key.
public enum KeyState: Codable, Hashable, Sendable {
  case absent
  case record(payload: String, refCount: UInt32, ttl: UInt64, updateTime: UInt64)
  case damaged
  /// A stream whose writer has died.
  case abandoned
}

extension KeyState {
  /// The time at which the record was last stored or used.
  public var timeOfUse: UInt64? {
    if case .record(_, _, _, let updateTime) = self { updateTime } else { nil }
  }

  /// The state with a time of use of zero.
  public var withoutTime: KeyState {
    guard case .record(let payload, let refCount, let ttl, _) = self else { return self }
    return .record(payload: payload, refCount: refCount, ttl: ttl, updateTime: 0)
  }
}

/// The complete content of a directory.
public struct DirectoryState: Codable, Equatable, Sendable {
  /// The states by key, without keys that are absent.
  public var keys: [String: KeyState] = [:]
  public var temporary: [String] = []
  public var quarantined: [String] = []
  public var foreign: [String] = []
  /// The files that cannot be read.
  public var unreadable: [String] = []

  public init() {}

  public subscript(key: String) -> KeyState { keys[key] ?? .absent }
}

extension DirectoryState {
  /// Reads every byte of a directory without changing it.
  ///
  /// The library determines which files are records and whether they are valid, but their content is read here.
  public init(inspecting settings: StoreSettings) throws {
    self.init()
    let store = try settings.makeStore { $0.access.createsDirectory = true }
    let root = URL(filePath: settings.directory.string)
    var state = DirectoryState()
    _ = try store.verify { finding in
      switch finding {
      case .temporary(let path): state.temporary.append(path.string)
      case .foreign(let path): state.foreign.append(path.string)
      case .foreignRecord(let record): state.foreign.append(record.path.string)
      case .record(let entry), .repaired(let entry):
        let key = entry.key?.string ?? entry.file
        switch entry.state {
        case .damaged, .streaming: state.keys[key] = entry.damage == .abandonedStream ? .abandoned : .damaged
        case .unreadable: state.unreadable.append(entry.file)
        case .live, .expired, .locked:
          guard let header = entry.header, let body = Self.body(of: entry, in: root) else {
            state.unreadable.append(entry.file)
            return
          }
          state.keys[key] = .record(
            payload: PayloadDigest.of(body), refCount: header.refCount, ttl: header.ttl, updateTime: header.updateTime)
        }
      }
    }
    let quarantine = root.appending(path: ".quarantine").path
    if FileManager.default.fileExists(atPath: quarantine) {
      state.quarantined = try FileManager.default.contentsOfDirectory(atPath: quarantine).sorted()
    }
    self = state
  }

  /// Returns the bytes after a record's header, from its file or its pack.
  ///
  /// - Returns: The bytes, or `nil` if they cannot be read.
  private static func body(of entry: RecordEntry, in root: URL) -> Data? {
    let url = root.appending(path: entry.file)
    guard let place = entry.packed else {
      guard let bytes = try? Data(contentsOf: url), bytes.count >= RecordHeader.byteCount else { return nil }
      return bytes.dropFirst(RecordHeader.byteCount)
    }
    let start = PackLayout.fileOffset(ofChunk: place.chunk) + place.offset
    let byteCount = Int(entry.fileSize) - RecordHeader.byteCount
    let largest = PackLayout.recordHeaderByteCount + PackLayout.largestNameByteCount + byteCount
    guard let file = try? FileDescriptor.open(FilePath(url.path), .readOnly, options: .closeOnExec) else { return nil }
    // The file is only read, so errors of the close do not matter.
    defer { try? file.close() }
    var bytes = Data(count: largest)
    let count = bytes.withUnsafeMutableBytes { try? file.read(fromAbsoluteOffset: Int64(start), into: $0) }
    guard let count, count >= PackLayout.recordHeaderByteCount else { return nil }
    // The most significant byte of the word with the sequence is the length of the name.
    let body = bytes.prefix(count).dropFirst(PackLayout.recordHeaderByteCount + Int(bytes[15])).prefix(byteCount)
    return body.count == byteCount ? body : nil
  }
}
