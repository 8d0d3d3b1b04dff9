internal import BlobRecord
internal import Locks

/// The objects whose slices are in use in this process, by their keys.
final class SlicedObjects: Sendable {
  private struct Entry {
    weak var object: SlicedObject?
  }

  private let entries = Lock<[BlobKey: Entry]>([:])

  /// The object of a layout. An object with the same key and another layout is outdated from then on.
  func object(_ layout: SliceLayout, _ engine: CacheEngine) -> SlicedObject {
    let (object, other) = entries.withLock { entries -> (SlicedObject, SlicedObject?) in
      let present = entries[layout.key]?.object
      if let present, present.layout == layout { return (present, nil) }
      let object = SlicedObject(layout, engine)
      entries[layout.key] = Entry(object: object)
      return (object, present)
    }
    // Outside of the lock, which its end takes.
    other?.setOutdated()
    return object
  }

  /// An object has gone.
  func forget(_ key: BlobKey) {
    entries.withLock { entries in
      // Another may have come.
      if let entry = entries[key], entry.object == nil { entries[key] = nil }
    }
  }

  var count: Int { entries.withLock { $0.count } }
}
