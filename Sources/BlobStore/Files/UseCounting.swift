internal import Logging
internal import Posix
internal import SystemPackage

/// Finds the file of uses, and makes and enlarges it.
///
/// A failure costs hits: it is logged, and no call fails for it.
struct UseCounting: Sendable {
  private let names: TemporaryNames
  private let logger: Logger
  /// Whether stores make the file: where they keep a limit, in the order of use.
  private let makesFile: Bool

  init(names: TemporaryNames, _ configuration: BlobStore.Configuration) {
    self.names = names
    logger = configuration.logger
    makesFile =
      configuration.limits.eviction == .frequency
      && (configuration.limits.size != nil || configuration.limits.count != nil)
  }

  /// Runs a closure with the directory's sketch of uses; nil without one.
  func withSketch<Result>(
    of control: ControlFile, in open: OpenRoot, _ body: (UseSketch) -> Result
  ) -> Result? {
    guard control.isMapped else { return nil }
    let number = control.word(at: ControlLayout.usesNumberOffset)
    return control.uses.withSketch(number, opening: { sketch(number, in: open) }, body)
  }

  /// Whether `withSketch` opens no file.
  func areOpen(of control: ControlFile) -> Bool {
    control.uses.isKnown(control.word(at: ControlLayout.usesNumberOffset))
  }

  private func sketch(_ number: Int64, in open: OpenRoot) -> UseSketch? {
    do {
      guard let status = try open.directory.status(of: UsesFile.name),
        let layout = UsesLayout(byteCount: status.size),
        let file = try SharedFile.open(UsesFile.format(layout), in: open.directory, open.ownership, logger: logger),
        file.isMapped
      else { return nil }
      return UseSketch(file, layout, number: number)
    } catch {
      logger.debug("\(BlobStoreError(error, operation: "count uses", key: nil))")
      return nil
    }
  }

  /// A record was stored: makes the file of uses, or a larger one if there are more records than it tells apart.
  func keepUp(with control: ControlFile, in open: OpenRoot) {
    guard makesFile, let records = control.counters?.records else { return }
    let capacity = withSketch(of: control, in: open) { $0.layout.recordCapacity }
    // One file for each control file, if none can be opened: nothing is tried anew with each store.
    guard capacity.map({ $0 < records && $0 < UsesLayout.mostRecords }) ?? control.mayMakeUses() else { return }
    enlarge(to: UsesLayout(records: records), control, in: open)
  }

  private func enlarge(to layout: UsesLayout, _ control: ControlFile, in open: OpenRoot) {
    do {
      let words = withSketch(of: control, in: open) { $0.words(in: layout) } ?? UsesFile.emptyWords(of: layout)
      let format = UsesFile.format(layout) { words }
      if let status = try open.directory.status(of: UsesFile.name) {
        // A foreign file stays, and no uses are counted.
        guard status.type == .regular, open.ownership.owns(status) else { return }
        try SharedFile.replace(format, in: open, names: names)
      } else {
        _ = try SharedFile.make(format, in: open, names: names)
      }
      // Others find by another number that there is another file.
      control.setWord(.random(in: 1 ... .max), at: ControlLayout.usesNumberOffset)
    } catch {
      logger.debug("no file of uses: \(BlobStoreError(error, operation: "count uses", key: nil))")
    }
  }
}

// MARK: - Counting

extension StoreCore {
  /// Counts a load for all processes: what it has come to, and that its key was used.
  ///
  /// - Parameters:
  ///   - isUse: false for a load that does not touch.
  ///   - open: where it looked; nil if there is no directory, and nothing to count in.
  /// - Complexity: no system call, unless there is a new file of uses.
  func count(_ load: CountedLoad, of digest: UInt64, isUse: Bool, at now: UnixTime, in open: OpenRoot?) {
    guard let open, let control = open.openedControlFile else { return }
    count(load, of: digest, isUse: isUse, at: now, in: control, open)
  }

  /// Asks the processor for the lines of shared tables that a load of a key looks at. They lie where the digest says, and one
  /// miss after the other would cost as much as the read.
  ///
  /// - Complexity: no system call.
  func prefetch(forLoadOf digest: UInt64, in control: ControlFile) {
    guard control.isMapped, control.packIndexNumber != 0 else { return }
    packHolder.prefetch(digest, control)
    control.file.prefetch(at: ControlLayout.generationOffset(of: digest))
    let number = control.word(at: ControlLayout.usesNumberOffset)
    if number != 0 { _ = control.uses.withKnownSketch(number) { $0.prefetch(digest) } }
  }

  /// Counts a load in files that are open.
  func count(
    _ load: CountedLoad, of digest: UInt64, isUse: Bool, at now: UnixTime, in control: ControlFile, _ open: OpenRoot
  ) {
    control.count(load, of: digest)
    // A missing key was asked for too: it may be stored next.
    if isUse { _ = uses.withSketch(of: control, in: open) { $0.count(digest, at: now) } }
  }

  /// Counts a hit in memory, in files that are open.
  ///
  /// - Returns: false, with nothing counted, if a new file of uses has to be opened first.
  /// - Complexity: no lock and no system call.
  func countHitInMemory(_ hit: MemoryHit, of digest: UInt64, in control: ControlFile) -> Bool {
    let number = hit.isUse ? control.word(at: ControlLayout.usesNumberOffset) : 0
    guard control.uses.isKnown(number) else { return false }
    control.count(.hitInMemory(byteCount: hit.byteCount), of: digest)
    if number != 0 { _ = control.uses.withKnownSketch(number) { $0.count(digest, at: hit.time) } }
    return true
  }

  /// Counts a record that was stored.
  func countStore(of digest: UInt64, byteCount: Int64, in open: OpenRoot) {
    guard let control = open.openedControlFile else { return }
    control.countStore(of: digest, byteCount: byteCount, at: configuration.now())
    uses.keepUp(with: control, in: open)
  }
}
