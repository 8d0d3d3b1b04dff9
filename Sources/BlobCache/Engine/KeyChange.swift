internal import BlobRecord
internal import BlobStore

/// A store or a removal of a key that is under way.
///
/// While it lives, no staged blob of the key is written, and no production of the key that began before its end is stored or
/// joined, unless the change is that production's own. What was staged is replaced when the change is finished. If the value
/// is dropped before, as when the change throws, the staged blob waits to be written again.
struct KeyChange: ~Copyable {
  private let engine: CacheEngine
  private let key: BlobKey
  private let supersedesProductions: Bool
  /// `nil` where nothing is staged, or what is staged stays.
  private let staging: StagingArea?
  private let replaced: StagingArea.Staged?
  private var isFinished = false

  /// A Boolean value that indicates whether a blob was staged. The record on disk then has locks that are not to be kept.
  var wasStaged: Bool { replaced != nil }

  /// Begins a change. Blocks while another thread writes the key's staged blob.
  ///
  /// - Parameters:
  ///   - key: the key that is changed.
  ///   - condition: of the change. One that judges the record on disk has the staged blob written first.
  ///   - replacingStaged: whether the change replaces what is staged.
  ///   - engine: the engine that makes the change.
  init(of key: BlobKey, if condition: StoreCondition? = nil, replacingStaged: Bool = true, in engine: CacheEngine) {
    self.engine = engine
    self.key = key
    supersedesProductions = condition?.isOfProduction != true
    staging = replacingStaged ? engine.staging : nil
    if supersedesProductions { engine.productions.beginChange(of: key) }
    var taken = staging?.next(for: key)
    while let staged = taken, condition?.isJudged == true {
      staging?.putBack(staged)
      // A failure is kept for the next flush.
      engine.writeStaged(key)
      taken = staging?.next(for: key)
    }
    replaced = taken
  }

  /// Ends a change that was made.
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
