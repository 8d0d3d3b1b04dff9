internal import Logging
internal import Posix
internal import SystemPackage

/// Opens, creates and enlarges the file of use counts. A failure makes eviction less accurate, and is only logged.
struct UseCounting: Sendable {
  private let names: TemporaryNames
  private let logger: Logger
  /// A Boolean value that indicates whether stores create the file, because a limit evicts records by frequency.
  private let makesFile: Bool

  init(names: TemporaryNames, _ configuration: BlobStore.Configuration) {
    self.names = names
    logger = configuration.logger
    makesFile =
      configuration.limits.eviction == .frequency
      && (configuration.limits.size != nil || configuration.limits.count != nil)
  }

  /// Runs a closure with the directory's sketch of uses, if it exists.
  func withSketch<Result>(
    of control: ControlFile, in open: OpenRoot, _ body: (UseSketch) -> Result
  ) -> Result? {
    guard control.isMapped else { return nil }
    let number = control.word(at: ControlLayout.usesNumberOffset)
    return control.uses.withSketch(number, opening: { sketch(number, in: open) }, body)
  }

  /// A Boolean value that indicates whether `withSketch` can run without opening a file.
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

  /// Creates the file of uses after a store, or enlarges it if it has less capacity than there are records.
  func keepUp(with control: ControlFile, in open: OpenRoot) {
    guard makesFile, let records = control.counters?.records else { return }
    let capacity = withSketch(of: control, in: open) { $0.layout.recordCapacity }
    // If no file can be opened, only one is created for each control file, so that not every store tries again.
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
      // The new number notifies other processes of the new file.
      control.setWord(.random(in: 1 ... .max), at: ControlLayout.usesNumberOffset)
    } catch {
      logger.debug("no file of uses: \(BlobStoreError(error, operation: "count uses", key: nil))")
    }
  }
}

// MARK: - Counting

extension UseCounting {
  /// Counts a load and the use of its key for all processes. It makes system calls only to open a new file of uses.
  func count(_ load: CountedLoad, of digest: UInt64, isUse: Bool, at now: UnixTime, in open: OpenRoot?) {
    guard let open, let control = open.openedControlFile else { return }
    count(load, of: digest, isUse: isUse, at: now, in: control, open)
  }

  func count(
    _ load: CountedLoad, of digest: UInt64, isUse: Bool, at now: UnixTime, in control: ControlFile, _ open: OpenRoot
  ) {
    control.count(load, of: digest)
    // A missing key counts as used too, because it may be stored next.
    if isUse { _ = withSketch(of: control, in: open) { $0.count(digest, at: now) } }
  }

  /// Counts a memory hit in files that are already open, without a lock or a system call. Returns `false`, with
  /// nothing counted, if a new file of uses has to be opened first.
  func countHitInMemory(_ hit: MemoryHit, of digest: UInt64, in control: ControlFile) -> Bool {
    let number = hit.isUse ? control.word(at: ControlLayout.usesNumberOffset) : 0
    guard control.uses.isKnown(number) else { return false }
    control.count(.hitInMemory(byteCount: hit.byteCount), of: digest)
    if number != 0 { _ = control.uses.withKnownSketch(number) { $0.count(digest, at: hit.time) } }
    return true
  }

  /// Counts a store, and creates or enlarges the file of uses if it is due.
  func countStore(of digest: UInt64, byteCount: Int64, at now: @autoclosure () -> UnixTime, in open: OpenRoot) {
    guard let control = open.openedControlFile else { return }
    control.countStore(of: digest, byteCount: byteCount, at: now())
    keepUp(with: control, in: open)
  }
}
