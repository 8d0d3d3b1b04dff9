internal import BlobRecord
internal import Locks
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The hidden directory in which the files of dead records wait to be overwritten by stores. A small file is expensive
/// for its inode and blocks, which are allocated and freed, more than for its bytes.
///
/// All processes that share the cache share the bin. These rules keep them, and readers, from each other:
/// - A name in the bin leads to a dead file, or to one that is being overwritten and has never been published as what
///   it is becoming. So any process may unlink it: at worst a store finds its file gone and begins again.
/// - A store overwrites a file under a write lease (`WriteLease`): neither a late reader of the old record nor another
///   store has it open or mapped. A reader whose look at the old name led here gets EWOULDBLOCK and looks again.
/// - The last call before the one that publishes the file releases the lease. So a store that is stopped or dies in
///   between keeps no reader from the record. By then the file is whole, and is not written to any more. The generation
///   of the key has changed too: a reader whose look led here, and which opens the file only now, notices.
/// - The store keeps the file open until it is published, so no other process can lease it.
/// - Each name is given once. Only an exchange puts a second file under it: the displaced one. So a store first checks,
///   with the file locked, that the name still leads to it. It may check instead that the file is as this process put
///   it there: a file that is taken is written to before it leaves its name.
/// - A file's old record decides which records it may hold next (`DeadRecord`): a power cut may bring the old one back.
///
/// The control file has the number and the bytes of its files, for all processes. Each process remembers the files that
/// it put there itself, and looks the others up when it needs one.
final class RecyclingBin: Sendable {
  static let directoryName = ".recycled"

  /// A file in the bin, as it was when it was last seen.
  struct Entry {
    /// Kept, at 290 bytes of memory: making it anew took each store 1,300 instructions.
    let name: String
    var byteCount: Int64
    /// nil until this process has read the header.
    var dead: DeadRecord?
    /// As this process put it there. nil for files of other processes, and where a later write by one of them might not
    /// show.
    var version: FileVersion?
  }

  private struct State {
    /// One for each size class.
    private var shelves = [RecyclingShelf](repeating: RecyclingShelf(), count: SizeClass.count)
    private(set) var count: Int64 = 0
    var lastListing: Int64?

    mutating func push(_ entry: Entry) {
      shelves[SizeClass(entry.byteCount).number].push(entry)
      count += 1
    }

    mutating func pop(_ sizeClass: SizeClass, for path: RecordPath, at moment: RecyclingMoment) -> Entry? {
      counted(shelves[sizeClass.number].pop(for: path, at: moment))
    }

    mutating func popHighest(_ sizeClass: SizeClass, above keyDigest: UInt64) -> Entry? {
      counted(shelves[sizeClass.number].popHighest(above: keyDigest))
    }

    /// All known files.
    var entries: some Sequence<Entry> { shelves.lazy.map(\.entries).joined() }

    private mutating func counted(_ entry: Entry?) -> Entry? {
      if entry != nil { count -= 1 }
      return entry
    }

    #if DEBUG
      func checkInvariants() {
        for (number, shelf) in shelves.enumerated() { shelf.checkInvariants(of: number) }
        precondition(count == shelves.reduce(0) { $0 + $1.entries.reduce(0) { count, _ in count + 1 } })
      }
    #endif
  }

  private static let prefix = "f-"
  /// So long that few names share a block of the directory. ext4 reads the whole block of a new name three times before
  /// the file has it. With short names that took a fifth of the time of a removal.
  private static let suffix = String(repeating: "-", count: 224)
  /// How many files are tried before a new one is made instead.
  private static let tries = 4

  let directory: Directory
  private let state = Lock(State())
  private let isRefused = Atomic(false)
  /// From a random start, of up to thirteen digits, which with the prefix are a string without an allocation.
  private let numbers = Atomic(UInt64.random(in: 0..<1 << 51))

  init(_ directory: consuming Directory) {
    self.directory = directory
  }

  /// False where leases or renames are refused: then files would wait for nothing.
  var isUsable: Bool { !isRefused.load(ordering: .relaxed) }

  /// Nothing comes in or goes out from now on.
  func refuse() { isRefused.store(true, ordering: .relaxed) }

  private static func name(_ number: UInt64) -> String { prefix + String(number, radix: 16) + suffix }

  /// Whether the bin gives such names. Files with other names are foreign.
  private static func isName(_ name: String) -> Bool {
    guard name.utf8.starts(with: prefix.utf8), name.utf8.count > suffix.utf8.count,
      let number = UInt64(name.dropFirst(prefix.count).dropLast(suffix.count), radix: 16)
    else { return false }
    return self.name(number) == name
  }
}

// MARK: - Putting in

extension RecyclingBin {
  /// Counts a file that is about to come in, if there is room for it, or can be made.
  func reserve(_ file: DisplacedFile, _ limit: RecyclingLimit, _ control: ControlFile) -> Bool {
    guard isUsable, file.byteCount <= limit.bytes else { return false }
    if count(file, limit, control) { return true }
    // Fewer records could overwrite that one. If it cannot be unlinked, there is no room.
    guard let other = state.withLock({ $0.popHighest(SizeClass(file.byteCount), above: file.keyDigest) }),
      (try? directory.unlink(other.name)) == true
    else { return false }
    control.countRecycled(files: -1, bytes: -other.byteCount)
    return count(file, limit, control)
  }

  private func count(_ file: DisplacedFile, _ limit: RecyclingLimit, _ control: ControlFile) -> Bool {
    control.countRecycled(files: 1, bytes: file.byteCount)
    if let held = control.recycled, held.files <= limit.files, held.bytes <= limit.bytes { return true }
    control.countRecycled(files: -1, bytes: -file.byteCount)
    return false
  }

  /// Takes in a file by renaming it. There must be room reserved, which is given back if it fails.
  func put(
    _ name: String, in source: borrowing Directory, _ file: DisplacedFile, _ control: ControlFile
  ) throws(FileError) {
    let entry = Entry(
      name: Self.name(numbers.wrappingAdd(1, ordering: .relaxed).newValue), byteCount: file.byteCount,
      dead: DeadRecord(file, at: RecyclingMoment(control, at: directory.moment)), version: file.version)
    do {
      try source.rename(name, to: entry.name, in: directory)
    } catch {
      control.countRecycled(files: -1, bytes: -file.byteCount)
      throw error
    }
    shelve(entry)
  }

  /// A file lies in the bin, and may be taken.
  fileprivate func shelve(_ entry: Entry) {
    state.withLock { $0.push(entry) }
  }
}

// MARK: - Taking out

/// A file from the bin that is this store's to overwrite: leased, and still under its name in the bin.
struct RecycledFile: ~Copyable {
  let file: OpenFile
  let place: RecycledPlace
}

/// Where a file that was taken lies until it is published.
struct RecycledPlace: ~Copyable {
  let bin: RecyclingBin
  /// As it was when it was taken.
  let entry: RecyclingBin.Entry
  /// Of the record that the file is taken for.
  let path: RecordPath
  let control: ControlFile

  /// Whether the record may still follow what the file has held, now that it is about to be published.
  var isStillSafe: Bool {
    entry.dead?.mayPrecede(path, at: RecyclingMoment(control, at: bin.directory.moment)) ?? false
  }

  /// The file was not published, and stays in the bin.
  func giveBack() {
    control.countRecycled(files: 1, bytes: entry.byteCount)
    var entry = entry
    // It may have been written to.
    entry.dead = DeadRecord(keyDigest: path.digest, displacement: nil)
    entry.version = nil
    bin.shelve(entry)
  }

  /// The file was published in exchange for another one, which lies under its name now, and is counted already.
  ///
  /// - Parameter moment: before that.
  func didExchange(for file: DisplacedFile, since moment: RecyclingMoment) {
    let dead = DeadRecord(file, at: moment)
    bin.shelve(RecyclingBin.Entry(name: entry.name, byteCount: file.byteCount, dead: dead, version: file.version))
  }
}

extension RecyclingBin {
  /// Takes a file that is about as large, and whose old record cannot be taken for this one.
  ///
  /// - Parameter byteCount: of the file that is needed, header included.
  /// - Returns: nil if none of the tried files may be overwritten.
  func take(
    for path: RecordPath, byteCount: Int64, of ownership: FileOwnership, _ control: ControlFile
  ) throws(FileError) -> RecycledFile? {
    let sizeClass = SizeClass(byteCount)
    var triesLeft = Self.tries
    while isUsable, triesLeft > 0, let entry = try next(of: sizeClass, for: path, of: ownership, control) {
      triesLeft -= 1
      if let file = try take(entry, of: sizeClass, for: path, of: ownership, control) { return file }
    }
    return nil
  }

  private func take(
    _ entry: Entry, of sizeClass: SizeClass, for path: RecordPath, of ownership: FileOwnership,
    _ control: ControlFile
  ) throws(FileError) -> RecycledFile? {
    var (isWorn, isUntouched) = (false, false)
    let outcome = try directory.leaseFile(entry.name) { status in
      isWorn = ownership.isWorn(status)
      guard ownership.isRecyclable(status) else { return .unwanted }
      // A file that is taken is written to before it leaves this name.
      isUntouched = entry.version?.isCurrent(in: status) ?? false
      return isUntouched ? .untouched : .wanted
    }
    switch consume outcome {
    case .taken(let file, let byteCount):
      var current = entry
      if !isUntouched {
        // A file without a sound header may be anything: it stays, and grows old.
        guard let header = try? file.readHeader().get().validated(), let found = header.recyclableDigest else {
          return nil
        }
        // Another digest shows that another process has written to the file since this one put it there. An equal one
        // is this process's: others write only higher ones.
        let displacement = entry.dead?.keyDigest == found ? entry.dead?.displacement : nil
        current.dead = DeadRecord(keyDigest: found, displacement: displacement)
        current.byteCount = byteCount
        current.version = nil
      }
      guard SizeClass(byteCount) == sizeClass,
        current.dead?.mayPrecede(path, at: RecyclingMoment(control, at: directory.moment)) ?? false
      else {
        shelve(current)
        return nil
      }
      control.countRecycled(files: -1, bytes: -byteCount)
      let place = RecycledPlace(bin: self, entry: current, path: path, control: control)
      return RecycledFile(file: file, place: place)
    case .refused(.file):
      if isWorn { try discard(entry, control) }
      return nil
    case .refused(.attributes):
      try discard(entry, control)
      return nil
    case .refused(.leases):
      refuse()
      return nil
    }
  }

  /// Unlinks a file that no process may ever overwrite.
  private func discard(_ entry: Entry, _ control: ControlFile) throws(FileError) {
    if try directory.unlink(entry.name) { control.countRecycled(files: -1, bytes: -entry.byteCount) }
  }

  private func next(
    of sizeClass: SizeClass, for path: RecordPath, of ownership: FileOwnership, _ control: ControlFile
  ) throws(FileError) -> Entry? {
    func pop() -> Entry? {
      state.withLock { $0.pop(sizeClass, for: path, at: RecyclingMoment(control, at: directory.moment)) }
    }
    if let entry = pop() { return entry }
    guard isListingDue(control) else { return nil }
    try list(of: ownership)
    return pop()
  }

  /// Others may have put something there: looked at once a second at most.
  private func isListingDue(_ control: ControlFile) -> Bool {
    guard let held = control.recycled, held.files > 0 else { return false }
    let now = directory.moment
    return state.withLock { state in
      guard held.files > state.count, state.lastListing.map({ now - $0 >= 1000 }) ?? true else { return false }
      state.lastListing = now
      return true
    }
  }

  private func list(of ownership: FileOwnership) throws(FileError) {
    let known = state.withLock { state in
      Dictionary(state.entries.map { ($0.name, $0.dead?.keyDigest) }, uniquingKeysWith: { first, _ in first })
    }
    var listed = State()
    try forEachFile(of: ownership) { entry, status in
      // Another member of the group may overwrite it, this process may not.
      guard status.userID == ownership.ownerOfNewFiles else { return }
      var entry = entry
      // Another thread may have it in hand, and write to it. So it is no longer known when it lost its place.
      entry.dead = known[entry.name]?.map { DeadRecord(keyDigest: $0, displacement: nil) }
      listed.push(entry)
    }
    state.withLock { state in
      listed.lastListing = state.lastListing
      state = listed
    }
  }
}

// MARK: - Emptying

extension RecyclingBin {
  /// Calls `body` with every file that the bin has given its name.
  private func forEachFile(
    of ownership: FileOwnership, _ body: (Entry, Stat) throws(FileError) -> Void
  ) throws(FileError) {
    var entries = try directory.entries()
    while let found = try entries.next() {
      guard found.isNameExact, Self.isName(found.name),
        let status = try directory.status(of: found.name), status.type == .regular, ownership.owns(status)
      else { continue }
      try body(Entry(name: found.name, byteCount: status.size), status)
    }
  }

  /// What it holds.
  func contents(of ownership: FileOwnership) throws(FileError) -> (files: Int64, bytes: Int64) {
    var held: (files: Int64, bytes: Int64) = (0, 0)
    try forEachFile(of: ownership) { entry, _ in
      held.files += 1
      held.bytes.saturatingAdd(entry.byteCount)
    }
    return held
  }

  /// Unlinks files that have lain there for a while, and counts what is left.
  ///
  /// - Parameters:
  ///   - age: since they came in or were last written to, in nanoseconds; nil for all files.
  ///   - limit: what may be left; the rest goes, in no order.
  func empty(
    olderThan age: Int64?, to limit: RecyclingLimit?, dryRun: Bool = false, of ownership: FileOwnership,
    _ control: ControlFile?
  ) throws(FileError) -> (removed: BlobStore.RemovalReport, left: BlobStore.RemovalReport) {
    let now = SystemClock.unixNanoseconds()
    let start = control?.recycled
    var removed = BlobStore.RemovalReport()
    var left = BlobStore.RemovalReport()
    try forEachFile(of: ownership) { (entry, status) throws(FileError) in
      let isOld = age.map { now.saturatingSubtracting(status.changeNanoseconds) > $0 } ?? true
      let fits =
        left.files < limit?.files ?? .max && left.bytes.saturatingAdding(entry.byteCount) <= limit?.bytes ?? .max
      if fits, !isOld {
        left.files += 1
        left.bytes.saturatingAdd(entry.byteCount)
        return
      }
      if !dryRun, try !directory.unlink(entry.name) { return }
      removed.files += 1
      removed.bytes.saturatingAdd(entry.byteCount)
    }
    // The remaining files are found again by a listing.
    if !dryRun, removed.files > 0 { state.withLock { $0 = State() } }
    if !dryRun, let start { control?.correctRecycled(to: left, since: start) }
    return (removed, left)
  }
}

#if DEBUG
  extension RecyclingBin {
    /// Traps where an invariant does not hold. For tests; O(*n*).
    func checkInvariants() { state.withLock { $0.checkInvariants() } }
  }
#endif
