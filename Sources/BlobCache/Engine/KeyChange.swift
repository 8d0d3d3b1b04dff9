internal import BlobRecord
internal import BlobStore

/// A store or a removal of a key in progress.
///
/// While the value exists, no staged blob of the key is written, and no production of the key that began before the
/// change ended is stored or joined, unless the change belongs to it. The staged blob is replaced when the change is
/// finished. If the value is dropped before, for example after an error, the staged blob is queued for writing again.
struct KeyChange: ~Copyable {
  private let engine: CacheEngine
  private let key: BlobKey
  private let supersedesProductions: Bool
  /// The staging area, or `nil` if the cache has none or the change keeps the staged blob.
  private let staging: StagingArea?
  private let replaced: StagingArea.Staged?
  private var isFinished = false

  /// A Boolean value that indicates whether a blob was staged; the locks on disk must not be kept then.
  var wasStaged: Bool { replaced != nil }

  /// Begins a change. Blocks while another thread writes the key's staged blob.
  ///
  /// If the condition depends on the record on disk, the staged blob is written first.
  init(of key: BlobKey, if condition: StoreCondition? = nil, replacingStaged: Bool = true, in engine: CacheEngine) {
    self.engine = engine
    self.key = key
    supersedesProductions = condition?.isOfProduction != true
    staging = replacingStaged ? engine.staging : nil
    if supersedesProductions { engine.productions.beginChange(of: key) }
    var taken = staging?.next(for: key)
    while let staged = taken, condition?.isJudged == true {
      staging?.putBack(staged)
      // A failure is recorded for the next flush.
      engine.writeStaged(key)
      taken = staging?.next(for: key)
    }
    replaced = taken
  }

  consuming func finish() { isFinished = true }

  deinit {
    if isFinished {
      if replaced != nil { staging?.finish(key, nil) }
    } else {
      if let replaced { staging?.putBack(replaced) }
      if staging != nil { engine.startWritingStaged() }
    }
    if supersedesProductions { engine.productions.endChange(of: key) }
  }
}
