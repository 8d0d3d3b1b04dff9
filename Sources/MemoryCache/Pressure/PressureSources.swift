internal import Locks

/// Where a watch looks, and what it could not look at.
final class PressureSources: Sendable {
  private let list = Lock<[MemoryPressureSource]>([])

  var all: [MemoryPressureSource] { list.withLock { $0 } }

  /// Notes a place, once.
  func note(_ kind: MemoryPressureSource.Kind, at path: String) {
    list.withLock { list in
      guard !list.contains(where: { $0.kind == kind && $0.path == path && $0.failure == nil }) else { return }
      list.append(MemoryPressureSource(kind: kind, path: path, failure: nil))
    }
  }

  /// Notes that a place cannot be watched, or no longer.
  func fail(_ kind: MemoryPressureSource.Kind, at path: String, because error: any Error) {
    let source = MemoryPressureSource(kind: kind, path: path, failure: "\(error)")
    list.withLock { list in
      list.removeAll { $0.kind == kind && $0.path == path && ($0.failure == nil || $0 == source) }
      list.append(source)
    }
  }

  /// Notes that nothing is watched any more.
  func failAll(because error: any Error) {
    for source in all where source.failure == nil { fail(source.kind, at: source.path, because: error) }
  }
}
