internal import BlobRecord
internal import BlobStore
internal import FaultOperations
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A wrong implementation of an operation that the fault tests must detect, as evidence that they detect mistakes.
/// Each one can go unnoticed for years until a process dies at the wrong moment.
enum PlantedBug: String, CaseIterable {
  /// A store that overwrites the old file in place.
  case storesInPlace
  /// A store that removes the old record before it renames the new one.
  case storesByRemovingFirst
  /// A store that moves a recycled file into place before overwriting it.
  case publishesBeforeWriting
  /// A store that reports success without a sync.
  case storesWithoutSync
  /// A store that ignores failed calls.
  case ignoresErrors
  /// A store that leaves its temporary file after a failure, without a lock that identifies the owner.
  case leavesTemporaryFiles
  /// A lock that reads, increments and writes the count without mutual exclusion.
  case locksWithoutStripe
  /// A removal that assumes that an unlocked record stays unlocked.
  case evictsWithoutLookingAgain
  /// A load that waits for the key's lock.
  case loadsUnderLock

  /// - Returns: The result, or `nil` if the bug does not affect the operation. In a directory that does not yet
  ///   determine the places of its records, no operation is affected, because the first one must be correct.
  func run(_ operation: FaultOperation, _ settings: StoreSettings) -> OperationResult? {
    if case (.evictsWithoutLookingAgain, .collect) = (self, operation) { return evict(settings) }
    guard let key = operation.key, let file = RecordFile(key, settings) else { return nil }
    switch (self, operation) {
    case (.storesInPlace, .store(_, let payload, let locks)):
      return storeInPlace(file, payload, locks == .one, settings)
    case (.storesByRemovingFirst, .store(_, let payload, let locks)):
      return storeBeside(file, payload, locks == .one, settings, removesFirst: true)
    case (.publishesBeforeWriting, .store(_, let payload, let locks)):
      return storeRecycled(file, payload, locks == .one, settings)
    case (.storesWithoutSync, .store(_, let payload, let locks)):
      return storeBeside(file, payload, locks == .one, settings)
    case (.ignoresErrors, .store(_, let payload, let locks)):
      _ = storeBeside(file, payload, locks == .one, settings)
      return OperationResult(.done)
    case (.leavesTemporaryFiles, .store(_, let payload, let locks)):
      return storeBeside(file, payload, locks == .one, settings)
    case (.locksWithoutStripe, .lock): return lock(file)
    case (.loadsUnderLock, .load): return loadUnderLock(file, settings)
    default: return nil
    }
  }
}

// MARK: - What goes wrong

/// The file of a key, accessed by plain system calls.
private struct RecordFile {
  let path: String
  let subdirectory: String
  let digest: UInt64
  let root: String

  /// - Returns: The file, or `nil` if the directory does not yet determine the subdirectories of its records.
  init?(_ key: String, _ settings: StoreSettings) {
    root = settings.directory.string
    guard Self.tellsArrangement(settings.directory), let store = try? settings.makeStore(),
      let file = try? store.filePath(for: BlobKey(key)),
      let digest = try? RecordLayout().path(for: BlobKey(key)).digest
    else { return nil }
    path = file.string
    subdirectory = file.removingLastComponent().string
    self.digest = digest
  }

  /// Returns whether the settings or existing records determine the arrangement.
  private static func tellsArrangement(_ directory: FilePath) -> Bool {
    if let settings = try? BlobStore.settings(of: directory), settings.arrangement != nil { return true }
    let names = try? FileManager.default.contentsOfDirectory(atPath: directory.string)
    return names?.contains { !$0.hasPrefix(".") } ?? false
  }

  func header(_ payload: PayloadName, _ locked: Bool, _ settings: StoreSettings) -> Data {
    var header = RecordHeader(
      refCount: locked ? 1 : 0, updateTime: UInt64(settings.now.seconds), payloadSize: UInt64(payload.byteCount))
    header.payloadChecksum = payload.bytes.withUnsafeBytes { CRC32.checksum(of: $0.bytes) }
    header.keyDigest = digest
    return header.withEncodedBytes { bytes in bytes.withUnsafeBytes { Data($0) } }
  }
}

extension PlantedBug {
  private func storeInPlace(
    _ file: RecordFile, _ payload: PayloadName, _ locked: Bool, _ settings: StoreSettings
  ) -> OperationResult {
    mkdir(file.subdirectory, 0o700)
    let descriptor = open(file.path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return OperationResult(.failed, message: "open") }
    defer { close(descriptor) }
    let bytes = file.header(payload, locked, settings) + payload.bytes
    return writeAll(bytes, descriptor) ? OperationResult(.done) : OperationResult(.failed, message: "write")
  }

  private func storeBeside(
    _ file: RecordFile, _ payload: PayloadName, _ locked: Bool, _ settings: StoreSettings, removesFirst: Bool = false
  ) -> OperationResult {
    mkdir(file.subdirectory, 0o700)
    let temporary = file.subdirectory + "/.tmp-planted"
    let descriptor = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    let isWritten = writeAll(file.header(payload, locked, settings) + payload.bytes, descriptor)
    close(descriptor)
    guard isWritten || self == .ignoresErrors else { return OperationResult(.failed, message: "write") }
    if removesFirst { unlink(file.path) }
    return rename(temporary, file.path) == 0 ? OperationResult(.done) : OperationResult(.failed, message: "rename")
  }

  private func storeRecycled(
    _ file: RecordFile, _ payload: PayloadName, _ locked: Bool, _ settings: StoreSettings
  ) -> OperationResult {
    let bin = file.root + "/.recycled"
    guard let name = (try? FileManager.default.contentsOfDirectory(atPath: bin))?.min() else {
      return OperationResult(.failed, message: "nothing to overwrite")
    }
    guard rename(bin + "/" + name, file.path) == 0 else { return OperationResult(.failed, message: "rename") }
    let descriptor = open(file.path, O_RDWR | O_CLOEXEC)
    guard descriptor >= 0 else { return OperationResult(.failed, message: "open") }
    defer { close(descriptor) }
    let bytes = file.header(payload, locked, settings) + payload.bytes
    guard writeAll(bytes, descriptor), ftruncate(descriptor, off_t(bytes.count)) == 0 else {
      return OperationResult(.failed, message: "write")
    }
    return OperationResult(.done)
  }

  private func writeAll(_ bytes: Data, _ descriptor: CInt) -> Bool {
    bytes.withUnsafeBytes { buffer in
      var done = 0
      while done < buffer.count {
        let count = pwrite(descriptor, buffer.baseAddress! + done, buffer.count - done, off_t(done))
        guard count > 0 || (count < 0 && errno == EINTR) else { return false }
        done += max(count, 0)
      }
      return true
    }
  }

  private func lock(_ file: RecordFile) -> OperationResult {
    let descriptor = open(file.path, O_RDWR | O_CLOEXEC)
    guard descriptor >= 0 else { return OperationResult(.notFound) }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: RecordHeader.byteCount)
    guard pread(descriptor, &bytes, bytes.count, 0) == bytes.count,
      var header = try? RecordHeader(decoding: bytes.span.bytes)
    else { return OperationResult(.failed, message: "read") }
    header.refCount += 1
    let changed = header.withEncodedBytes { head in head.withUnsafeBytes { Data($0) } }
    return writeAll(changed, descriptor) ? OperationResult(.done) : OperationResult(.failed, message: "write")
  }

  private func evict(_ settings: StoreSettings) -> OperationResult {
    do {
      let store = try settings.makeStore()
      for entry in try store.records() where entry.state == .live || entry.state == .expired {
        unlink(settings.directory.string + "/" + entry.file)
      }
      return OperationResult(.done)
    } catch {
      return OperationResult(.failed, message: "\(error)")
    }
  }

  private func loadUnderLock(_ file: RecordFile, _ settings: StoreSettings) -> OperationResult {
    let descriptor = open(file.root + "/.blobcache", O_RDWR | O_CLOEXEC)
    guard descriptor >= 0 else { return OperationResult(.failed, message: "open") }
    defer { close(descriptor) }
    var range = flock()
    range.l_type = Int16(F_WRLCK)
    range.l_start = off_t(file.digest % 4096)
    range.l_len = 1
    // POSIX locks, because the system's header declares them. They conflict with locks of open file descriptions.
    while fcntl(descriptor, F_SETLK, &range) != 0 { usleep(1000) }
    guard let bytes = FileManager.default.contents(atPath: file.path) else { return OperationResult(.notFound) }
    return OperationResult(.done, payload: PayloadDigest.of(bytes.dropFirst(RecordHeader.byteCount)))
  }
}
