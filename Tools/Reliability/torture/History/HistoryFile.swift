internal import Foundation
internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The operations of one thread of a worker, in a file that is mapped shared. All entries survive a kill of the
/// worker, and no operation requires a system call.
final class HistoryFile {
  private let base: UnsafeMutableRawPointer
  private let capacity: Int
  private(set) var count = 0

  /// Creates a sparse file for a number of entries.
  init(creating path: String, capacity: Int) throws {
    let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw TortureFailure("open \(path): errno \(errno)") }
    defer { close(descriptor) }
    let byteCount = max(capacity, 1) * HistoryEntry.byteCount
    guard ftruncate(descriptor, off_t(byteCount)) == 0,
      let map = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), map != MAP_FAILED
    else { throw TortureFailure("map \(path): errno \(errno)") }
    base = map
    self.capacity = capacity
  }

  deinit {
    munmap(base, max(capacity, 1) * HistoryEntry.byteCount)
  }

  var isFull: Bool { count == capacity }

  /// Records the call of an operation. The time of the call makes the entry valid, so it is written last.
  func call(_ entry: inout HistoryEntry) {
    let place = base + count * HistoryEntry.byteCount
    place.storeBytes(of: entry.kind, toByteOffset: 16, as: UInt8.self)
    place.storeBytes(of: entry.key, toByteOffset: 17, as: UInt8.self)
    place.storeBytes(of: entry.ttl, toByteOffset: 20, as: UInt32.self)
    place.storeBytes(of: entry.stored, toByteOffset: 24, as: UInt64.self)
    entry.called = TortureClock.nanoseconds
    publish(entry.called, at: place)
  }

  /// Records the return of the operation.
  func finish(_ entry: inout HistoryEntry) {
    entry.returned = TortureClock.nanoseconds
    let place = base + count * HistoryEntry.byteCount
    place.storeBytes(of: entry.outcome, toByteOffset: 18, as: UInt8.self)
    place.storeBytes(of: entry.stored, toByteOffset: 24, as: UInt64.self)
    place.storeBytes(of: entry.loaded, toByteOffset: 32, as: UInt64.self)
    place.storeBytes(of: entry.refCount, toByteOffset: 40, as: UInt32.self)
    place.storeBytes(of: entry.observedTTL, toByteOffset: 44, as: UInt32.self)
    place.storeBytes(of: entry.updateTime, toByteOffset: 48, as: UInt32.self)
    publish(entry.returned, at: place + 8)
    count += 1
  }

  /// Stores the time after all other fields. The release order also keeps the compiler from reordering them.
  private func publish(_ time: UInt64, at place: UnsafeMutableRawPointer) {
    place.assumingMemoryBound(to: Atomic<UInt64>.self).pointee.store(time, ordering: .releasing)
  }

  /// Returns the entries of a file whose writer has ended or has been killed.
  static func entries(of path: String) throws -> [HistoryEntry] {
    let data = try Data(contentsOf: URL(filePath: path), options: .alwaysMapped)
    return data.withUnsafeBytes { buffer in
      var entries: [HistoryEntry] = []
      for place in stride(from: 0, to: buffer.count, by: HistoryEntry.byteCount) {
        var entry = HistoryEntry()
        entry.called = buffer.loadUnaligned(fromByteOffset: place, as: UInt64.self)
        guard entry.called > 0 else { break }
        entry.returned = buffer.loadUnaligned(fromByteOffset: place + 8, as: UInt64.self)
        entry.kind = buffer.loadUnaligned(fromByteOffset: place + 16, as: UInt8.self)
        entry.key = buffer.loadUnaligned(fromByteOffset: place + 17, as: UInt8.self)
        entry.outcome = buffer.loadUnaligned(fromByteOffset: place + 18, as: UInt8.self)
        entry.ttl = buffer.loadUnaligned(fromByteOffset: place + 20, as: UInt32.self)
        entry.stored = buffer.loadUnaligned(fromByteOffset: place + 24, as: UInt64.self)
        entry.loaded = buffer.loadUnaligned(fromByteOffset: place + 32, as: UInt64.self)
        entry.refCount = buffer.loadUnaligned(fromByteOffset: place + 40, as: UInt32.self)
        entry.observedTTL = buffer.loadUnaligned(fromByteOffset: place + 44, as: UInt32.self)
        entry.updateTime = buffer.loadUnaligned(fromByteOffset: place + 48, as: UInt32.self)
        entries.append(entry)
      }
      return entries
    }
  }
}

/// The reason that a run is not possible.
struct TortureFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
