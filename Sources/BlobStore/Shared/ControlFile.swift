internal import BlobRecord
internal import Locks
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// `.blobcache` at the root, which the processes that share a directory have in common: the locks of the stripes, and
/// in shared memory the generations, the counters and the hint. Nothing in it cannot be rebuilt.
final class ControlFile: Sendable {
  static let name = ".blobcache"

  private let file: OpenFile
  /// nil where the file could not be mapped, or is no version of ours: locks work all the same.
  private let map: MappedFile?
  /// Read once: nothing changes it.
  private let generationBase: UInt64
  /// Whether the content is no version's, so that the next change is to replace the file. Its locks count until then.
  let isDamaged: Bool
  /// Whose files are records in the directory.
  let owners: FileOwners
  private let hasLeftHint = Atomic(false)
  /// Of those under way, this process's (`hasHeaderChanges`).
  let headerChangesHere = Atomic(0)
  /// Those that keep readers from locking it, where it has others; nil once they were given.
  private let permissionsToGive: Lock<FilePermissions?>
  /// Whether it belongs to a user who is not believed: that it lies there proves nothing.
  let mayBePlanted: Bool

  private init(
    file: consuming OpenFile, _ status: Stat, of root: RootDirectory.Opened, map: consuming MappedFile?, isDamaged: Bool
  ) {
    let permissions = status.permissions.withoutReaders
    let mayChangeIt = status.userID == root.owners.caller || (root.owners.caller.rawValue == 0 && root.owns(status))
    permissionsToGive = Lock(mayChangeIt && permissions != status.permissions ? permissions : nil)
    mayBePlanted = if case .owner = root.owners.distrust(of: status) { true } else { false }
    self.file = file
    // Even, whatever lies there: odd means that something is being changed.
    generationBase =
      map?.withWord(at: ControlLayout.generationBaseOffset, as: UInt64.self) { $0.load(ordering: .relaxed) & ~1 } ?? 0
    self.map = map
    self.isDamaged = isDamaged
    owners = root.owners
  }

  /// Tries to lock a stripe for this open file.
  ///
  /// System calls: `fcntl(2)`, `fstat(2)`.
  ///
  /// - Returns: nil if the file was deleted or replaced, so that its locks bind nobody: open it again.
  func tryLock(_ bytes: Range<Int64>, in root: RootDirectory.Opened) throws -> Bool? {
    do {
      guard try file.tryLock(bytes: bytes) else { return false }
    } catch {
      guard error.errno == .staleNFSFileHandle else { throw error }
      return nil
    }
    var isTaken = false
    // However the look at the file ends, a lock that is not handed out must not stay: the file is open as long as the
    // process lives, and everybody else would wait for it.
    defer { if !isTaken { unlock(bytes) } }
    // One that was moved away is noticed a second later.
    isTaken = try isCurrent(in: root, isTrusted: true)
    return isTaken ? true : nil
  }

  /// Whether the file still has its name. If not, what is in it concerns nobody.
  ///
  /// - Parameter isTrusted: spares a look at the name in nearly all cases. A file that was moved away is current then.
  func isCurrent(in root: RootDirectory.Opened, isTrusted: Bool = false) throws -> Bool {
    guard let status = try existingStatus() else { return false }
    // A file with another name, such as a backup's, lives on when it loses this one. So does one that is damaged and
    // somebody's who has linked it here: it is replaced.
    if isTrusted, status.linkCount == 1, !isDamaged { return true }
    return try Self.isLinked(status, in: root)
  }

  /// nil if another host of a network file system has deleted the file.
  private func existingStatus() throws(FileError) -> Stat? {
    do {
      return try file.status()
    } catch {
      guard error.errno == .staleNFSFileHandle else { throw error }
      return nil
    }
  }

  private static func isLinked(_ status: Stat, in root: RootDirectory.Opened) throws -> Bool {
    guard let linked = try root.directory.status(of: name) else { return false }
    return linked.deviceID == status.deviceID && linked.inode == status.inode
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
      switch try Content(of: file, status, in: root) {
      case .current(let map): return ControlFile(file: file, status, of: root, map: map, isDamaged: false)
      case .locksOnly(let reason, let level):
        logger.log(level: level, "\(file.location.path): no generations and no counters: \(reason)")
        return ControlFile(file: file, status, of: root, map: nil, isDamaged: false)
      case .damaged(let reason):
        logger.warning("\(file.location.path): \(reason); the next change replaces it")
        return ControlFile(file: file, status, of: root, map: nil, isDamaged: true)
      }
    }
  }

  /// What a file that has the control file's name is.
  private enum Content: ~Copyable {
    case current(MappedFile)
    /// It cannot have generations and counters for any process.
    case locksOnly(reason: String, level: Logger.Level = .warning)
    /// To be replaced: of no version, which is what a power cut may leave, or open to too many.
    case damaged(reason: String = "damaged")

    /// - Throws: where only this process cannot map it. It must change nothing then, for the others would not notice.
    init(of file: borrowing OpenFile, _ status: Stat, in root: RootDirectory.Opened) throws {
      // Who may truncate what is mapped ends the processes that have it mapped, and what is in it says what they like.
      let isOutgrown = root.isOutgrown(control: status)
      if !isOutgrown, let distrust = root.owners.distrust(of: status) {
        // In a sticky directory in which others may make names, it is so for whoever made it.
        self = .locksOnly(reason: "\(distrust)", level: root.isSharedByStrangers ? .notice : .warning)
        return
      }
      if let hazard = try file.mappingHazard() {
        self = .locksOnly(reason: hazard.reason, level: hazard == .needsRoom ? .info : .warning)
        return
      }
      // Read before it is mapped: of another version, it may be too short to be.
      let (magic, version) = try file.magicAndVersion()
      guard magic == ControlLayout.magic, version >= ControlLayout.version else {
        self = .damaged()
        return
      }
      guard version == ControlLayout.version else {
        self = .locksOnly(reason: "version \(version) of it is later than this program")
        return
      }
      guard status.size == Int64(ControlLayout.byteCount) else {
        self = .damaged()
        return
      }
      guard !isOutgrown else {
        self = .damaged(reason: "more users may write to it than to the directory, or might once")
        return
      }
      do {
        self = .current(try file.map(byteCount: ControlLayout.byteCount))
      } catch {
        guard error.errno == .operationNotSupportedByDevice || error.errno == .invalidArgument else { throw error }
        self = .locksOnly(reason: "the file system cannot map files")
      }
    }
  }

  /// Makes the control file of a directory, whole before it has its name.
  ///
  /// - Returns: false if another process was faster.
  static func make(in root: RootDirectory.Opened, names: TemporaryNames) throws -> Bool {
    var temporary = try makeUnpublished(in: root, names: names)
    return try publish(&temporary)
  }

  /// - Returns: false if another process was faster.
  private static func publish(_ temporary: inout FileDraft) throws -> Bool {
    if let published = try temporary.commit(as: name) { return published }
    return try temporary.link(as: name)
  }

  /// Makes an empty control file, where there is no room for more: its locks are all it has, until it is replaced.
  ///
  /// - Throws: where there is no room for the name of a file either.
  static func makeEmpty(in root: RootDirectory.Opened, names: TemporaryNames) throws {
    var temporary = try FileDraft(
      in: OpenSubdirectory(root.directory.reopened()), of: root, names: names, as: .control)
    _ = try publish(&temporary)
  }

  /// Keeps those from its locks who may not change the directory, if it was made when they could open it.
  func shutReadersOut(_ logger: Logger) {
    let permissions = permissionsToGive.withLock { permissions in
      defer { permissions = nil }
      return permissions
    }
    guard let permissions else { return }
    do {
      try file.setPermissions(permissions)
    } catch {
      logger.warning("\(BlobStoreError(error, operation: "keep readers from the locks", key: nil))")
    }
  }

  /// Puts a new control file in the place of one that is damaged.
  ///
  /// Everybody who changes something holds a byte of the damaged file meanwhile; so all its bytes are taken first, by a
  /// description of its own, which keeps the threads of this process out too.
  ///
  /// - Returns: false if somebody is changing something: try again. True also if there is nothing left to replace.
  static func replaceDamaged(
    in root: RootDirectory.Opened, names: TemporaryNames, _ logger: Logger
  ) throws -> Bool {
    guard case .regular(let file, _) = try root.directory.openFile(name, for: .readWrite) else { return true }
    guard try file.tryLock(bytes: ControlLayout.lockedBytes) else { return false }
    // Looked at again, now that nobody can come between.
    let status = try file.status()
    guard try isLinked(status, in: root), case .damaged = try Content(of: file, status, in: root) else {
      return true
    }
    var temporary = try makeUnpublished(in: root, names: names)
    try temporary.replace(name)
    logger.warning("\(file.location.path): was damaged, and is replaced")
    return true
  }

  private static func makeUnpublished(
    in root: RootDirectory.Opened, names: TemporaryNames
  ) throws -> FileDraft {
    let temporary = try FileDraft(
      in: OpenSubdirectory(root.directory.reopened()), of: root, names: names, as: .control)
    try temporary.file.allocate(byteCount: Int64(ControlLayout.byteCount))
    // What is allocated and not written reads as zeros, and costs no write. A random base is added to what lies there, so that a
    // memory tier never takes a new file's generations for an old one's: 62 bits, which leaves room for all that is added.
    var words = [UInt64](repeating: 0, count: ControlLayout.generationsOffset / 8)
    words[ControlLayout.magicOffset / 8] = ControlLayout.magic
    words[ControlLayout.versionOffset / 8] = ControlLayout.version
    words[ControlLayout.generationBaseOffset / 8] = UInt64.random(in: 0..<1 << 62) & ~1
    try temporary.file.write(unsafe words.span.bytes, at: 0)
    return temporary
  }
}

extension MappingHazard {
  fileprivate var reason: String {
    switch self {
    case .incoherent: "a network file system"
    case .needsRoom: "the file system needs room to change what is mapped, and a full one would end the process"
    }
  }
}

extension OpenFile {
  /// The first two words of a control file; zeros for what is missing.
  fileprivate borrowing func magicAndVersion() throws(FileError) -> (magic: UInt64, version: UInt64) {
    try unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 2) { words throws(FileError) in
      unsafe words.initialize(repeating: 0)
      _ = try unsafe read(into: UnsafeMutableRawBufferPointer(words), at: 0)
      return unsafe (UInt64(littleEndian: words[0]), UInt64(littleEndian: words[1]))
    }
  }
}

// MARK: - Generations

extension ControlFile {
  /// The number that changes whenever the payload of a key with this digest may change; odd while one is changing, or
  /// after a process died changing it. nil where there are no generations.
  func generation(of digest: UInt64) -> UInt64? {
    guard map != nil else { return nil }
    let changes = map!.withWord(at: ControlLayout.generationOffset(of: digest), as: UInt32.self) {
      $0.load(ordering: .acquiring)
    }
    return generationBase &+ UInt64(changes)
  }

  /// A generation that is odd because a change is under way.
  struct OddGeneration {
    fileprivate let offset: Int
    fileprivate let value: UInt32
  }

  /// Makes a key's generation odd, for a change of its payload. Under the key's hold, which keeps others off it too.
  ///
  /// - Returns: nil where there are no generations.
  func beginChange(of digest: UInt64) -> OddGeneration? {
    guard map != nil else { return nil }
    let offset = ControlLayout.generationOffset(of: digest)
    return map!.withWord(at: offset, as: UInt32.self) { generation in
      let before = generation.load(ordering: .relaxed)
      // Odd already, if a process died here: it stays odd, and changes all the same.
      let odd = before % 2 == 0 ? before &+ 1 : before &+ 2
      // A reader that sees the change's effect on disk must see this too; a system call lies between.
      generation.store(odd, ordering: .sequentiallyConsistent)
      return OddGeneration(offset: offset, value: odd)
    }
  }

  /// Makes the generation even again, and another than before.
  func endChange(_ generation: OddGeneration) {
    map!.withWord(at: generation.offset, as: UInt32.self) {
      $0.store(generation.value &+ 1, ordering: .sequentiallyConsistent)
    }
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

// MARK: - Words

extension ControlFile {
  /// Whether there is memory to share; without, there are no words.
  var isMapped: Bool { map != nil }

  func word(at offset: Int) -> Int64 { counter(offset) { $0.load(ordering: .acquiring) } }

  func setWord(_ value: Int64, at offset: Int) { counter(offset) { $0.store(value, ordering: .releasing) } }

  func counter<Result>(_ offset: Int, _ body: (borrowing Atomic<Int64>) -> Result) -> Result {
    map!.withWord(at: offset, as: Int64.self, body)
  }
}

// MARK: - Counters

extension ControlFile {
  /// Counts a change of a record file: what was there before, and what is there now.
  ///
  /// - Returns: the counters afterwards; nil where there are none.
  @discardableResult
  func count(from before: RecordSize?, to after: RecordSize?) -> BlobStore.UsageEstimate? {
    guard map != nil else { return nil }
    let delta = BlobStore.UsageEstimate(after) - BlobStore.UsageEstimate(before)
    func add(_ value: Int64, at offset: Int) {
      if value != 0 { counter(offset) { _ = $0.wrappingAdd(value, ordering: .relaxed) } }
    }
    add(delta.records, at: ControlLayout.recordsOffset)
    add(delta.bytes, at: ControlLayout.bytesOffset)
    add(delta.lockedRecords, at: ControlLayout.lockedRecordsOffset)
    add(delta.lockedBytes, at: ControlLayout.lockedBytesOffset)
    return counters
  }

  /// The counters as they are; they mean something once they are known.
  var counters: BlobStore.UsageEstimate? {
    guard map != nil else { return nil }
    func value(at offset: Int) -> Int64 { counter(offset) { $0.load(ordering: .relaxed) } }
    return BlobStore.UsageEstimate(
      records: value(at: ControlLayout.recordsOffset), bytes: value(at: ControlLayout.bytesOffset),
      lockedRecords: value(at: ControlLayout.lockedRecordsOffset),
      lockedBytes: value(at: ControlLayout.lockedBytesOffset))
  }

  /// The counters at a moment at which nobody is changing anything: a store is counted before it is published, and whoever
  /// lists the directory in between does not meet it. As they are where there is no such moment for a while.
  ///
  /// Waited for with all stripes locked at once, by a description of its own, which keeps the threads of this process
  /// out too. Where the directory is one store's alone, there is nothing to wait for: it locks no stripes.
  ///
  /// That moment also tells which changes of headers have died.
  ///
  /// - Parameter isStopped: asked before each wait; then there is none.
  func settledCounters(
    in root: RootDirectory.Opened, within timeout: Duration, unless isStopped: () -> Bool
  ) throws -> BlobStore.UsageEstimate? {
    guard map != nil, case .regular(let file, _) = try root.directory.openFile(Self.name, for: .readWrite) else {
      return counters
    }
    var backoff = Backoff(timeout: timeout)
    while try !file.tryLock(bytes: ControlLayout.stripeBytes) {
      guard !isStopped(), backoff.wait() else { return counters }
    }
    let settled = counters
    forgetHeaderChanges()
    try file.unlock(bytes: ControlLayout.stripeBytes)
    return settled
  }

  /// Whether a full enumeration has counted the directory since the file was made.
  var countersAreKnown: Bool {
    map != nil && counter(ControlLayout.countersAreKnownOffset) { $0.load(ordering: .acquiring) } == 1
  }

  /// Corrects the counters by a full enumeration.
  ///
  /// Of what others added during the enumeration, nobody knows how much it has met. It is taken for not met: counters
  /// that say too much have the next collection made early, those that say too little would let stores exceed a limit.
  ///
  /// - Parameter start: the counters when it began.
  func correctCounters(to found: BlobStore.UsageEstimate, since start: BlobStore.UsageEstimate) {
    guard let now = counters else { return }
    let during = now - start
    func add(_ value: Int64, at offset: Int) { counter(offset) { _ = $0.wrappingAdd(value, ordering: .relaxed) } }
    add(found.records &+ max(during.records, 0) &- now.records, at: ControlLayout.recordsOffset)
    add(found.bytes &+ max(during.bytes, 0) &- now.bytes, at: ControlLayout.bytesOffset)
    add(found.lockedRecords &+ max(during.lockedRecords, 0) &- now.lockedRecords, at: ControlLayout.lockedRecordsOffset)
    add(found.lockedBytes &+ max(during.lockedBytes, 0) &- now.lockedBytes, at: ControlLayout.lockedBytesOffset)
    counter(ControlLayout.countersAreKnownOffset) { $0.store(1, ordering: .releasing) }
  }
}
