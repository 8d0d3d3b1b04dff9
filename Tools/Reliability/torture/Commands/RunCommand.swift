internal import ArgumentParser
internal import Foundation

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run",
    abstract: "Run workers at one directory, then check what they saw.",
    discussion: """
      Prints one object of JSON; what was found goes to standard error, with the seed and the command to run again. \
      The run at full size, about ten minutes of two processors: torture run --processes 8 --operations 2000000 \
      --seconds 1800 --kills --stops --collector. The seed fixes what each thread asks for, not how the threads meet. Exit status 0: nothing was found; 1: \
      something was; 2: the run could not be made. The histories stay in DIRECTORY/history.
      """)

  @OptionGroup var options: RunOptions

  func run() throws {
    var found: [String] = []
    do {
      let coordinator = try Coordinator(options)
      try coordinator.run()
      var report = coordinator.report
      let check = try HistoryCheck(options, coordinator)
      found = check.findings(&report)
      report.violations = found.count
      try report.write()
    } catch {
      writeError("\(error)")
      throw ExitCode(2)
    }
    guard !found.isEmpty else { return }
    for finding in found.prefix(8) { writeError(finding) }
    writeError("\(found.count) violations; seed \(options.seed); again, with another directory: \(options.command)")
    throw ExitCode(1)
  }
}
