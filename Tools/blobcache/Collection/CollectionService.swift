internal import BlobStore
internal import Locks
internal import Posix
internal import ServiceLifecycle
internal import SystemPackage
internal import TextFormats
internal import UnixSignals

/// Collects directories, each by a schedule of its own, until SIGTERM or SIGINT. SIGHUP has the configuration read
/// again.
final class CollectionService: Service {
  private struct State {
    var plan: CollectionPlan
    var slots: CollectionSlots
    var schedules: [CollectionPlan.Directory: CollectionSchedule] = [:]
  }

  private let options: DirectoryOptions
  private let readPlan: @Sendable () throws -> CollectionPlan
  private let metrics: MetricsFile
  private let output = Lock(Output())
  /// Changed by one task: the service's own.
  private let state: Lock<State>

  /// - Parameter readPlan: what command line, environment and configuration file say when it is called.
  init(plan: CollectionPlan, options: DirectoryOptions, readPlan: @escaping @Sendable () throws -> CollectionPlan) {
    self.options = options
    self.readPlan = readPlan
    metrics = MetricsFile(plan)
    state = Lock(State(plan: plan, slots: CollectionSlots(plan.parallel)))
  }

  /// Blocks until the service was told to stop and has stopped. Everything asynchronous begins here, so that it costs
  /// other subcommands nothing.
  func run() throws {
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: [.init(service: self)], gracefulShutdownSignals: [.sigterm, .sigint], logger: options.logger))
    let end = Monitor<Result<Void, any Error>?>(nil)
    Task {
      do {
        try await group.run()
        end.change { $0 = .success(()) }
      } catch {
        end.change { $0 = .failure(error) }
      }
    }
    try end.wait { end in end.map { .done($0) } ?? .wait(nil) }.get()
  }

  func run() async throws {
    // Before the first pass: a program that sees its report may send the signal.
    let hangups = await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown()
    startMissing()
    metrics.write()
    for await _ in hangups { await reload() }
    await stop(state.withLock { state in Array(state.schedules.keys) })
    metrics.write()
  }
}

// MARK: - Schedules

extension CollectionService {
  /// Starts what the plan has and does not run.
  private func startMissing() {
    state.withLock { state in
      for directory in state.plan.directories where state.schedules[directory] == nil {
        do {
          var collection = BlobStore.CollectionOptions(maximumTime: directory.maximumTime?.duration)
          collection.requiresCache = true
          let schedule = CollectionSchedule(
            of: directory.path, timing: directory.timing(firstDelay: state.plan.firstDelay),
            options: collection, slots: state.slots,
            logger: options.logger,
            // Anew for each pass: the directory's program may come later than this service, and change its hint.
            opening: { [options] () throws(BlobStoreError) in try directory.store(options) },
            report: { [weak self] in self?.report($0, directory) })
          try schedule.start()
          state.schedules[directory] = schedule
        } catch {
          StandardError.report(CollectCommand.text(of: error))
          metrics.change { $0.addFailure(to: directory) }
        }
      }
    }
  }

  private func stop(_ directories: [CollectionPlan.Directory]) async {
    let schedules = state.withLock { state in directories.compactMap { state.schedules.removeValue(forKey: $0) } }
    for schedule in schedules { schedule.stop() }
    for schedule in schedules { await schedule.stopped() }
  }

  /// Directories whose settings are as they were are left alone.
  private func reload() async {
    do {
      let plan = try readPlan()
      guard plan.interval != nil else { throw UsageError("the configuration does not say every any more") }
      let outdated = state.withLock { state in
        let keepsSlots = state.plan.parallel == plan.parallel
        if !keepsSlots { state.slots = CollectionSlots(plan.parallel) }
        state.plan = plan
        return state.schedules.keys.filter { !keepsSlots || !plan.directories.contains($0) }
      }
      await stop(outdated)
      metrics.follow(plan)
      metrics.change { $0.configurationIsSound = true }
      startMissing()
      if !options.quiet { StandardError.report("the configuration was read again") }
    } catch {
      metrics.change { $0.configurationIsSound = false }
      StandardError.report("the configuration stays as it was: \(error)")
    }
    metrics.write()
  }
}

// MARK: - Reports

extension CollectionService {
  private func report(_ outcome: CollectionSchedule.Outcome, _ directory: CollectionPlan.Directory) {
    switch outcome {
    case .finished(let report):
      // A directory that cannot be opened any more is reported by its next pass.
      let counted = try? DirectoryCounts(of: directory.store(options))
      metrics.change { $0.add(report, counted, to: directory) }
      report.reportChangeOfOwner(options)
      print(JSONObject(report), report.text)
    case .skippedAsRecent(let lastPass):
      metrics.change { $0.addSkip(to: directory) }
      print(
        JSONObject(skipped: directory.path, lastPass: lastPass),
        "\(directory.path.string.printable): skipped: the last pass was at \(lastPass.iso8601)")
    case .skippedAsRunning(let error):
      metrics.change { $0.addSkip(to: directory) }
      print(
        JSONObject(skipped: directory.path, process: error.runningProcess),
        "\(directory.path.string.printable): skipped: \(error.message)")
    case .failed(let error):
      metrics.change { $0.addFailure(to: directory) }
      StandardError.report(CollectCommand.text(of: error))
    }
    metrics.write()
  }

  private func print(_ object: @autoclosure () -> JSONObject, _ text: @autoclosure () -> String) {
    guard options.json || !options.quiet else { return }
    output.withLock { output in
      if options.json {
        output.line(object())
      } else {
        output.line(text())
      }
      output.flush()
    }
  }
}
