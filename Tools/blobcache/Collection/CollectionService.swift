internal import BlobStore
internal import Locks
internal import Posix
internal import ServiceLifecycle
internal import SystemPackage
internal import TextFormats
internal import UnixSignals

/// A service that collects each directory on its own schedule until SIGTERM or SIGINT, and reloads the configuration
/// on SIGHUP.
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
  /// Only the service's own task changes the state.
  private let state: Lock<State>

  /// - Parameter readPlan: A closure that reads the command line, the environment and the configuration file.
  init(plan: CollectionPlan, options: DirectoryOptions, readPlan: @escaping @Sendable () throws -> CollectionPlan) {
    self.options = options
    self.readPlan = readPlan
    metrics = MetricsFile(plan)
    state = Lock(State(plan: plan, slots: CollectionSlots(plan.parallel)))
  }

  /// Blocks until the service has stopped. Asynchronous code starts only here, so that other subcommands do not pay
  /// for it.
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
    // Trapped before the first pass, because a program may send the signal once it sees the pass's report.
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
  /// Starts the schedules of directories in the plan that have no schedule yet.
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
            // Opened for each pass, because the directory's program may start later and record its configuration.
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

  /// Reads the configuration again and restarts only the schedules whose settings have changed.
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
      // If the directory can no longer be opened, the next pass reports it.
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
