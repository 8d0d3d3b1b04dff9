public import BlobRecord
public import BlobStore
internal import Foundation
internal import Logging
package import Posix
public import SystemPackage

/// The configuration of stores in fault tests, which does not depend on the time or on the volume.
public struct StoreSettings: Sendable {
  public var directory: FilePath
  /// The time of all operations.
  public var now = UnixTime(seconds: standardTime)
  public var durability = BlobStore.Durability.automatic
  public var lockTimeout: Duration = .seconds(5)
  public var format = BlobStore.RecordFormat.checksummed
  public var recycles = true
  /// A Boolean value that indicates whether the store makes a change before, because its first never uses the bin.
  public var warmsUp = false
  /// A Boolean value that indicates whether small records are stored in packs.
  public var packs = false
  /// A Boolean value that indicates whether each collection writes a checkpoint, so a chunk contains one record.
  public var checkpoints = false
  /// The interface to the file system, for tests that observe the calls.
  package var files = Files()

  /// The default time of tests, in Unix seconds.
  public static let standardTime: Int64 = 1_700_000_000

  /// The size of the largest packed record if packing is enabled.
  public static let largestPackedByteCount = 4096

  public init(directory: FilePath) {
    self.directory = directory
  }

  public func makeStore(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.durability = durability
    configuration.access.lockTimeout = lockTimeout
    configuration.format = format
    configuration.limits.freeSpaceFloor = 0
    configuration.packing = packs ? .upTo(Self.largestPackedByteCount) : .off
    if checkpoints {
      configuration.packChunkByteCount = 1
      configuration.leastPackIndexEntryCount = 1
      configuration.leastCheckpointByteCount = 1
    }
    configuration.recycling = recycles ? .automatic : .off
    configuration.logger = Logger(label: "faults", factory: { _ in SwiftLogNoOpLogHandler() })
    let now = now
    configuration.now = { now }
    change(&configuration)
    return try BlobStore(directory: directory, configuration: configuration, files: files)
  }
}

extension FaultOperation {
  /// Runs the operation with a separate store.
  ///
  /// - Parameter look: A closure that is called after the operation, while the store is still open.
  public func run(_ settings: StoreSettings, thenWhileOpen look: () -> Void = {}) -> OperationResult {
    do {
      let store = try settings.makeStore {
        $0.limits.collectsOnStore = false
        if case .collect(evicting: true) = self { $0.limits.size = 1 }
        if case .storeAtLimit(_, let payload) = self {
          $0.limits.collectsOnStore = true
          // All records are above the limit, and below the bound, so that the store does not wait for the collection.
          $0.limits.size = Int64(RecordHeader.byteCount + payload.byteCount) * 107 / 100
        }
        if case .quarantine = self { $0.damagePolicy = .quarantine }
      }
      return withExtendedLifetime(store) {
        if settings.warmsUp { warmUp(store) }
        let result = run(store)
        look()
        return result
      }
    } catch {
      return OperationResult(.failed, message: "\(error)")
    }
  }

  /// Touches an absent key that only this process uses. Failures do not concern the operation.
  private func warmUp(_ store: BlobStore) {
    switch self {
    case .store(let key, _, _), .storePieces(let key, _, _), .storeVisibly(let key, _, _):
      _ = try? store.touch(BlobKey(Self.ownKey(besides: key)))
    default: break
    }
  }

  /// Returns a key of this process that shares no page of the control file with another key. The operation on the other
  /// key then always allocates its pages, so the number of its calls does not depend on the process.
  private static func ownKey(besides other: String) -> String {
    let others = pages(of: other)
    var number = 0
    while true {
      let key = "of-\(CurrentProcess.identifier)-\(number)"
      if pages(of: key).isDisjoint(with: others) { return key }
      number += 1
    }
  }

  /// The pages of the control file that a change of a key writes to, if the file name is the key.
  private static func pages(of key: String) -> Set<Int> {
    let digest = NameDigest.digest(ofFileName: key)
    let offsets = [
      ControlLayout.stripeOffset(ControlLayout.stripe(of: digest)), ControlLayout.generationOffset(of: digest),
    ]
    // No page of memory is larger.
    return Set(offsets.map { $0 / 65536 })
  }

  public func run(_ store: BlobStore) -> OperationResult {
    do throws(BlobStoreError) {
      switch self {
      case .store(let key, let payload, let locks):
        try store.store(payload.bytes, for: BlobKey(key), locks: locks)
        return OperationResult(.done)
      case .storePieces(let key, let payload, let locks):
        var writer = try store.openWriter(for: BlobKey(key), locks: locks, expectedSize: Int64(payload.byteCount))
        for piece in [payload.bytes.prefix(payload.byteCount / 2), payload.bytes.dropFirst(payload.byteCount / 2)] {
          try writer.append(piece)
        }
        try writer.commit()
        return OperationResult(.done)
      case .storeVisibly(let key, let payload, let locks):
        var writer = try store.openWriter(for: BlobKey(key), locks: locks, visibility: .whileWriting)
        let follower = try store.openFollower(for: BlobKey(key), touching: false)
        for piece in [payload.bytes.prefix(payload.byteCount / 2), payload.bytes.dropFirst(payload.byteCount / 2)] {
          try writer.append(piece)
        }
        try writer.commit()
        let followed = try follower?.payload()
        guard followed == payload.bytes else {
          return OperationResult(.failed, message: "a follower reads \(followed?.count ?? -1) bytes")
        }
        return OperationResult(.done)
      case .storeAtLimit(let key, let payload):
        try store.store(payload.bytes, for: BlobKey(key))
        store.waitForCollection()
        return OperationResult(.done)
      case .load(let key, let touching): return try load(key, touching: touching, store)
      case .quarantine(let key): return try load(key, touching: false, store)
      case .touch(let key): return OperationResult(of: try store.touch(BlobKey(key)))
      case .lock(let key): return OperationResult(of: try store.lock(BlobKey(key)))
      case .unlock(let key, let force): return OperationResult(of: try store.unlock(BlobKey(key), force: force))
      case .remove(let key): return OperationResult(of: try store.remove(BlobKey(key)))
      case .removeAll(let scope): try store.removeAll(scope)
      case .collect:
        let report = try store.collect()
        if report.failed > 0 { return OperationResult(.failed, message: "\(report.failed) files") }
      case .verify:
        let report = try store.verify()
        if report.unreadableFiles > 0 { return OperationResult(.failed, message: "\(report.unreadableFiles) files") }
        if report.damagedFiles > 0 { return OperationResult(.damaged) }
      }
      return OperationResult(.done)
    } catch {
      switch error.code {
      case .damaged: return OperationResult(.damaged, message: "\(error)")
      case .busy, .collectionRunning: return OperationResult(.busy, message: "\(error)")
      default: return OperationResult(.failed, message: "\(error)", errno: error.errno?.rawValue)
      }
    }
  }

  private func load(_ key: String, touching: Bool, _ store: BlobStore) throws(BlobStoreError) -> OperationResult {
    guard let blob = try store.load(BlobKey(key), touching: touching) else { return OperationResult(.notFound) }
    return OperationResult(.done, payload: PayloadDigest.of(blob.payload))
  }
}

extension BlobFollower {
  /// Returns the complete payload.
  fileprivate func payload() throws(BlobStoreError) -> Data {
    var payload = Data()
    do {
      try forEachPiece { piece in payload.append(unsafe piece.withUnsafeBytes { unsafe Data($0) }) }
    } catch {
      throw BlobStoreError(anything: error, operation: "load", key: key)
    }
    return payload
  }
}

extension OperationResult {
  fileprivate init(of outcome: BlobStore.Outcome) {
    switch outcome {
    case .done: self.init(.done)
    case .notFound: self.init(.notFound)
    case .notLocked: self.init(.notLocked)
    }
  }
}
