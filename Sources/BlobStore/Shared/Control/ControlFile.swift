internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization

/// `.blobcache` at the root: the locks of the stripes, and in shared memory the generations, the counters and the hint.
final class ControlFile: Sendable {
  static let name = ".blobcache"

  let file: SharedFile
  /// Read once: nothing changes it.
  let generationBase: UInt64
  let hasLeftHint = Atomic(false)
  /// Of those under way, this process's (`hasHeaderChanges`).
  let headerChangesHere = Atomic(0)
  /// With which this process holds stripes.
  let session = Session()
  /// The files of uses that were mapped for it.
  let uses = OpenUses()
  private let hasMadeUses = Atomic(false)
  /// Whether there were no packs when this process looked for them last, and no index was in force.
  let hasNoPacks = Atomic(false)
  private let isRetired = Atomic(false)

  private init(_ file: SharedFile) {
    self.file = file
    // Made even, because odd means that a payload is being changed.
    generationBase =
      file.isReadable
      ? file.withWord(at: ControlLayout.generationBaseOffset, as: UInt64.self) { $0.load(ordering: .relaxed) & ~1 } : 0
  }

  /// Opens the control file of a directory, if there is one.
  ///
  /// - Parameter access: `read` for a process that may not write to it: it reads generations and finds packed records.
  static func open(
    in directory: borrowing Directory, _ ownership: FileOwnership, logger: Logger, for access: FileAccess = .readWrite
  ) throws -> ControlFile? {
    try SharedFile.open(format, in: directory, ownership, logger: logger, for: access).map(ControlFile.init)
  }

  static let format = SharedFile.Format(
    name: name, title: "the control file", loss: "no generations and no counters", magic: ControlLayout.magic,
    version: ControlLayout.version, byteCount: ControlLayout.byteCount,
    lockedBytes: ControlLayout.collectorByte..<ControlLayout.collectorByte + 1, sharedBytes: ControlLayout.stripeBytes,
    firstWords: {
      // Each generation is the sum of this random base and a count, so that a memory tier never takes a new file's
      // generations for an old one's. The base has 62 bits, which leaves room for the counts.
      var words = [UInt64](repeating: 0, count: ControlLayout.generationsOffset / 8)
      words[ControlLayout.magicOffset / 8] = ControlLayout.magic
      words[ControlLayout.versionOffset / 8] = ControlLayout.version
      words[ControlLayout.generationBaseOffset / 8] = UInt64.random(in: 0..<1 << 62) & ~1
      return words
    })
}

// MARK: - Being in force

extension ControlFile {
  /// Whether its generations are those of the directory at the store's path, as far as that is known.
  var isInForce: Bool { !isRetired.load(ordering: .acquiring) }

  /// The file was deleted or replaced, or another directory may be at the path.
  func retire() { isRetired.store(true, ordering: .releasing) }
}

// MARK: - Uses

extension ControlFile {
  /// Whether no file of uses was made for it so far; true once.
  func mayMakeUses() -> Bool {
    !hasMadeUses.load(ordering: .relaxed) && !hasMadeUses.exchange(true, ordering: .relaxed)
  }
}

// MARK: - Words

extension ControlFile {
  /// Whether there is memory to share, in which this process may write too.
  var isMapped: Bool { file.isMapped }

  /// Whether there are words to read.
  var isReadable: Bool { file.isReadable }

  func word(at offset: Int) -> Int64 { counter(offset) { $0.load(ordering: .acquiring) } }

  func setWord(_ value: Int64, at offset: Int) { counter(offset) { $0.store(value, ordering: .releasing) } }

  func counter<Result>(_ offset: Int, _ body: (borrowing Atomic<Int64>) -> Result) -> Result {
    file.withWord(at: offset, as: Int64.self, body)
  }
}
