internal import Locks
internal import PosixFiles
internal import Synchronization
internal import SystemPackage

/// The hidden directory that the files of dead records wait in, to be overwritten by stores: what makes a small file
/// expensive is not to write it but to allocate and free its inode and blocks.
///
/// All processes that share the cache share the bin. What keeps them, and readers, from each other:
/// - A name in the bin leads to a dead file, or to one that is being overwritten and has never been published as what it
///   is becoming. So whoever likes may unlink it: at worst a store finds its file gone and begins again.
/// - To overwrite a file takes a write lease of it (`WriteLease`): nobody else has it open or mapped, whether a reader from
///   the time when it was a record, or another store. While it is overwritten, a reader whose look at the record's old
///   name led here gets EWOULDBLOCK and looks again.
/// - The lease is released by the last call before the one that publishes the file, never later: a store that is stopped
///   or dies in between keeps no reader from the record. By then the file is whole, and not written to any more. The generation
///   of the key has changed too: a reader whose look led here, and who opens the file only now, notices.
/// - The store keeps the file open until it is published, so nobody else can lease it.
/// - Names are never given twice, but that an exchange leaves the displaced file under the name of the one that took its
///   place: nobody overwrites by a name that he looked up before he had the lease.
///
/// The count and the bytes of what it holds are in the control file, for all; which files these are, each process
/// remembers for those it has put there itself, and finds out for the others when it needs one.
final class RecyclingBin: Sendable {
  static let directoryName = ".recycled"

  /// A file in the bin, as it was when it was last seen.
  struct Entry {
    let number: UInt64
    var byteCount: Int64

    var name: String { RecyclingBin.prefix + String(number, radix: 16) }
  }

  private struct State {
    /// One for each size class. The file that came last is the first to go: its bytes are still in the processor's caches,
    /// and what is not needed grows old.
    private var shelves = [[Entry]](repeating: [], count: SizeClass.count)
    private(set) var count: Int64 = 0
    var lastListing: Int64?

    mutating func push(_ entry: Entry) {
      shelves[SizeClass(entry.byteCount).number].append(entry)
      count += 1
    }

    mutating func pop(_ sizeClass: SizeClass) -> Entry? {
      guard let entry = shelves[sizeClass.number].popLast() else { return nil }
      count -= 1
      return entry
    }
  }

  private static let prefix = "f-"
  /// How many files are tried before a new one is made instead.
  private static let tries = 4

  let directory: Directory
  private let state = Lock(State())
  private let isRefused = Atomic(false)
  /// From a random start. Of up to thirteen digits: such a name is a string without an allocation.
  private let numbers = Atomic(UInt64.random(in: 0..<1 << 51))

  init(_ directory: consuming Directory) {
    self.directory = directory
  }

  /// False where leases or renames are refused: then files would wait for nothing.
  var isUsable: Bool { !isRefused.load(ordering: .relaxed) }

  /// Nothing comes in or goes out from now on.
  func refuse() { isRefused.store(true, ordering: .relaxed) }

  /// Names that the bin gives; whatever else lies there is foreign.
  private static func number(ofName name: String) -> UInt64? {
    guard name.utf8.starts(with: prefix.utf8), let number = UInt64(name.dropFirst(prefix.count), radix: 16) else {
      return nil
    }
    return Entry(number: number, byteCount: 0).name == name ? number : nil
  }
}

// MARK: - Putting in

extension RecyclingBin {
  /// Counts a file that is about to come in, if there is room for it.
  func reserve(_ byteCount: Int64, _ limit: RecyclingLimit, _ control: ControlFile) -> Bool {
    guard isUsable, byteCount <= limit.bytes else { return false }
    control.countRecycled(files: 1, bytes: byteCount)
    if let held = control.recycled, held.files <= limit.files, held.bytes <= limit.bytes { return true }
    control.countRecycled(files: -1, bytes: -byteCount)
    return false
  }

  /// Takes in a file by renaming it. There must be room reserved, which is given back if it fails.
  func put(
    _ name: String, in source: borrowing Directory, _ byteCount: Int64, _ control: ControlFile
  ) throws(FileError) {
    let entry = Entry(number: numbers.wrappingAdd(1, ordering: .relaxed).newValue, byteCount: byteCount)
    do {
      try source.rename(name, to: entry.name, in: directory)
    } catch {
      control.countRecycled(files: -1, bytes: -byteCount)
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
struct RecycledPlace {
  let bin: RecyclingBin
  let entry: RecyclingBin.Entry
  let control: ControlFile

  /// The file was not published, and stays in the bin.
  func giveBack() {
    control.countRecycled(files: 1, bytes: entry.byteCount)
    bin.shelve(entry)
  }

  /// The file was published in exchange for another one, which lies under its name now, and is counted already.
  func didExchange(for byteCount: Int64) {
    bin.shelve(RecyclingBin.Entry(number: entry.number, byteCount: byteCount))
  }
}

extension RecyclingBin {
  /// Takes a file that is about as large.
  ///
  /// - Parameter byteCount: of the file that is needed, header included.
  /// - Returns: nil if there is none that may be overwritten.
  func take(
    for byteCount: Int64, of root: RootDirectory.Opened, _ control: ControlFile
  ) throws(FileError) -> RecycledFile? {
    let sizeClass = SizeClass(byteCount)
    var triesLeft = Self.tries
    while isUsable, triesLeft > 0, let entry = try next(of: sizeClass, of: root, control) {
      triesLeft -= 1
      if let file = try take(entry, for: sizeClass, of: root, control) { return file }
    }
    return nil
  }

  private func take(
    _ entry: Entry, for sizeClass: SizeClass, of root: RootDirectory.Opened, _ control: ControlFile
  ) throws(FileError) -> RecycledFile? {
    switch try directory.leaseFile(entry.name, if: { root.isRecyclable($0) }) {
    case .taken(let file, let status):
      let current = Entry(number: entry.number, byteCount: status.size)
      guard SizeClass(status.size) == sizeClass else {
        // Another process has exchanged it.
        shelve(current)
        return nil
      }
      control.countRecycled(files: -1, bytes: -status.size)
      return RecycledFile(file: file, place: RecycledPlace(bin: self, entry: current, control: control))
    case .refused(.file): return nil
    case .refused(.leases):
      refuse()
      return nil
    }
  }

  private func next(
    of sizeClass: SizeClass, of root: RootDirectory.Opened, _ control: ControlFile
  ) throws(FileError) -> Entry? {
    if let entry = state.withLock({ $0.pop(sizeClass) }) { return entry }
    guard isListingDue(control) else { return nil }
    try list(of: root)
    return state.withLock { $0.pop(sizeClass) }
  }

  /// Others may have put something there: looked at once a second at most.
  private func isListingDue(_ control: ControlFile) -> Bool {
    guard let held = control.recycled, held.files > 0 else { return false }
    let now = SystemClock.coarseMilliseconds()
    return state.withLock { state in
      guard held.files > state.count, state.lastListing.map({ now - $0 >= 1000 }) ?? true else { return false }
      state.lastListing = now
      return true
    }
  }

  private func list(of root: RootDirectory.Opened) throws(FileError) {
    var listed = State()
    try forEachFile(of: root) { entry, _ in listed.push(entry) }
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
    of root: RootDirectory.Opened, _ body: (Entry, Stat) throws(FileError) -> Void
  ) throws(FileError) {
    var entries = try directory.entries()
    while let found = try entries.next() {
      guard found.isNameExact, let number = Self.number(ofName: found.name),
        let status = try directory.status(of: found.name), status.type == .regular, root.owns(status)
      else { continue }
      try body(Entry(number: number, byteCount: status.size), status)
    }
  }

  /// What it holds.
  func contents(of root: RootDirectory.Opened) throws(FileError) -> (files: Int64, bytes: Int64) {
    var held: (files: Int64, bytes: Int64) = (0, 0)
    try forEachFile(of: root) { entry, _ in
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
    olderThan age: Int64?, to limit: RecyclingLimit?, dryRun: Bool = false, of root: RootDirectory.Opened,
    _ control: ControlFile?
  ) throws(FileError) -> (removed: RemovalReport, left: RemovalReport) {
    let now = SystemClock.unixNanoseconds()
    let start = control?.recycled
    var removed = RemovalReport()
    var left = RemovalReport()
    try forEachFile(of: root) { (entry, status) throws(FileError) in
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
    // What is left is found again.
    if !dryRun, removed.files > 0 { state.withLock { $0 = State() } }
    if !dryRun, let start { control?.correctRecycled(to: left, since: start) }
    return (removed, left)
  }
}

// MARK: - Counting

extension ControlFile {
  /// Counts what came into the recycling bin, or left it.
  func countRecycled(files: Int64, bytes: Int64) {
    guard isMapped else { return }
    counter(ControlLayout.recycledFilesOffset) { _ = $0.wrappingAdd(files, ordering: .relaxed) }
    counter(ControlLayout.recycledBytesOffset) { _ = $0.wrappingAdd(bytes, ordering: .relaxed) }
  }

  /// What the recycling bin holds, by the counts; nil where there are none.
  var recycled: (files: Int64, bytes: Int64)? {
    guard isMapped else { return nil }
    return (word(at: ControlLayout.recycledFilesOffset), word(at: ControlLayout.recycledBytesOffset))
  }

  /// Corrects the counts by a listing: stores that died have left them too low. What others added during the listing
  /// is taken for not met.
  fileprivate func correctRecycled(to found: RemovalReport, since start: (files: Int64, bytes: Int64)) {
    guard let now = recycled else { return }
    countRecycled(
      files: found.files &+ max(now.files &- start.files, 0) &- now.files,
      bytes: found.bytes &+ max(now.bytes &- start.bytes, 0) &- now.bytes)
  }
}
