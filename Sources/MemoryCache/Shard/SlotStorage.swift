internal import Posix

/// The number of a slot for an entry. The first three slots are the ends of the three lists.
@usableFromInline typealias Slot = UInt32

/// The list that contains an entry; with `.lru`, always the window.
@usableFromInline
enum Segment: UInt32, CaseIterable {
  case window, probation, protected
  /// The slot is free.
  case none
}

@usableFromInline
struct SlotLinks {
  @usableFromInline var previous: Slot
  @usableFromInline var next: Slot
  @usableFromInline var hash: UInt32
  @usableFromInline var segment: Segment

  @inlinable
  init(previous: Slot, next: Slot, hash: UInt32, segment: Segment) {
    self.previous = previous
    self.next = next
    self.hash = hash
    self.segment = segment
  }
}

@usableFromInline
struct SlotContent<Key, Value> {
  @usableFromInline let key: Key
  @usableFromInline var value: Value
  @usableFromInline var cost: Int
  @usableFromInline var lastUse: Int64
  @usableFromInline var serial: UInt64

  @inlinable
  init(key: Key, value: Value, cost: Int, lastUse: Int64, serial: UInt64) {
    self.key = key
    self.value = value
    self.cost = cost
    self.lastUse = lastUse
    self.serial = serial
  }
}

/// A place of the index: an entry's hash and slot. Slot 0 marks an empty place.
@usableFromInline
struct IndexPlace {
  @usableFromInline var hash: UInt32
  @usableFromInline var slot: Slot

  @inlinable
  init(hash: UInt32, slot: Slot) {
    self.hash = hash
    self.slot = slot
  }
}

/// Entries in contiguous memory: an index of hashes, three circular lists, and the contents.
///
/// Invariants: a slot is either free, or in exactly one list and in the index. `contents` is initialised for exactly
/// the slots in use, and `lifetimes`, if there are any, at least for those. The index is at most two thirds full;
/// probing is linear, without tombstones.
///
/// Unchecked because of the pointers: the storage owns their targets, and only mutating methods change it.
@usableFromInline
@safe
struct SlotStorage<Key: Hashable & Sendable, Value: Sendable>: ~Copyable, @unchecked Sendable {
  @usableFromInline static var firstSlot: Int { 3 }
  @usableFromInline static var leastCapacity: Int { 16 }

  @usableFromInline var links: UnsafeMutablePointer<SlotLinks>
  @usableFromInline var contents: UnsafeMutablePointer<SlotContent<Key, Value>>
  /// The lifetimes by slot, or `nil` until an entry that can expire is set, because most caches have none.
  @usableFromInline var lifetimes: UnsafeMutablePointer<SlotLifetime>?
  @usableFromInline var index: UnsafeMutablePointer<IndexPlace>
  @usableFromInline var indexMask: Int
  @usableFromInline var capacity: Int
  @usableFromInline var count = 0
  /// The first slot that was never used.
  @usableFromInline var highWater = 3
  /// The first of the free slots below `highWater`, linked by `next`, or 0.
  @usableFromInline var firstFree: Slot = 0

  @inlinable
  init(capacity: Int = leastCapacity) {
    self.capacity = capacity
    indexMask = Self.indexCount(for: capacity) - 1
    unsafe links = SlotMemory.allocate(capacity)
    unsafe contents = SlotMemory.allocate(capacity)
    unsafe index = SlotMemory.allocate(indexMask + 1)
    unsafe index.initialize(repeating: IndexPlace(hash: 0, slot: 0), count: indexMask + 1)
    for end in 0..<Slot(Self.firstSlot) {
      unsafe (links + Int(end)).initialize(to: SlotLinks(previous: end, next: end, hash: 0, segment: .none))
    }
  }

  @inlinable
  deinit {
    for slot in Self.firstSlot..<highWater where unsafe links[slot].segment != .none {
      unsafe (contents + slot).deinitialize(count: 1)
    }
    unsafe SlotMemory.deallocate(links)
    unsafe SlotMemory.deallocate(contents)
    if let lifetimes = unsafe lifetimes { unsafe SlotMemory.deallocate(lifetimes) }
    unsafe SlotMemory.deallocate(index)
  }
}

// MARK: - Size

extension SlotStorage {
  /// Returns the size of the index: a power of two, at most two thirds of it for slots.
  @inlinable
  static func indexCount(for capacity: Int) -> Int {
    var count = 32
    while count * 2 < capacity * 3 { count *= 2 }
    return count
  }

  var byteCount: Int {
    capacity * (MemoryLayout<SlotLinks>.stride + MemoryLayout<SlotContent<Key, Value>>.stride)
      + (hasLifetimes ? capacity * MemoryLayout<SlotLifetime>.stride : 0)
      + (indexMask + 1) * MemoryLayout<IndexPlace>.stride
  }

  /// The number of slots for the current entries and an eighth more.
  var neededCapacity: Int { max(count + count / 8 + Self.firstSlot, Self.leastCapacity) }

  /// Moves the entries to a smaller storage if that frees a quarter or more; the order is kept, but slots change.
  mutating func compact() -> Bool {
    guard neededCapacity * 4 <= capacity * 3 else { return false }
    var smaller = SlotStorage(capacity: neededCapacity)
    for segment in [Segment.window, .probation, .protected] {
      var slot = unsafe links[Int(segment.rawValue)].previous
      while slot >= Self.firstSlot {
        let entry = unsafe links[Int(slot)]
        let moved = smaller.add(unsafe (contents + Int(slot)).move(), entry.hash)
        if let lifetimes = unsafe lifetimes { smaller.setLifetime(unsafe lifetimes[Int(slot)], of: moved) }
        unsafe links[Int(slot)].segment = .none
        smaller.linkFirst(moved, in: segment)
        slot = entry.previous
      }
    }
    swap(&smaller, &self)
    return true
  }
}

// MARK: - Finding

extension SlotStorage {
  @inlinable
  @inline(__always)
  func find(_ key: Key, _ hash: UInt32) -> Slot? {
    var place = Int(truncatingIfNeeded: hash) & indexMask
    while true {
      let candidate = unsafe index[place]
      if candidate.slot == 0 { return nil }
      if candidate.hash == hash, unsafe contents[Int(candidate.slot)].key == key { return candidate.slot }
      place = (place + 1) & indexMask
    }
  }

  @inlinable
  func place(of slot: Slot) -> Int {
    var place = Int(truncatingIfNeeded: unsafe links[Int(slot)].hash) & indexMask
    while unsafe index[place].slot != slot { place = (place + 1) & indexMask }
    return place
  }
}

// MARK: - Adding and removing

extension SlotStorage {
  /// Adds an entry without linking it into a list.
  @inlinable
  mutating func add(_ content: consuming SlotContent<Key, Value>, _ hash: UInt32) -> Slot {
    let slot: Slot
    if firstFree != 0 {
      slot = firstFree
      firstFree = unsafe links[Int(slot)].next
    } else {
      if highWater == capacity { grow() }
      slot = Slot(truncatingIfNeeded: highWater)
      highWater += 1
    }
    unsafe (contents + Int(slot)).initialize(to: content)
    unsafe (links + Int(slot)).initialize(to: SlotLinks(previous: slot, next: slot, hash: hash, segment: .window))
    count += 1
    enter(slot, hash)
    return slot
  }

  @inlinable
  func enter(_ slot: Slot, _ hash: UInt32) {
    var place = Int(truncatingIfNeeded: hash) & indexMask
    while unsafe index[place].slot != 0 { place = (place + 1) & indexMask }
    unsafe index[place] = IndexPlace(hash: hash, slot: slot)
  }

  @inlinable
  mutating func take(_ slot: Slot) -> SlotContent<Key, Value> {
    leave(slot)
    unlink(slot)
    unsafe links[Int(slot)].segment = .none
    unsafe links[Int(slot)].next = firstFree
    firstFree = slot
    count -= 1
    return unsafe (contents + Int(slot)).move()
  }

  /// Removes an entry from the index, and shifts the entries after it back.
  @inlinable
  func leave(_ slot: Slot) {
    var hole = place(of: slot)
    var place = (hole + 1) & indexMask
    while true {
      let candidate = unsafe index[place]
      if candidate.slot == 0 { break }
      let home = Int(truncatingIfNeeded: candidate.hash) & indexMask
      if (place - home) & indexMask >= (place - hole) & indexMask {
        unsafe index[hole] = candidate
        hole = place
      }
      place = (place + 1) & indexMask
    }
    unsafe index[hole] = IndexPlace(hash: 0, slot: 0)
  }

  /// Doubles the number of slots, all of which are in use, and rebuilds the index.
  @inlinable
  @inline(never)
  mutating func grow() {
    let newCapacity = capacity * 2
    unsafe links = SlotMemory.move(links, 0..<capacity, to: newCapacity)
    unsafe contents = SlotMemory.move(contents, Self.firstSlot..<capacity, to: newCapacity)
    unsafe lifetimes = lifetimes.map { unsafe SlotMemory.move($0, Self.firstSlot..<capacity, to: newCapacity) }
    unsafe SlotMemory.deallocate(index)
    indexMask = Self.indexCount(for: newCapacity) - 1
    unsafe index = SlotMemory.allocate(indexMask + 1)
    unsafe index.initialize(repeating: IndexPlace(hash: 0, slot: 0), count: indexMask + 1)
    for slot in Self.firstSlot..<capacity {
      enter(Slot(truncatingIfNeeded: slot), unsafe links[slot].hash)
    }
    capacity = newCapacity
  }
}

// MARK: - Lists

extension SlotStorage {
  @inlinable
  @inline(__always)
  func unlink(_ slot: Slot) {
    let entry = unsafe links[Int(slot)]
    unsafe links[Int(entry.previous)].next = entry.next
    unsafe links[Int(entry.next)].previous = entry.previous
  }

  @inlinable
  @inline(__always)
  func linkFirst(_ slot: Slot, in segment: Segment) {
    let end = Int(segment.rawValue)
    let first = unsafe links[end].next
    unsafe links[Int(slot)].previous = Slot(truncatingIfNeeded: end)
    unsafe links[Int(slot)].next = first
    unsafe links[Int(slot)].segment = segment
    unsafe links[Int(first)].previous = slot
    unsafe links[end].next = slot
  }

  @inlinable
  func segment(of slot: Slot) -> Segment { unsafe links[Int(slot)].segment }

  /// Returns the least recent entry of a list except `spared`, or `nil`.
  @inlinable
  func last(in segment: Segment, except spared: Slot = 0) -> Slot? {
    var slot = unsafe links[Int(segment.rawValue)].previous
    if slot == spared, slot >= Self.firstSlot { slot = unsafe links[Int(slot)].previous }
    return slot >= Self.firstSlot ? slot : nil
  }

  @inlinable
  func first(in segment: Segment) -> Slot? {
    let slot = unsafe links[Int(segment.rawValue)].next
    return slot >= Self.firstSlot ? slot : nil
  }

  @inlinable
  func forEachSlot(in segment: Segment, leastRecentFirst: Bool, _ body: (Slot) -> Bool) {
    var slot = Slot(segment.rawValue)
    repeat {
      slot = unsafe leastRecentFirst ? links[Int(slot)].previous : links[Int(slot)].next
    } while slot >= Self.firstSlot && body(slot)
  }
}

@usableFromInline
enum SlotMemory {
  /// Allocates memory aligned to cache lines, so that an entry of 64 bytes is never split, or to large pages.
  @usableFromInline
  static func allocate(byteCount: Int, alignment: Int) -> UnsafeMutableRawPointer {
    guard byteCount >= LargePages.size else {
      return .allocate(byteCount: byteCount, alignment: max(alignment, 64))
    }
    let room = UnsafeMutableRawPointer.allocate(byteCount: byteCount, alignment: LargePages.size)
    unsafe LargePages.prefer(room, byteCount: byteCount)
    return unsafe room
  }

  @inlinable
  static func allocate<Element>(_ count: Int, of type: Element.Type = Element.self) -> UnsafeMutablePointer<Element> {
    let layout = MemoryLayout<Element>.self
    let room = unsafe allocate(byteCount: count * layout.stride, alignment: layout.alignment)
    return unsafe room.bindMemory(to: Element.self, capacity: count)
  }

  /// Moves a range of elements to more memory, and deallocates the old memory.
  @inlinable
  static func move<Element>(
    _ elements: UnsafeMutablePointer<Element>, _ range: Range<Int>, to capacity: Int
  ) -> UnsafeMutablePointer<Element> {
    let room = unsafe allocate(capacity, of: Element.self)
    unsafe (room + range.lowerBound).moveInitialize(from: elements + range.lowerBound, count: range.count)
    unsafe deallocate(elements)
    return unsafe room
  }

  /// Deallocates raw memory, because it was allocated as such.
  @inlinable
  static func deallocate<Element>(_ elements: UnsafeMutablePointer<Element>) {
    unsafe UnsafeMutableRawPointer(elements).deallocate()
  }
}
