internal import BlobRecord
internal import Locks
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The hidden directory with the files of dead records, which stores overwrite.
///
/// Most of the cost of a small file is to allocate and free its inode and blocks. All processes that share the cache
/// share the bin. These rules separate processes and readers:
/// - A name in the bin refers to a dead file, or to a file that is being overwritten and was never published with its
///   new content. Any process may therefore unlink it: at worst a store finds its file missing and restarts.
/// - A store overwrites a file under a write lease (`WriteLease`), so neither a late reader of the old record nor
///   another store has it open or mapped. A reader that opens the file by its old name gets EWOULDBLOCK and retries.
/// - The last call before publication releases the lease, so a store that is stopped or dies in between does not
///   block readers. By then the file is complete and no longer written to. The generation of the key has changed too,
///   so a reader that opens the file only now notices.
/// - The store keeps the file open until it is published, so no other process can lease it.
/// - Each name is issued once. Only an exchange assigns it to a second file, the displaced one. A store therefore
///   first checks, with the file locked, that the name still refers to the file. Alternatively, it checks that the
///   file is unchanged since this process moved it, because a taken file is written to before it leaves its name.
/// - The old record of a file determines which records may follow (`DeadRecord`), because a power cut may restore it.
///
/// The control file counts the files and bytes for all processes. Each process remembers the files that it moved to
/// the bin, and finds others with a listing if it needs one.
final class RecyclingBin: Sendable {
  static let directoryName = ".recycled"

  /// A file in the bin, in its last known state.
  struct Entry {
    /// Stored, although it takes 290 bytes, because composing it again took each store 1,300 instructions.
    let name: String
    var byteCount: Int64
    /// The last record, or `nil` until this process has read the header.
    var dead: DeadRecord?
    /// The version that this process moved to the bin, or `nil` if unknown or if later writes could go unnoticed.
    var version: FileVersion?
  }

  private struct State {
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
  /// The length ensures that few names share a block of the directory, which ext4 reads three times for a new name.
  /// With short names that took a fifth of the time of a removal.
  private static let suffix = String(repeating: "-", count: 224)
  /// The number of files that a store tries before it creates a new one.
  private static let tries = 4

  let directory: Directory
  private let state = Lock(State())
  private let isRefused = Atomic(false)
  /// The last number, random at first, with at most thirteen digits, so that the prefixed number needs no allocation.
  private let numbers = Atomic(UInt64.random(in: 0..<1 << 51))

  init(_ directory: consuming Directory) {
    self.directory = directory
  }

  /// A Boolean value that indicates whether leases and renames work. Otherwise files would never be reused.
  var isUsable: Bool { !isRefused.load(ordering: .relaxed) }

  func refuse() { isRefused.store(true, ordering: .relaxed) }

  private static func name(_ number: UInt64) -> String { prefix + String(number, radix: 16) + suffix }

  /// Returns whether the bin creates such names. Files with other names are foreign.
  private static func isName(_ name: String) -> Bool {
    guard name.utf8.starts(with: prefix.utf8), name.utf8.count > suffix.utf8.count,
      let number = UInt64(name.dropFirst(prefix.count).dropLast(suffix.count), radix: 16)
    else { return false }
    return self.name(number) == name
  }
}

// MARK: - Adding files

extension RecyclingBin {
  /// Counts a file that will be moved to the bin, if the bin has space or another file can be removed.
  func reserve(_ file: DisplacedFile, _ limit: RecyclingLimit, _ control: ControlFile) -> Bool {
    guard isUsable, file.byteCount <= limit.bytes else { return false }
    if count(file, limit, control) { return true }
    // Removes a file that fewer records could overwrite. If it cannot be unlinked, the bin has no space.
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

  /// Moves a file to the bin. The space has to be reserved, and is released on failure.
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

  fileprivate func shelve(_ entry: Entry) {
    state.withLock { $0.push(entry) }
  }
}

// MARK: - Taking files

/// A file from the bin that this store may overwrite: leased, and still under its name in the bin.
struct RecycledFile: ~Copyable {
  let file: OpenFile
  let place: RecycledPlace
}

/// The place of a file that was taken, until it is published.
struct RecycledPlace: ~Copyable {
  let bin: RecyclingBin
  let entry: RecyclingBin.Entry
  let path: RecordPath
  let control: ControlFile

  /// A Boolean value that indicates whether the record may follow the old one, checked again before publication.
  var isStillSafe: Bool {
    entry.dead?.mayPrecede(path, at: RecyclingMoment(control, at: bin.directory.moment)) ?? false
  }

  /// Returns the file to the bin, because it was not published.
  func giveBack() {
    control.countRecycled(files: 1, bytes: entry.byteCount)
    var entry = entry
    entry.dead = DeadRecord(keyDigest: path.digest, displacement: nil)
    entry.version = nil
    bin.shelve(entry)
  }

  /// Records that the file was exchanged, after `moment`, for a file that has its name and is already counted.
  func didExchange(for file: DisplacedFile, since moment: RecyclingMoment) {
    let dead = DeadRecord(file, at: moment)
    bin.shelve(RecyclingBin.Entry(name: entry.name, byteCount: file.byteCount, dead: dead, version: file.version))
  }
}

extension RecyclingBin {
  /// Takes a file of about `byteCount` bytes, header included, whose old record cannot be confused with the new one.
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
      // A file that another store takes is written to before it leaves this name.
      isUntouched = entry.version?.isCurrent(in: status) ?? false
      return isUntouched ? .untouched : .wanted
    }
    switch consume outcome {
    case .taken(let file, let byteCount):
      var current = entry
      if !isUntouched {
        // A file without a valid header is left in the bin and removed by age, because its content is unknown.
        guard let header = try? file.readHeader().get().validated(), let found = header.recyclableDigest else {
          return nil
        }
        // A different digest shows that another process has written to the file since this one moved it to the bin.
        // An equal digest is this process's, because others write only higher ones.
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

  /// Returns whether to list files of other processes, at most once a second.
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
      // Only the file's owner may overwrite it, although other members of the group may have stored it.
      guard status.userID == ownership.ownerOfNewFiles else { return }
      var entry = entry
      // Another thread may be writing to the file, so the time of its displacement is no longer known.
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

  func contents(of ownership: FileOwnership) throws(FileError) -> (files: Int64, bytes: Int64) {
    var held: (files: Int64, bytes: Int64) = (0, 0)
    try forEachFile(of: ownership) { entry, _ in
      held.files += 1
      held.bytes.saturatingAdd(entry.byteCount)
    }
    return held
  }

  /// Unlinks old and excess files, and counts the remaining ones.
  ///
  /// - Parameters:
  ///   - age: The minimum age to remove, in nanoseconds since the last change, or `nil` for all files.
  ///   - limit: The limit for the remaining files, beyond which arbitrary ones are removed.
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
    // The next listing finds the remaining files again.
    if !dryRun, removed.files > 0 { state.withLock { $0 = State() } }
    if !dryRun, let start { control?.correctRecycled(to: left, since: start) }
    return (removed, left)
  }
}

#if DEBUG
  extension RecyclingBin {
    /// Traps if an invariant is violated. For tests; O(*n*).
    func checkInvariants() { state.withLock { $0.checkInvariants() } }
  }
#endif
