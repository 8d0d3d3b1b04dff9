internal import ArgumentParser

/// Runs processes on one directory with random kills and stops, and compares histories with the specification.
@main struct Torture: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "torture",
    abstract: "Drive a cache directory from many processes at once, and check that each key is linearizable.",
    subcommands: [
      RunCommand.self, LocksCommand.self, LimitCommand.self, SoakCommand.self, LooksCommand.self, RequestsCommand.self,
      WorkerCommand.self,
    ])
}
