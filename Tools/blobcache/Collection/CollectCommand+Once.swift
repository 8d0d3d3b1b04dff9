internal import BlobStore
internal import Posix
internal import SystemPackage
internal import TextFormats

// A single pass over each directory.
extension CollectCommand {
  func collectOnce(_ plan: CollectionPlan, _ output: inout Output) -> Answer {
    let metrics = MetricsFile(plan)
    var answer = Answer.done
    for directory in plan.directories {
      do {
        let store = try directory.store(options)
        let movedAll = try moveRecords(of: directory, store, &output)
        if !movedAll { answer = .failed }
        let report = try collect(directory, store)
        if options.json {
          output.line(JSONObject(report))
        } else if !options.quiet {
          output.line(report.text)
        }
        report.reportChangeOfOwner(options)
        let counted = try DirectoryCounts(of: store)
        metrics.change { $0.add(report, counted, to: directory) }
        answer.worsen(to: self.answer(to: report, of: store, directory))
      } catch let error as BlobStoreError where error.code == .collectionRunning {
        // Another process is collecting the directory, which is not a failure.
        metrics.change { $0.addSkip(to: directory) }
        if options.json {
          output.line(JSONObject(skipped: directory.path, process: error.runningProcess))
        } else if !options.quiet {
          output.line("\(directory.path.string.printable): skipped: \(error.message)")
        }
      } catch {
        // A failure in one directory does not affect the others.
        StandardError.report(Self.text(of: error))
        ChangeOfOwner.report(directory.path, after: error)
        metrics.change { $0.addFailure(to: directory) }
        answer = .failed
      }
    }
    if !dryRun, !metrics.write() { answer = .failed }
    return answer
  }

  /// Moves records into packs or out of packs if an option requests it.
  ///
  /// - Returns: A Boolean value that indicates whether all records could be moved.
  private func moveRecords(
    of directory: CollectionPlan.Directory, _ store: BlobStore, _ output: inout Output
  ) throws -> Bool {
    guard pack || unpack else { return true }
    guard !pack || store.configuration.packing?.bound != nil else {
      throw CommandFailure(
        "collect: \(directory.path): packing is off; `blobcache configure \(directory.path) --packing 8KiB` turns it on"
      )
    }
    let report = pack ? try store.packRecords() : try store.unpackRecords()
    let name = pack ? "pack" : "unpack"
    if options.json {
      output.line(JSONObject(report, name, directory.path))
    } else if !options.quiet {
      output.line("\(directory.path.string.printable): \(report.text(pack ? "packed" : "unpacked"))")
    }
    return report.failed == 0
  }

  /// Reports an exceeded limit or a wrong directory after a pass.
  private func answer(
    to report: BlobStore.CollectionReport, of store: BlobStore, _ directory: CollectionPlan.Directory
  ) -> Answer {
    var answer = Answer.done
    if let limit = ExceededLimit(report, store) {
      StandardError.report("\(directory.path): \(limit.text)")
      answer = .no
    }
    // The collection reported each failure when it occurred.
    if report.failed > report.busy { answer = .failed }
    if report.examined == 0, report.temporary == 0, report.foreignRecords.files == 0 {
      answer.worsen(to: WrongDirectory.answer(directory.path, options))
    }
    return answer
  }

  private func collect(_ directory: CollectionPlan.Directory, _ store: BlobStore) throws -> BlobStore.CollectionReport {
    var collection = BlobStore.CollectionOptions(dryRun: dryRun, maximumTime: directory.maximumTime?.duration)
    collection.emptiesBin = emptyBin
    collection.requiresCache = true
    // Without a time limit.
    if wait { collection.waitsForOther = .seconds(Int64.max) }
    let bytesName = dryRun ? "to free" : "freed"
    if let progress = ProgressBar(directory.path.string, bytesName: bytesName, quiet: options.quiet) {
      collection.progress = { progress.show($0) }
    }
    return try store.collect(collection)
  }
}
