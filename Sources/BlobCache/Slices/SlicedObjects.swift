internal import BlobRecord
internal import Locks

/// The objects whose slices are in use in this process, by their keys.
final class SlicedObjects: Sendable {
  /// A class: Swift 6.3 crashes where a dictionary lacks a structure with a weak reference and something else.
  private final class Entry: Sendable {
    weak let object: SlicedObject?
    /// Tells the object without holding it.
    let identity: ObjectIdentifier

    init(_ object: SlicedObject) {
      self.object = object
      identity = ObjectIdentifier(object)
    }
  }

  private let entries = Lock<[BlobKey: Entry]>([:])

  /// The object of a layout. One of the same key, and of another layout or outdated itself, is outdated from then on.
  func object(_ layout: SliceLayout, _ engine: CacheEngine) -> SlicedObject {
    let (object, other) = entries.withLock { entries -> (SlicedObject, SlicedObject?) in
      let present = entries[layout.key]?.object
      if let present, present.layout == layout, !present.agreement.isOutdated { return (present, nil) }
      let object = SlicedObject(layout, engine)
      entries[layout.key] = Entry(object)
      return (object, present)
    }
    // Outside of the lock, which its end takes.
    other?.agreement.setOutdated()
    return object
  }

  /// An object has gone. Another may have its key by then.
  func forget(_ key: BlobKey, _ identity: ObjectIdentifier) {
    entries.withLock { entries in
      // It is not held here: the last reference would end it within the lock.
      if entries[key]?.identity == identity { entries[key] = nil }
    }
  }

  var count: Int { entries.withLock { $0.count } }
}
