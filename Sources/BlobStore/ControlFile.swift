internal import BlobRecord
internal import Logging
internal import PosixFiles
internal import Synchronization
internal import SystemPackage

/// `.blobcache` at the root, which the processes that share a directory have in common: the locks of the stripes, and
/// in shared memory the generations, the counters and the hint. Nothing in it cannot be rebuilt.
final class ControlFile: Sendable {
  static let name = ".blobcache"

  private let file: OpenFile
  /// nil where the file could not be mapped, or is no version of ours: locks work all the same.
  private let map: MappedFile?
  private let hasLeftHint = Atomic(false)

  private init(file: consuming OpenFile, map: consuming MappedFile?) {
    self.file = file
    self.map = map
  }

  /// Tries to lock a stripe for this open file.
  ///
  /// System calls: `fcntl(2)`, `fstat(2)`.
  ///
  /// - Returns: nil if the file was deleted, so that its locks bind nobody: open it again.
  func tryLock(_ bytes: Range<Int64>) throws -> Bool? {
    guard try file.tryLock(bytes: bytes) else { return false }
    var isTaken = false
    // However the look at the file ends, a lock that is not handed out must not stay: the file is open as long as the
    // process lives, and everybody else would wait for it.
    defer { if !isTaken { unlock(bytes) } }
    isTaken = try file.status().linkCount > 0
    return isTaken ? true : nil
  }

  /// Whether the file has lost its name, so that what is in it concerns nobody.
  func isDeleted() throws -> Bool {
    try file.status().linkCount == 0
  }

  func unlock(_ bytes: Range<Int64>) {
    // Fails only for a descriptor that is none, or a range that is none. If it did, the lock would go with the process.
    try? file.unlock(bytes: bytes)
  }
}

// MARK: - Opening

extension ControlFile {
  /// Opens the control file of a directory, if there is one.
  static func open(in root: RootDirectory.Opened, logger: Logger) throws -> ControlFile? {
    switch try root.directory.openFile(name, for: .readWrite) {
    case .absent: return nil
    case .notRegular:
      throw BlobStoreError(
        .foreignFile, "something that is no file lies where the control file belongs",
        path: root.directory.path.appending(name))
    case .regular(let file, let status):
      let map = try mapping(of: file, byteCount: status.size, logger)
      return ControlFile(file: file, map: map)
    }
  }

  /// - Returns: nil, with a warning, where the file cannot have generations and counters for any process. Where only
  ///   this process cannot map it, that is an error: it must change nothing, for the others would not notice.
  private static func mapping(
    of file: borrowing OpenFile, byteCount: Int64, _ logger: Logger
  ) throws -> MappedFile? {
    func without(_ reason: String) {
      logger.warning("\(file.location.path): no generations and no counters: \(reason)")
    }
    guard try !file.isRemote() else {
      without("a network file system")
      return nil
    }
    guard byteCount == Int64(ControlLayout.byteCount) else {
      without("another version's file, or a damaged one")
      return nil
    }
    let map: MappedFile
    do {
      map = try file.map(byteCount: ControlLayout.byteCount)
    } catch {
      guard error.errno == .operationNotSupportedByDevice || error.errno == .invalidArgument else { throw error }
      without("the file system cannot map files")
      return nil
    }
    let magic = map.withWord(at: ControlLayout.magicOffset, as: UInt64.self) { $0.load(ordering: .relaxed) }
    let version = map.withWord(at: ControlLayout.versionOffset, as: UInt64.self) { $0.load(ordering: .relaxed) }
    guard magic == ControlLayout.magic, version == ControlLayout.version else {
      without("another version's file, or a damaged one")
      return nil
    }
    return map
  }

  /// Makes the control file of a directory, whole before it has its name.
  ///
  /// - Returns: false if another process was faster.
  static func make(in root: RootDirectory.Opened, names: TemporaryNames) throws -> Bool {
    var temporary = try TemporaryFile(in: root.directory.reopened(), of: root, names: names)
    try temporary.file.allocate(byteCount: Int64(ControlLayout.byteCount))
    // Generations begin at random numbers, so that a memory tier never takes a new file's for an old one's.
    var generator = SystemRandomNumberGenerator()
    var words = [UInt64](repeating: 0, count: ControlLayout.byteCount / 8)
    words[ControlLayout.magicOffset / 8] = ControlLayout.magic
    words[ControlLayout.versionOffset / 8] = ControlLayout.version
    for index in ControlLayout.generationsOffset / 8..<words.count {
      words[index] = generator.next() & ~0x0000_0001_0000_0001  // even: nothing is being changed
    }
    try temporary.file.write(unsafe words.span.bytes, at: 0)
    if let published = try temporary.publishIfAbsent(as: name) { return published }
    return try temporary.publishByLink(as: name)
  }
}

// MARK: - Generations

extension ControlFile {
  /// The number that changes whenever the payload of a key with this digest may change; odd while one is changing, or
  /// after a process died changing it. nil where there are no generations.
  func generation(of digest: UInt64) -> UInt32? {
    guard map != nil else { return nil }
    return map!.withWord(at: ControlLayout.generationOffset(of: digest), as: UInt32.self) {
      $0.load(ordering: .acquiring)
    }
  }

  /// Runs a change of a key's payload, its generation odd meanwhile. Under the key's stripe, which keeps others off the
  /// generation too.
  func changingPayload<Result>(of digest: UInt64, _ change: () throws -> Result) rethrows -> Result {
    guard map != nil else { return try change() }
    let offset = ControlLayout.generationOffset(of: digest)
    let odd = map!.withWord(at: offset, as: UInt32.self) { generation in
      let before = generation.load(ordering: .relaxed)
      // Odd already, if a process died here: it stays odd, and changes all the same.
      let odd = before % 2 == 0 ? before &+ 1 : before &+ 2
      // A reader that sees the change's effect on disk must see this too; a system call lies between.
      generation.store(odd, ordering: .sequentiallyConsistent)
      return odd
    }
    defer { map!.withWord(at: offset, as: UInt32.self) { $0.store(odd &+ 1, ordering: .sequentiallyConsistent) } }
    return try change()
  }
}

// MARK: - The hint

extension ControlFile {
  /// The hint's words as they lie: whether it is set, default expiration, size limit, naming, separation.
  func hintWords() -> [Int64]? {
    guard map != nil else { return nil }
    return ControlLayout.hintOffsets.map { counter($0) { $0.load(ordering: .relaxed) } }
  }

  /// Sets the hint, once for as long as the file is open.
  func leaveHint(_ hint: DirectoryHint) {
    guard !hasLeftHint.load(ordering: .relaxed), !hasLeftHint.exchange(true, ordering: .relaxed) else { return }
    if self.hint != hint { setHint(hint) }
  }

  func setHintWords(_ words: [Int64]) {
    guard map != nil else { return }
    // The first word, last: it says that the others are there.
    for (offset, word) in zip(ControlLayout.hintOffsets, words).reversed() {
      counter(offset) { $0.store(word, ordering: .releasing) }
    }
  }
}

// MARK: - Counters

extension ControlFile {
  private func counter<Result>(_ offset: Int, _ body: (borrowing Atomic<Int64>) -> Result) -> Result {
    map!.withWord(at: offset, as: Int64.self, body)
  }

  /// Counts a change of a record file: what was there before, and what is there now.
  func count(from before: RecordSize?, to after: RecordSize?) {
    guard map != nil else { return }
    let delta = UsageEstimate(after) - UsageEstimate(before)
    func add(_ value: Int64, at offset: Int) {
      if value != 0 { counter(offset) { _ = $0.wrappingAdd(value, ordering: .relaxed) } }
    }
    add(delta.records, at: ControlLayout.recordsOffset)
    add(delta.bytes, at: ControlLayout.bytesOffset)
    add(delta.lockedRecords, at: ControlLayout.lockedRecordsOffset)
    add(delta.lockedBytes, at: ControlLayout.lockedBytesOffset)
  }

  /// The counters as they are; they mean something once they are known.
  var counters: UsageEstimate? {
    guard map != nil else { return nil }
    func value(at offset: Int) -> Int64 { counter(offset) { $0.load(ordering: .relaxed) } }
    return UsageEstimate(
      records: value(at: ControlLayout.recordsOffset), bytes: value(at: ControlLayout.bytesOffset),
      lockedRecords: value(at: ControlLayout.lockedRecordsOffset),
      lockedBytes: value(at: ControlLayout.lockedBytesOffset))
  }

  /// Whether a full enumeration has counted the directory since the file was made.
  var countersAreKnown: Bool {
    map != nil && counter(ControlLayout.countersAreKnownOffset) { $0.load(ordering: .acquiring) } == 1
  }

  /// Corrects the counters by a full enumeration.
  ///
  /// Of the changes made during the enumeration it has met some and not others, evenly, as far as anyone can know: so
  /// half of them are added to what it found.
  ///
  /// - Parameter start: the counters when it began.
  func correctCounters(to found: UsageEstimate, since start: UsageEstimate) {
    guard let now = counters else { return }
    let during = now - start
    func add(_ value: Int64, at offset: Int) { counter(offset) { _ = $0.wrappingAdd(value, ordering: .relaxed) } }
    add(found.records &+ during.records / 2 &- now.records, at: ControlLayout.recordsOffset)
    add(found.bytes &+ during.bytes / 2 &- now.bytes, at: ControlLayout.bytesOffset)
    add(found.lockedRecords &+ during.lockedRecords / 2 &- now.lockedRecords, at: ControlLayout.lockedRecordsOffset)
    add(found.lockedBytes &+ during.lockedBytes / 2 &- now.lockedBytes, at: ControlLayout.lockedBytesOffset)
    counter(ControlLayout.countersAreKnownOffset) { $0.store(1, ordering: .releasing) }
  }
}
