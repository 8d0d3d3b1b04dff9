internal import BlobRecord
internal import BlobStore
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// How one key stands.
public enum KeyState: Codable, Hashable, Sendable {
  case absent
  case record(payload: String, refCount: UInt32, ttl: UInt64, updateTime: UInt64)
  case damaged
  /// A stream whose writer is gone.
  case abandoned
}

/// Everything that lies in a directory.
public struct DirectoryState: Codable, Equatable, Sendable {
  /// By key; none of them is absent.
  public var keys: [String: KeyState] = [:]
  public var temporary: [String] = []
  public var quarantined: [String] = []
  public var foreign: [String] = []
  /// What could not be read.
  public var unreadable: [String] = []

  public init() {}

  public subscript(key: String) -> KeyState { keys[key] ?? .absent }
}

extension DirectoryState {
  /// Reads every byte of a directory and changes nothing. Which files are records, and whether they are sound, the
  /// library says; what they hold is read here.
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
          guard let bytes = try? Data(contentsOf: root.appending(path: entry.file)), let header = entry.header,
            bytes.count >= RecordHeader.byteCount
          else {
            state.unreadable.append(entry.file)
            return
          }
          state.keys[key] = .record(
            payload: PayloadDigest.of(bytes.dropFirst(RecordHeader.byteCount)), refCount: header.refCount,
            ttl: header.ttl, updateTime: header.updateTime)
        }
      }
    }
    let quarantine = root.appending(path: ".quarantine").path
    if FileManager.default.fileExists(atPath: quarantine) {
      state.quarantined = try FileManager.default.contentsOfDirectory(atPath: quarantine).sorted()
    }
    self = state
  }
}
