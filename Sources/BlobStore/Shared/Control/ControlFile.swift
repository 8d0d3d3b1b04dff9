internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization

/// `.blobcache` at the root: the locks of stripes, and in shared memory generations, counters, and the hint.
final class ControlFile: Sendable {
  static let name = ".blobcache"

  let file: SharedFile
  let generationBase: UInt64
  let placesTag: Int64?
  let hasLeftHint = Atomic(false)
  /// The number of changes in progress by this process (`hasHeaderChanges`).
  let headerChangesHere = Atomic(0)
  let session = Session()
  let uses = OpenUses()
  private let hasMadeUses = Atomic(false)
  /// A Boolean value that indicates whether the last check found neither packs nor an index in force.
  let hasNoPacks = Atomic(false)
  private let isRetired = Atomic(false)

  private init(_ file: SharedFile) {
    self.file = file
    placesTag = Self.placesTag(of: file)
    // The base is even, because an odd generation indicates a change of the payload.
    generationBase =
      file.isReadable
      ? file.withWord(at: ControlLayout.generationBaseOffset, as: UInt64.self) { $0.load(ordering: .relaxed) & ~1 } : 0
  }

  /// Opens the control file of a directory, if it exists, with `read` access for a process that may not write to it.
  static func open(
    in directory: borrowing Directory, _ ownership: FileOwnership, logger: Logger, for access: FileAccess = .readWrite
  ) throws -> ControlFile? {
    try SharedFile.open(format, in: directory, ownership, logger: logger, for: access).map(ControlFile.init)
  }

  static let format = format(countersAreKnown: false)

  /// Returns the format of a new file, whose counters are known if the directory contains no record, and whose places
  /// are known if it is `adaptive`, too.
  static func format(countersAreKnown: Bool, isAdaptive: Bool = false) -> SharedFile.Format {
    SharedFile.Format(
      name: name, title: "the control file", loss: "no generations and no counters", magic: ControlLayout.magic,
      version: ControlLayout.version, byteCount: ControlLayout.byteCount, isSparse: true, hasOneName: true,
      lockedBytes: ControlLayout.collectorByte..<ControlLayout.collectorByte + 1,
      sharedBytes: ControlLayout.stripeBytes, fillingByte: ControlLayout.fillingByte,
      firstWords: {
        // The sum of this random base and a count is a generation, so that a memory tier never accepts the generations
        // of an older file. The base has 62 bits, which leaves room for the counts.
        var words = [UInt64](repeating: 0, count: ControlLayout.generationsOffset / 8)
        words[ControlLayout.magicOffset / 8] = ControlLayout.magic
        words[ControlLayout.versionOffset / 8] = ControlLayout.version
        words[ControlLayout.countersAreKnownOffset / 8] = countersAreKnown ? 1 : 0
        words[ControlLayout.placesOffset / 8] = countersAreKnown && isAdaptive ? UInt64(placesOfNewFile) : 0
        words[ControlLayout.generationBaseOffset / 8] = UInt64.random(in: 0..<1 << 62) & ~1
        for word in 0..<2 { words[ControlLayout.secretOffset / 8 + word] = .random(in: 0 ... .max) }
        return words
      })
  }
}

// MARK: - Validity

extension ControlFile {
  /// A Boolean value that indicates whether the file is known to belong to the directory at the store's path.
  var isInForce: Bool { !isRetired.load(ordering: .acquiring) }

  /// Marks the file as deleted or replaced, or the path as possibly leading to another directory.
  func retire() { isRetired.store(true, ordering: .releasing) }
}

// MARK: - Uses

extension ControlFile {
  /// Returns `true` only once, so that a process that cannot open the file of uses creates it only once.
  func mayMakeUses() -> Bool {
    !hasMadeUses.load(ordering: .relaxed) && !hasMadeUses.exchange(true, ordering: .relaxed)
  }
}

// MARK: - Pages

extension ControlFile {
  /// Allocates the pages that a change of a key writes to, before the key's stripe is taken.
  ///
  /// System calls: none, or `fallocate(2)` for each page to which this process has not written.
  func allocate(forChangeOf digest: UInt64) throws(FileError) {
    guard isMapped else { return }
    try allocateGeneration(of: digest)
    try allocateStripe(ControlLayout.stripe(of: digest))
  }

  func allocateGeneration(of digest: UInt64) throws(FileError) {
    try file.allocate(ControlLayout.generationOffset(of: digest))
  }

  /// Allocates the pages of all stripes.
  func allocateStripes() throws(FileError) {
    for stripe in 0..<ControlLayout.stripeCount { try allocateStripe(stripe) }
  }

  private func allocateStripe(_ stripe: Int) throws(FileError) {
    guard try file.allocate(ControlLayout.stripeOffset(stripe)) else { return }
    // A page without held stripes would consist of zeros, which a sparse copy would turn into a hole. Then nothing could
    // be removed from a copy on a full volume.
    setWord(1, at: ControlLayout.firstStripeOffset(stripe))
  }
}

// MARK: - Words

extension ControlFile {
  var isMapped: Bool { file.isMapped }

  var isReadable: Bool { file.isReadable }

  func word(at offset: Int) -> Int64 { counter(offset) { $0.load(ordering: .acquiring) } }

  func setWord(_ value: Int64, at offset: Int) { counter(offset) { $0.store(value, ordering: .releasing) } }

  func counter<Result>(_ offset: Int, _ body: (borrowing Atomic<Int64>) -> Result) -> Result {
    file.withWord(at: offset, as: Int64.self, body)
  }
}
